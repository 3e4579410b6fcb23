"""Log-probabilities of completions, of rows without the generation batch's padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
import torch

import batchplan
from batchplan.integrations._after_dispatch import own_part
from batchplan.integrations._agreement import gathering_in
from batchplan.integrations._grpo._rows import Whole

# What TRL's method is asked for, beside what it is given to compute it from.
_ASKED = ("compute_entropy", "compute_aux_loss")
# The first token of a row is not scored.
_NARROWEST = 2
Answer = tuple[Any, ...]


@dataclasses.dataclass
class LogProbs:
    """In place of _get_per_token_logps_and_entropies of one of TRL's trainers, while it trains.

    Attributes:
        trainer: of TRL.
        original: its own method, which is called with rows of fewer tokens.
        is_padded: rows are padded to the longest of a micro-batch; else they are one packed row.
        seq_idx: whether the model keeps packed sequences apart by it.
        multiple: the number of tokens in a row is a multiple of this.
        without_gradients: budget and layout where a whole generation batch is asked for.
        options: of such a plan.
    """

    trainer: Any
    original: Callable[..., Answer]
    is_padded: bool
    seq_idx: bool
    multiple: int
    without_gradients: batchplan.Pass
    options: batchplan.PlanOptions

    def __call__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        *others: Any,
        **named: Any,
    ) -> Answer:
        """Args and results are TRL's. With a batch_size, ranks divide their rows by one plan, and must call this
        together; without, the rows are a planned micro-batch's.

        Raises:
            ValueError: with a batch_size, on all ranks: there is more than tokens, such as images, or a prompt
                has none.
        """
        if not self.trainer.model.training:
            return self.original(model, input_ids, attention_mask, logits_to_keep, batch_size, *others, **named)
        mask = attention_mask.bool()
        ask = [others, {name: value for name, value in named.items() if name in _ASKED}]
        if batch_size is None:
            return self._of_one(model, input_ids, mask, logits_to_keep, ask)

        def lengths() -> Whole:
            unknown = [name for name, value in named.items() if name not in _ASKED and value is not None]
            if unknown:
                raise ValueError(
                    f"the generation batch has {unknown[0]}, and only sequences of tokens can be planned: train on "
                    "text alone, or leave out plan_batches"
                )
            if not bool(mask[:, : mask.shape[1] - logits_to_keep].any(dim=1).all()):
                raise ValueError("a prompt of the generation batch has no tokens; must have at least 1")
            tokens: Whole = mask.sum(dim=1).cpu().numpy().astype(numpy.int64)
            return tokens

        answers = []
        parts = [torch.tensor(part, device=input_ids.device) for part in self._parts(lengths)]
        for part in parts:
            answers.append(self._of_one(model, input_ids[part], mask[part], logits_to_keep, ask))
        order = torch.cat(parts).argsort()
        return tuple(
            torch.cat(fields)[order] if all(_has_tokens(one) for one in fields) else fields[0]
            for fields in zip(*answers)
        )

    def _parts(self, lengths: Callable[[], Whole]) -> list[list[int]]:
        """Micro-batches of this rank's rows, in one plan of all ranks. Where `lengths` raises on one, all raise."""
        gather = gathering_in()
        if gather is None:
            own = lengths()
            everyone = [own]
        else:
            own, everyone = gather(lengths)
        longest = max(int(one.max()) for one in everyone)
        # A longer row than the budget is alone.
        longest += -longest % (self.without_gradients.length_multiple or 1)
        budget = max(self.without_gradients.max_tokens, longest)
        return own_part(own, everyone, dataclasses.replace(self.without_gradients, max_tokens=budget), self.options)

    def _of_one(
        self, model: Any, input_ids: torch.Tensor, mask: torch.Tensor, width: int, ask: list[Any]
    ) -> Answer:
        """The results for one micro-batch."""
        others, named = ask
        scored = mask.clone()
        scored[:, : mask.shape[1] - width] = False
        of_completions = mask[:, mask.shape[1] - width :]
        ids, scores = input_ids[mask], scored[mask]
        lengths = mask.sum(dim=1)
        if self.is_padded:
            ids, scores, more, keep = self._padded(ids, scores, lengths)
        else:
            ids, scores, more, keep = self._packed(ids, scores, lengths)

        def with_boundaries(**inputs: Any) -> Any:
            # By the mask that it is given, the original knows which tokens to score.
            del inputs["attention_mask"]
            return model(**inputs, **more)

        answers = self.original(with_boundaries, ids, scores.long(), keep, None, *others, **named)
        found = scores[:, ids.shape[1] - keep :]

        def spread(values: torch.Tensor) -> torch.Tensor:
            return values.new_zeros(of_completions.shape).masked_scatter(of_completions, values[found])

        return tuple(spread(one) if _has_tokens(one) else one for one in answers)

    def _padded(
        self, ids: torch.Tensor, scores: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any], int]:
        width = max(int(lengths.max()), _NARROWEST)
        width += -width % self.multiple
        mask = torch.arange(width, device=ids.device) < lengths[:, None]
        rows, scored = ids.new_zeros(mask.shape), torch.zeros_like(mask)
        rows[mask], scored[mask] = ids, scores
        # Columns before all completions are not scored.
        first = int(torch.where(scored.any(dim=0), torch.arange(width, device=ids.device), width - 1).min())
        return rows, scored, {"attention_mask": mask.long()}, width - max(first, 1)

    def _packed(
        self, ids: torch.Tensor, scores: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any], int]:
        tail = max(_NARROWEST - len(ids), 0)
        tail += -(len(ids) + tail) % self.multiple
        if tail:
            # One sequence more.
            ids = torch.nn.functional.pad(ids, (0, tail))
            scores = torch.nn.functional.pad(scores, (0, tail))
            lengths = torch.nn.functional.pad(lengths, (0, 1), value=tail)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        longest = int(lengths.max())
        sequences = torch.repeat_interleave(torch.arange(len(lengths), device=ids.device), lengths)
        more = {
            "position_ids": (torch.arange(len(ids), device=ids.device) - offsets[sequences])[None],
            "cu_seq_lens_q": offsets.int(),
            "cu_seq_lens_k": offsets.int(),
            "max_length_q": longest,
            "max_length_k": longest,
        }
        if self.seq_idx:
            more["seq_idx"] = sequences[None].int()
        return ids[None], scores[None], more, len(ids) - 1


def _has_tokens(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim == 2
