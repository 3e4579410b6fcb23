"""A loss that knows nothing of packing, over a packed row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from batchplan.torch._packed_batch import PackedBatch
from batchplan.torch._shared_prefixes import paths

Fields = Mapping[str, torch.Tensor]


class PackedLoss:
    """Runs a loss that was written for padded sequences on a packed row's.

        def loss(logits, fields, global_tokens):            # logits [1, L, V], fields[...] [1, L]
            ...
            return (per_token * fields["mask"]).sum() / global_tokens

        total = PackedLoss(loss)(packed, logits, global_tokens=plan.metrics.true_tokens)

    Where sequences share prefixes, each gets the output of all its tokens, and the fields that it came with.

    It is called for each sequence alone, or once for all of them padded, [n, longest, ...], which is
    faster for many short ones and takes the memory that packing saved. The losses are added up, so that
    each must be divided by counts of the whole global batch, as it must be for gradients that are
    accumulated to come out as without packing.
    """

    def __init__(
        self, loss: Callable[..., Any], *, vectorized: bool = False, metrics: bool = False
    ) -> None:
        """
        Args:
            loss: takes the model's output, the fields, and what else it is called with; returns a
                scalar.
            vectorized: call it once with all sequences. Padding is each field's pad value, and 0 in
                the output: the loss leaves it out by a mask.
            metrics: the loss returns a scalar and a dictionary of numbers, which are added up, too.
        """
        self._loss = loss
        self._metrics = metrics
        self._vectorized = vectorized

    def __call__(self, packed: PackedBatch, output: torch.Tensor, **arguments: Any) -> Any:
        """
        Args:
            packed: what the model was given.
            output: [row.width, ...], or [1, row.width, ...] as models give it.

        Returns:
            what the loss returns, added up in float32 or better; 0, and no metrics, for a micro-batch
            without sequences.

        Raises:
            ValueError: under context parallelism, of one rank's shards: gather the ranks' outputs, and
                give a batch that was packed with cp_rank=None. Or what was packed had fewer tokens than planned,
                see PackedRow, for which the host waits until the device has packed it, and for nothing later.
        """
        row = packed.row
        if row.cp > 1 and row.cp_rank is not None:
            raise ValueError(
                f"cp_rank is {row.cp_rank} of cp={row.cp}: the loss needs whole sequences; gather the "
                "outputs of all ranks, and pack with cp_rank=None"
            )
        if output.shape[:2] == (1, row.width):
            output = output[0]
        if output.ndim < 1 or len(output) != row.width:
            raise ValueError(f"output has shape {tuple(output.shape)}; must be ({row.width}, ...)")
        row.raise_found(wait=True)
        # Of no tokens: what is added to it stays in the graph, also if nothing is.
        total = output[:0].sum(dtype=torch.promote_types(output.dtype, torch.float32))
        metrics: dict[str, Any] = {}
        calls = self._padded(packed, output) if self._vectorized else self._alone(packed, output)
        for one_output, fields in calls:
            returned = self._loss(one_output, fields, **arguments)
            if self._metrics:
                returned, more = returned
                for name, value in more.items():
                    metrics[name] = metrics.get(name, 0) + value
            if not isinstance(returned, torch.Tensor) or returned.ndim:
                raise ValueError(f"the loss returned {_described(returned)}; must be a scalar tensor")
            total = total + returned
        return (total, metrics) if self._metrics else total

    @staticmethod
    def _padded(packed: PackedBatch, output: torch.Tensor) -> Iterator[tuple[torch.Tensor, Fields]]:
        if len(packed.row) and packed.whole_sequences is not None:
            yield packed.unpack(output), packed.whole_sequences.padded(packed.pad_values)
        elif len(packed.row):
            fields = {
                name: packed.unpack(tensor, pad_value=packed.pad_values.get(name, 0))
                for name, tensor in packed.items()
            }
            yield packed.unpack(output), fields

    @classmethod
    def _alone(
        cls, packed: PackedBatch, output: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, Fields]]:
        planned = packed.row.microbatch
        if packed.row.cp > 1:
            # Each sequence's shards are brought together first.
            for whole, fields in cls._padded(packed, output):
                for place, length in enumerate(planned.lengths.tolist()):
                    yield (
                        whole[place : place + 1, :length],
                        {name: tensor[place : place + 1, :length] for name, tensor in fields.items()},
                    )
            return
        if packed.whole_sequences is not None:
            for path, fields in zip(paths(planned), packed.whole_sequences.alone()):
                # A sequence of no tokens too.
                parts = [output[:0], *(output[begin:end] for begin, end in path)]
                yield torch.cat(parts)[None], {name: one[None] for name, one in fields.items()}
            return
        for begin, length in zip(planned.cu_seqlens_padded.tolist(), planned.lengths.tolist()):
            tokens = slice(begin, begin + length)
            yield (
                output[tokens].unsqueeze(0),
                {name: tensor[tokens].unsqueeze(0) for name, tensor in packed.items()},
            )


def _described(returned: Any) -> str:
    if isinstance(returned, torch.Tensor):
        return f"a tensor of shape {tuple(returned.shape)}"
    return f"a {type(returned).__name__}"
