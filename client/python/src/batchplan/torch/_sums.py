"""Sums over the sequences of a packed row."""

from __future__ import annotations

from typing import Any

import torch

from batchplan._micro_batch import MicroBatch
from batchplan.torch._moves import plain, row_to, spread
from batchplan.torch._row import PackedRow

_SUMMED = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.uint8,
    torch.bool,
    torch.int32,
    torch.int64,
)


def sums(
    row: PackedRow | MicroBatch, values: torch.Tensor, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of each sequence's values times weights, and of its weights. The first is differentiable.

    The same values give the same bits wherever a sequence stands: alone, packed behind others, padded.
    Padding is not read, and tokens of weight 0 add nothing, be they NaN. They are added in double precision, on
    Apple's GPUs in single precision.

    Args:
        values: [row.width], one a token: floating, bool, uint8, int32 or int64.
        weights: as values, such as a loss mask; None: 1 for every token.

    Returns:
        two of float32, [n]. Of one rank's row under context parallelism, its part of each.

    Raises:
        ValueError: values or weights are not as above; sequences share prefixes; or what was packed with the row had fewer tokens than
            planned, see PackedRow, for which the host waits until the device has packed it.
    """
    for name, tensor in (("values", values), ("weights", weights)):
        if tensor is not None:
            row = row_to(row, tensor, name)
            if tensor.ndim != 1:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}; must be ({row.width},)")
            if tensor.dtype not in _SUMMED:
                known = ", ".join(str(one).removeprefix("torch.") for one in _SUMMED)
                raise ValueError(f"{name} has dtype {tensor.dtype}; must be one of {known}")
    assert isinstance(row, PackedRow)
    if row.shares:
        raise ValueError(
            "the row's sequences share prefixes: a token is of several, and counts differently in each; "
            "unpack, and sum what is unpacked"
        )
    row.raise_found(wait=True)
    return _Sums.apply(row, values, weights)


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, row: PackedRow, values: torch.Tensor, weights: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.row, ctx.dtype = row, values.dtype
        ctx.save_for_backward(values if ctx.needs_input_grad[2] else None, weights)
        made = [torch.empty(len(row), dtype=torch.float32, device=row.device) for _ in range(2)]
        plain_weights = None if weights is None else plain(weights)
        row.moves.sum(plain(values), plain_weights, made[0], made[1])
        ctx.mark_non_differentiable(made[1])
        return made[0], made[1]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        values, weights = ctx.saved_tensors
        # 0 for padding and the tail, which belong to no sequence, whatever stands there.
        of_tokens = spread(ctx.row, gradient, 0, indexed=False)

        def times(factors: torch.Tensor | None) -> torch.Tensor:
            if factors is None:
                return of_tokens
            return torch.where(of_tokens == 0, of_tokens, of_tokens * factors)

        of_values = times(weights).to(ctx.dtype) if ctx.needs_input_grad[1] else None
        of_weights = times(values).to(weights.dtype) if ctx.needs_input_grad[2] else None
        return None, of_values, of_weights
