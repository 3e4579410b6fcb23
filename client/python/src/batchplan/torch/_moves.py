"""Tensors into a packed row and out of it, and sums over its sequences, with their gradients."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Union

import numpy
import torch

from batchplan import _core
from batchplan._plan import MicroBatch
from batchplan.torch._row import PackedRow, current_stream, exported

# [rows, tokens, ...] padded, nested, or one tensor [tokens, ...] a row.
Sequences = Union[torch.Tensor, Sequence[torch.Tensor]]

_TOKENS, _PER_SEQUENCE, _POSITION_IDS, _SEQUENCE_IDS = range(4)


def pack(
    row: PackedRow | MicroBatch,
    sequences: Sequences,
    *,
    pad_value: float = 0,
    shift: int = 0,
    gathered: bool = False,
) -> torch.Tensor:
    """The tokens of a micro-batch's sequences, end to end. Differentiable: the gradient is unpack.

    Args:
        row: the layout; a micro-batch's own, on the device of `sequences`.
        sequences: of the whole batch: [rows, tokens, ...] padded, or a nested tensor, or a list of
            [tokens, ...]. Rows may be longer than planned: what is beyond is not read.
        pad_value: what padding gets, and the tail.
        shift: the place of token t gets token t + shift, or pad_value if its sequence has none: 1
            packs next-token labels.
        gathered: `sequences` are the micro-batch's alone, in its order.

    Returns:
        [row.width, ...], of the same dtype.

    Raises:
        ValueError: a planned sequence is not there, or has fewer tokens than planned.
    """
    batch = _Batch.of(sequences)
    row = _row(row, batch.values.device)
    batch.check(row, gathered, "sequences")
    return pack_all(row, [batch], [Filling(pad_value, shift)], gathered)[0]


def unpack(
    row: PackedRow | MicroBatch,
    packed: torch.Tensor,
    *,
    pad_value: float = 0,
    shift: int = 0,
    width: int | None = None,
    num_rows: int | None = None,
) -> torch.Tensor:
    """The inverse of pack. Differentiable: the gradient is pack.

    Args:
        row: the layout; a micro-batch's own, on the device of `packed`.
        packed: [row.width, ...].
        pad_value: what no packed token belongs to.
        shift: the packed token at place t is token t + shift: 1 for log-probabilities, which stand
            where their token was predicted.
        width: tokens of a row; None: the longest sequence's.
        num_rows: rows of the whole batch, in which sequences stand at their positions and other rows
            hold pad_value; None: a row for each sequence of the micro-batch, in its order.

    Returns:
        [rows, width, ...], of the same dtype. Of one rank's row under context parallelism the other
        ranks' tokens are pad_value: with 0, the sum over the ranks is whole.
    """
    row = _row(row, packed.device)
    _check_row(row, packed, "packed")
    width = row.max_seqlen if width is None else width
    if width < row.max_seqlen:
        raise ValueError(f"width is {width}; the longest sequence has {row.max_seqlen} tokens")
    if num_rows is not None and len(row) and int(row.microbatch.indices.max()) >= num_rows:
        raise ValueError(
            f"num_rows is {num_rows}; the micro-batch has sequence {int(row.microbatch.indices.max())}"
        )
    filling = Filling(pad_value, shift)
    return _Unpack.apply(row, filling, width, num_rows, packed)


def sums(
    row: PackedRow | MicroBatch, values: torch.Tensor, weights: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of each sequence's values times weights, and of its weights. Differentiable in `values`.

    The same values give the same bits wherever a sequence stands: alone, packed behind others, padded.
    Padding is not read, and tokens of weight 0 add nothing, be they NaN.

    Args:
        values: [row.width], one a token.
        weights: as values, such as a loss mask; None: 1 for every token.

    Returns:
        two of float32, [n]. Of one rank's row under context parallelism, its part of each.
    """
    row = _row(row, values.device)
    for name, tensor in (("values", values), ("weights", weights)):
        if tensor is not None:
            _check_row(row, tensor, name)
            if tensor.ndim != 1:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}; must be ({row.width},)")
    return _Sums.apply(row, values, weights)


@dataclasses.dataclass(frozen=True)
class Filling:
    pad_value: float = 0
    shift: int = 0


@dataclasses.dataclass(frozen=True)
class _Batch:
    """One field of a batch: padded [rows, tokens, ...], or ragged [tokens, ...] with offsets [rows + 1].
    `lengths` of ragged rows where they are known on the host."""

    values: torch.Tensor
    offsets: torch.Tensor | None
    lengths: numpy.ndarray[Any, Any] | None = None

    @classmethod
    def of(cls, sequences: Sequences) -> _Batch:
        if isinstance(sequences, torch.Tensor):
            if not sequences.is_nested:
                if sequences.ndim < 2:
                    raise ValueError(
                        f"sequences have shape {tuple(sequences.shape)}; must be (rows, tokens, ...)"
                    )
                return cls(sequences, None)
            if sequences.layout != torch.strided:
                return cls(sequences.values(), sequences.offsets())
            sequences = sequences.unbind()
        if not sequences:
            raise ValueError("sequences are an empty list, which has no dtype; give an empty tensor")
        lengths = numpy.array([len(one) for one in sequences])
        offsets = torch.from_numpy(numpy.concatenate([[0], lengths.cumsum()]))
        values = torch.cat(list(sequences))
        return cls(values, offsets.to(values.device), lengths)

    @property
    def num_rows(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    @property
    def token_shape(self) -> torch.Size:
        return self.values.shape[2 if self.offsets is None else 1 :]

    def check(self, row: PackedRow, gathered: bool, name: str) -> None:
        """That the planned sequences are there, as far as the host can see."""
        planned, count = row.microbatch, len(row)
        if self.values.device != row.device:
            raise ValueError(f"{name} are on {self.values.device}; the row is on {row.device}")
        if gathered and self.num_rows != count:
            raise ValueError(f"{name} have {self.num_rows} rows; the micro-batch has {count} sequences")
        if not count:
            return
        index = numpy.arange(count) if gathered else planned.indices
        if int(index.max()) >= self.num_rows:
            raise ValueError(
                f"{name} have {self.num_rows} rows; the micro-batch has sequence {int(index.max())}"
            )
        if self.offsets is None:
            there = numpy.full(count, self.values.shape[1])
        elif self.lengths is not None:
            there = self.lengths[index]
        else:
            return
        short = planned.lengths > there
        if short.any():
            place = int(short.argmax())
            raise ValueError(
                f"{name}[{int(index[place])}] has {int(there[place])} tokens; "
                f"{int(planned.lengths[place])} are planned"
            )


def pack_all(
    row: PackedRow, batches: Sequence[_Batch], fillings: Sequence[Filling], gathered: bool
) -> list[torch.Tensor]:
    """Fields with one launch for all that lie alike."""
    packed: dict[int, torch.Tensor] = {}
    while len(packed) < len(batches):
        first = next(batch for place, batch in enumerate(batches) if place not in packed)
        alike = [
            place
            for place, batch in enumerate(batches)
            if batch.offsets is first.offsets and batch.num_rows == first.num_rows
        ]
        outputs = _Pack.apply(
            row,
            [fillings[place] for place in alike],
            first.offsets,
            first.num_rows,
            not gathered,
            *(batches[place].values for place in alike),
        )
        packed.update(zip(alike, outputs))
    return [packed[place] for place in range(len(batches))]


def ids(row: PackedRow, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Position ids, and sequence ids, -1 in the tail. Both [row.width]."""
    made = [torch.empty(row.width, dtype=dtype, device=row.device) for _ in range(2)]
    fields = [
        _core.Field(content, None, exported(one), 1, 0, 0, b"")
        for content, one in zip((_POSITION_IDS, _SEQUENCE_IDS), made)
    ]
    row.core.pack(fields, False, None, len(row), 0, current_stream(row.device))
    return made[0], made[1]


def spread(row: PackedRow, values: torch.Tensor, pad_value: float, indexed: bool) -> torch.Tensor:
    """One value a sequence, [rows], as one a token, [row.width]. Not differentiable."""
    values = values.contiguous()
    packed = values.new_empty(row.width)
    field = _core.Field(
        _PER_SEQUENCE,
        exported(values),
        exported(packed),
        1,
        0,
        0,
        _bytes(pad_value, values.dtype),
    )
    row.core.pack([field], indexed, None, len(values), 0, current_stream(row.device))
    return packed


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        row: PackedRow,
        fillings: Sequence[Filling],
        offsets: torch.Tensor | None,
        num_rows: int,
        indexed: bool,
        *values: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        ctx.row, ctx.fillings, ctx.offsets = row, fillings, offsets
        ctx.num_rows, ctx.indexed = num_rows, indexed
        ctx.shapes = [one.shape for one in values]
        lead = 2 if offsets is None else 1
        packed = tuple(one.new_empty(row.width, *one.shape[lead:]) for one in values)
        fields = [
            _field(one.contiguous(), to, one.shape, lead, filling)
            for one, to, filling in zip(values, packed, fillings)
            if to.numel()
        ]
        tokens = 0 if offsets is None else len(values[0])
        row.core.pack(
            fields,
            indexed,
            None if offsets is None else exported(offsets),
            num_rows,
            tokens,
            current_stream(row.device),
        )
        ctx.mark_non_differentiable(*(one for one in packed if not one.is_floating_point()))
        return packed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        wanted = ctx.needs_input_grad[5:]
        lead = 2 if ctx.offsets is None else 1
        outputs: list[torch.Tensor | None] = [
            gradient.new_zeros(shape) if want else None
            for gradient, shape, want in zip(gradients, ctx.shapes, wanted)
        ]
        fields = [
            _field(gradient.contiguous(), to, shape, lead, Filling(0, filling.shift))
            for gradient, to, shape, filling in zip(gradients, outputs, ctx.shapes, ctx.fillings)
            if to is not None and to.numel()
        ]
        tokens = 0 if ctx.offsets is None else ctx.shapes[0][0]
        ctx.row.core.unpack(
            fields,
            ctx.indexed,
            None if ctx.offsets is None else exported(ctx.offsets),
            ctx.num_rows,
            tokens,
            current_stream(ctx.row.device),
        )
        return (None, None, None, None, None, *outputs)


class _Unpack(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        row: PackedRow,
        filling: Filling,
        width: int,
        num_rows: int | None,
        packed: torch.Tensor,
    ) -> torch.Tensor:
        ctx.row, ctx.filling, ctx.indexed = row, filling, num_rows is not None
        rows = len(row) if num_rows is None else num_rows
        shape = (rows, width, *packed.shape[1:])
        unpacked = packed.new_full(shape, filling.pad_value)
        if unpacked.numel():
            field = _field(packed.contiguous(), unpacked, unpacked.shape, 2, filling)
            row.core.unpack([field], ctx.indexed, None, rows, 0, current_stream(row.device))
        return unpacked

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        packed = gradient.new_empty(ctx.row.width, *gradient.shape[2:])
        if packed.numel():
            filling = Filling(0, ctx.filling.shift)
            field = _field(gradient.contiguous(), packed, gradient.shape, 2, filling)
            stream = current_stream(ctx.row.device)
            ctx.row.core.pack([field], ctx.indexed, None, len(gradient), 0, stream)
        return None, None, None, None, packed


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, row: PackedRow, values: torch.Tensor, weights: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.row, ctx.dtype = row, values.dtype
        ctx.save_for_backward(weights)
        made = [torch.empty(len(row), device=row.device) for _ in range(2)]
        row.core.sum(
            exported(values.contiguous()),
            None if weights is None else exported(weights.contiguous()),
            exported(made[0]),
            exported(made[1]),
            current_stream(row.device),
        )
        ctx.mark_non_differentiable(made[1])
        return made[0], made[1]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (weights,) = ctx.saved_tensors
        spread_out = spread(ctx.row, gradient, 0, indexed=False)
        # Padding and the tail belong to no sequence, whatever stands in weights there.
        if weights is not None:
            spread_out = torch.where(spread_out == 0, spread_out, spread_out * weights)
        return None, spread_out.to(ctx.dtype), None


def _field(
    source: torch.Tensor,
    destination: torch.Tensor,
    unpacked_shape: torch.Size,
    lead: int,
    filling: Filling,
) -> _core.Field:
    return _core.Field(
        _TOKENS,
        exported(source),
        exported(destination),
        math.prod(unpacked_shape[lead:]),
        unpacked_shape[1] if lead == 2 else 0,
        filling.shift,
        _bytes(filling.pad_value, destination.dtype),
    )


@functools.lru_cache(maxsize=256)
def _bytes(value: float, dtype: torch.dtype) -> bytes:
    """One element, as it lies in memory."""
    one = torch.full((1,), value, dtype=dtype)
    return bytes(one.view(torch.uint8).tolist())


def _row(row: PackedRow | MicroBatch, device: torch.device) -> PackedRow:
    return row if isinstance(row, PackedRow) else PackedRow(row, device=device)


def _check_row(row: PackedRow, tensor: torch.Tensor, name: str) -> None:
    if tensor.device != row.device:
        raise ValueError(f"{name} is on {tensor.device}; the row is on {row.device}")
    if tensor.ndim < 1 or len(tensor) != row.width:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; its first dimension must be {row.width} tokens"
        )
