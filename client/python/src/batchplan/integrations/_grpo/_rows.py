"""Rows of a generation batch without their padding, and their way to the ranks that train on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

Whole = NDArray[numpy.int64]
# What padding holds where it is not masked everywhere: VESPO's loss adds up the logarithms of ratios.
_PAD_VALUES = {"importance_sampling_ratio": 1, "tool_mask": 1}
_MASKS = ("prompt_mask", "completion_mask")
# TRL's fields of one entry a token of the completion; the others are of rows.
_OF_TOKENS = ("completion_ids", "tool_mask", "old_per_token_logps", "ref_per_token_logps",
              "sampling_per_token_logps", "importance_sampling_ratio")  # fmt: skip
# TRL's losses tell a value of each sequence from one of each token by a width of 1.
_NARROWEST = 2


@dataclasses.dataclass
class Rows:
    """Prompts and completions as TRL's trainers keep them between generation and loss.

    Attributes:
        prompts, completions: tokens of each row, [n].
        of_prompts, of_completions: by name one entry a token, row behind row.
        of_rows: by name one entry a row, [n, ...].
        common: what all rows share, such as num_items_in_batch.
    """

    prompts: Whole
    completions: Whole
    of_prompts: dict[str, torch.Tensor]
    of_completions: dict[str, torch.Tensor]
    of_rows: dict[str, torch.Tensor]
    common: dict[str, Any]

    def __len__(self) -> int:
        return len(self.prompts)

    @classmethod
    def of(cls, batches: Sequence[Mapping[str, Any]], ratios_of_rows: bool = False) -> Rows:
        """Of micro-batches as TRL cuts them: prompts padded on the left, completions on the right.

        Args:
            ratios_of_rows: importance_sampling_ratio has one entry a row, [n, 1].

        Raises:
            ValueError: a prompt has no tokens; or they hold what is not understood, such as images, by its name.
        """
        parts = [cls._of_one(one, ratios_of_rows) for one in batches]
        first = parts[0]

        def joined(kind: str) -> dict[str, torch.Tensor]:
            fields = [getattr(part, kind) for part in parts]
            return {name: torch.cat([one[name] for one in fields]) for name in getattr(first, kind)}

        return cls(
            numpy.concatenate([part.prompts for part in parts]),
            numpy.concatenate([part.completions for part in parts]),
            joined("of_prompts"), joined("of_completions"), joined("of_rows"), first.common,
        )  # fmt: skip

    @classmethod
    def _of_one(cls, batch: Mapping[str, Any], ratios_of_rows: bool) -> Rows:
        prompt_mask, completion_mask = (batch[name].bool() for name in _MASKS)
        count, width = completion_mask.shape
        prompts, completions = prompt_mask.sum(dim=1), completion_mask.sum(dim=1)
        is_padded = (
            _mask(prompts, prompt_mask.shape[1], left=True).eq(prompt_mask).all()
            & _mask(completions, width).eq(completion_mask).all()
        )
        counts = torch.stack([prompts, completions]).cpu().numpy()
        rows = cls(counts[0], counts[1], {}, {}, {}, {})
        if not is_padded:
            raise ValueError(
                "prompt_mask must be padded on the left and completion_mask on the right, and at least one has "
                "gaps: such a generation batch can't be planned"
            )
        if count and rows.prompts.min() < 1:
            raise ValueError(
                f"prompt {rows.prompts.argmin()} of the generation batch has no tokens; must have at least 1"
            )
        for name, value in batch.items():
            if value is None or name in _MASKS:
                continue
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
            is_of_rows = ratios_of_rows and name == "importance_sampling_ratio"
            if shape == ():
                rows.common[name] = value
            elif name == "prompt_ids":
                rows.of_prompts[name] = value[prompt_mask]
            elif name in _OF_TOKENS and shape == (count, width) and not is_of_rows:
                rows.of_completions[name] = value[completion_mask]
            elif shape == (count,) or is_of_rows and shape == (count, 1):
                rows.of_rows[name] = value
            else:
                kind = type(value).__name__ if shape is None else f"tensor {shape}"
                raise ValueError(
                    f"the generation batch of {count} sequences has {name}, a {kind}, which a plan can't divide "
                    "among ranks: train on text alone, or leave out plan_batches"
                )
        return rows

    def take(self, order: Whole) -> Rows:
        """The rows at these places, in their order."""
        device = next(iter(self.of_prompts.values())).device
        places = {
            lengths: torch.from_numpy(_tokens(getattr(self, lengths), order)).to(device)
            for lengths in ("prompts", "completions")
        }
        rows = torch.from_numpy(order).to(device)
        return Rows(
            self.prompts[order],
            self.completions[order],
            {name: one[places["prompts"]] for name, one in self.of_prompts.items()},
            {name: one[places["completions"]] for name, one in self.of_completions.items()},
            {name: one[rows] for name, one in self.of_rows.items()},
            self.common,
        )

    def batch(self) -> dict[str, Any]:
        """A micro-batch as TRL cuts it, as wide as its longest prompt and its longest completion."""
        device = next(iter(self.of_prompts.values())).device
        prompts, completions = (
            torch.from_numpy(one).to(device) for one in (self.prompts, self.completions)
        )
        mask = _mask(completions, max(int(self.completions.max()), _NARROWEST))
        prompt_mask = _mask(prompts, int(self.prompts.max()), left=True)
        return {
            **{name: _padded(name, one, prompt_mask) for name, one in self.of_prompts.items()},
            "prompt_mask": prompt_mask.long(),
            **{name: _padded(name, one, mask) for name, one in self.of_completions.items()},
            "completion_mask": mask.long(),
            **self.of_rows,
            **self.common,
        }

    def exchanged(self, sent: Whole, arriving: tuple[Whole, Whole], received: Whole) -> Rows:
        """Hands rows on among all ranks, all of which call this.

        Args:
            sent: how many of these rows, in their order, go to each rank.
            arriving: tokens of the prompts and of the completions of the rows that come, by the rank that they come
                from.
            received: how many come from each rank.
        """
        prompts, completions = arriving
        number = {
            "of_rows": (sent, received),
            "of_prompts": (_sums(self.prompts, sent), _sums(prompts, received)),
            "of_completions": (_sums(self.completions, sent), _sums(completions, received)),
        }
        fields = {
            kind: {name: _all_to_all(one, *numbers) for name, one in getattr(self, kind).items()}
            for kind, numbers in number.items()
        }
        return Rows(prompts, completions, common=self.common, **fields)


def _mask(lengths: torch.Tensor, width: int, left: bool = False) -> torch.Tensor:
    """[n, width], True where rows have tokens; padded on the right, or the left."""
    places = torch.arange(width, device=lengths.device)
    return places >= (width - lengths)[:, None] if left else places < lengths[:, None]


def _padded(name: str, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    padded = tokens.new_full(mask.shape, _PAD_VALUES.get(name, 0))
    padded[mask] = tokens
    return padded


def _tokens(lengths: Whole, order: Whole) -> Whole:
    """Places of the tokens of rows that stand one behind the other, for the rows in another order."""
    begins = (numpy.cumsum(lengths) - lengths)[order]
    counts = lengths[order]
    shifts = begins - (numpy.cumsum(counts) - counts)
    places: Whole = numpy.repeat(shifts, counts) + numpy.arange(int(counts.sum()))
    return places


def _sums(lengths: Whole, counts: Whole) -> Whole:
    """The sums of runs of `counts` lengths."""
    ends = numpy.cumsum(counts)
    totals = numpy.concatenate([[0], numpy.cumsum(lengths)])
    sums: Whole = totals[ends] - totals[ends - counts]
    return sums


def _all_to_all(values: torch.Tensor, sent: Whole, received: Whole) -> torch.Tensor:
    """Entries along the first dimension, of any type."""
    shape = values.shape[1:]
    each = values.element_size() * shape.numel()
    arrived = torch.empty(int(received.sum()) * each, dtype=torch.uint8, device=values.device)
    torch.distributed.all_to_all_single(
        arrived,
        values.contiguous().flatten().view(torch.uint8),
        [int(one) * each for one in received],
        [int(one) * each for one in sent],
    )
    return arrived.view(values.dtype).view(-1, *shape)
