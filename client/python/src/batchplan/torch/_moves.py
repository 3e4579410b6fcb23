"""Tensors into a packed row and out of it, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from batchplan import _core
from batchplan._checks import whole
from batchplan._micro_batch import MicroBatch
from batchplan.torch._batch_field import BatchField, Filling, Sequences
from batchplan.torch._row import PackedRow, exported, microbatch_of

_TOKENS, _PER_SEQUENCE, _POSITION_IDS, _SEQUENCE_IDS = range(4)
# Of one launch.
_MOST_FIELDS = 32


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
            [tokens, ...], of which the micro-batch's rows alone are read. Rows may be longer than
            planned: what is beyond is not read.
        pad_value: what padding gets, and the tail.
        shift: the place of token t gets token t + shift, or pad_value if its sequence has none: 1
            packs next-token labels.
        gathered: `sequences` are the micro-batch's alone, in its order.

    Returns:
        [row.width, ...], of the same dtype.

    Raises:
        ValueError: a planned sequence is not there, or has fewer tokens than planned.
    """
    field = BatchField.of("sequences", sequences, microbatch_of(row), gathered)
    if not isinstance(row, PackedRow):
        row = PackedRow(row, device=field.values.device)
    filling = Filling.of("sequences", pad_value, shift, field.values.dtype)
    return pack_all(row, [field], [filling])[0]


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
    row = row_to(row, packed, "packed")
    width = row.max_seqlen if width is None else whole("width", width)
    if width < row.max_seqlen:
        raise ValueError(f"width is {width}; the longest sequence has {row.max_seqlen} tokens")
    num_rows = None if num_rows is None else whole("num_rows", num_rows)
    if num_rows is not None and len(row) and int(row.microbatch.indices.max()) >= num_rows:
        raise ValueError(
            f"num_rows is {num_rows}; the micro-batch has sequence {int(row.microbatch.indices.max())}"
        )
    filling = Filling.of("packed", pad_value, shift, packed.dtype)
    return _Unpack.apply(row, filling, width, num_rows, packed)


def pack_all(
    row: PackedRow, fields: Sequence[BatchField], fillings: Sequence[Filling]
) -> list[torch.Tensor]:
    """Fields with one launch for all that lie alike.

    Raises:
        ValueError: a field is on another device.
    """
    for field in fields:
        if field.values.device != row.device:
            raise ValueError(f"{field.name} is on {field.values.device}; the row is on {row.device}")
    packed: dict[int, torch.Tensor] = {}
    while len(packed) < len(fields):
        left = [place for place in range(len(fields)) if place not in packed]
        first = fields[left[0]]
        alike = [place for place in left if fields[place].lies_like(first)][:_MOST_FIELDS]
        outputs = _Pack.apply(
            row,
            [fillings[place] for place in alike],
            first.offsets,
            first.num_rows,
            not first.gathered,
            *(fields[place].values for place in alike),
        )
        packed.update(zip(alike, outputs))
    return [packed[place] for place in range(len(fields))]


def ids(row: PackedRow, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Position ids, and sequence ids, -1 in the tail. Both [row.width]."""
    made = [torch.empty(row.width, dtype=dtype, device=row.device) for _ in range(2)]
    fields = [
        _core.Field(content, None, exported(one), 1, 0, 0, b"")
        for content, one in zip((_POSITION_IDS, _SEQUENCE_IDS), made)
    ]
    row.run(row.core.pack, fields, False, None, len(row), 0)
    return made[0], made[1]


def spread(row: PackedRow, values: torch.Tensor, pad_value: complex, indexed: bool) -> torch.Tensor:
    """One value a sequence, [rows], as one a token, [row.width]. Not differentiable."""
    values = plain(values)
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
    row.run(row.core.pack, [field], indexed, None, len(values), 0)
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
            _field(one, to, one.shape, lead, filling)
            for one, to, filling in zip(values, packed, fillings)
            if to.numel()
        ]
        places = None if offsets is None else exported(offsets)
        row.run(row.core.pack, fields, indexed, places, num_rows, 0 if places is None else len(values[0]))
        wanted = ctx.needs_input_grad[5:]
        ctx.mark_non_differentiable(*(one for one, want in zip(packed, wanted) if not want))
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
            _field(gradient, to, shape, lead, Filling(0, filling.shift))
            for gradient, to, shape, filling in zip(gradients, outputs, ctx.shapes, ctx.fillings)
            if to is not None and to.numel()
        ]
        places = None if ctx.offsets is None else exported(ctx.offsets)
        tokens = 0 if places is None else ctx.shapes[0][0]
        ctx.row.run(ctx.row.core.unpack, fields, ctx.indexed, places, ctx.num_rows, tokens)
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
            field = _field(packed, unpacked, unpacked.shape, 2, filling)
            row.run(row.core.unpack, [field], ctx.indexed, None, rows, 0)
        return unpacked

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        packed = gradient.new_empty(ctx.row.width, *gradient.shape[2:])
        if packed.numel():
            filling = Filling(0, ctx.filling.shift)
            field = _field(gradient, packed, gradient.shape, 2, filling)
            ctx.row.run(ctx.row.core.pack, [field], ctx.indexed, None, len(gradient), 0)
        return None, None, None, None, packed


def _field(
    source: torch.Tensor,
    destination: torch.Tensor,
    unpacked_shape: torch.Size,
    lead: int,
    filling: Filling,
) -> _core.Field:
    return _core.Field(
        _TOKENS,
        exported(plain(source)),
        exported(destination),
        math.prod(unpacked_shape[lead:]),
        unpacked_shape[1] if lead == 2 else 0,
        filling.shift,
        _bytes(filling.pad_value, destination.dtype),
    )


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous, and its values as its bits have them."""
    return tensor.resolve_conj().resolve_neg().contiguous()


def _bytes(value: complex, dtype: torch.dtype) -> bytes:
    """One element, as it lies in memory."""
    one = torch.full((1,), value, dtype=dtype)
    return bytes(one.view(torch.uint8).tolist())


def row_to(row: PackedRow | MicroBatch, tensor: torch.Tensor, name: str) -> PackedRow:
    """That of a packed tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}; must be a tensor")
    row = row if isinstance(row, PackedRow) else PackedRow(row, device=tensor.device)
    if tensor.device != row.device:
        raise ValueError(f"{name} is on {tensor.device}; the row is on {row.device}")
    if tensor.ndim < 1 or len(tensor) != row.width:
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; its first dimension must be {row.width} tokens"
        )
    return row
