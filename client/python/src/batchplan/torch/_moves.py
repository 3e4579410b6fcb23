"""Tensors into a packed row and out of it, with their gradients."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from batchplan import _core
from batchplan._checks import whole
from batchplan._micro_batch import MicroBatch
from batchplan.torch._batch_field import BatchField, Filling, Sequences, device_of, offsets_error
from batchplan.torch._layout import Move, Rows
from batchplan.torch._row import PackedRow, microbatch_of

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
    """The tokens of a micro-batch's sequences, end to end. Differentiable: the gradient is unpack; not where prefixes
    are shared, of which the row has those of the first sequence.

    Args:
        row: the layout; a micro-batch's own, on the device of `sequences`.
        sequences: of the whole batch: [rows, tokens, ...] padded, or a nested tensor, or a list of
            [tokens, ...], of which the micro-batch's rows alone are read. Rows may be longer than
            planned: what is beyond is not read.
        pad_value: what padding gets, and the tail.
        shift: the place of token t gets token t + shift, or pad_value if its sequence has none: 1
            packs next-token labels. 0 where prefixes are shared: a token may have several next ones.
        gathered: `sequences` are the micro-batch's alone, in its order.

    Returns:
        [row.width, ...], of the same dtype.

    Raises:
        ValueError: a planned sequence is not there, or has fewer tokens than planned; or prefixes are shared, and
            there is a shift or a gradient is needed. Of a nested tensor whose
            offsets were made on the device, later uses of the row raise it, see PackedRow; where the row is a
            micro-batch's own, which is gone then, those of other rows.
    """
    if not isinstance(row, PackedRow):
        row = PackedRow(row, device=device_of(sequences, microbatch_of(row), gathered))
    field = BatchField.of("sequences", sequences, row, gathered)
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
    """The inverse of pack. Differentiable: the gradient is pack; where sequences share prefixes, the sum of theirs,
    always in one order, half precision in float.

    Args:
        row: the layout; a micro-batch's own, on the device of `packed`.
        packed: [row.width, ...].
        pad_value: what no packed token belongs to.
        shift: the packed token at place t is token t + shift: 1 for log-probabilities, which stand
            where their token was predicted. 0 where prefixes are shared.
        width: tokens of a row; None: the longest sequence's.
        num_rows: rows of the whole batch, in which sequences stand at their positions and other rows
            hold pad_value; None: a row for each sequence of the micro-batch, in its order.

    Returns:
        [rows, width, ...], of the same dtype. Of one rank's row under context parallelism the other
        ranks' tokens are pad_value: with 0, the sum over the ranks is whole.

    Raises:
        ValueError: an argument does not fit the row; or what was packed with it had fewer tokens than planned, see
            PackedRow.
    """
    row = row_to(row, packed, "packed")
    width = row.max_seqlen if width is None else whole("width", width)
    if width < row.max_seqlen:
        raise ValueError(f"width is {width}; the longest sequence has {row.max_seqlen} tokens")
    num_rows = None if num_rows is None else whole("num_rows", num_rows)
    if num_rows is not None and row.last_index >= num_rows:
        raise ValueError(f"num_rows is {num_rows}; the micro-batch has sequence {row.last_index}")
    filling = Filling.of("packed", pad_value, shift, packed.dtype)
    _check_shift(row, "packed", filling)
    rows = Rows(num_rows is not None, len(row) if num_rows is None else num_rows)
    if torch.is_grad_enabled() and packed.requires_grad:
        return _Unpack.apply(row, filling, width, rows, packed)
    return _unpacked(row, filling, width, rows, packed)


def pack_all(
    row: PackedRow, fields: Sequence[BatchField], fillings: Sequence[Filling]
) -> list[torch.Tensor]:
    """Fields with one launch for all that lie alike and need no gradient. One that does has a node of its own, so that
    what goes back through one field does not go through another.

    Raises:
        ValueError: a field is on another device.
    """
    packed: list[torch.Tensor] = [field.values for field in fields]
    alike: dict[Hashable, list[int]] = {}
    for place, (field, filling) in enumerate(zip(fields, fillings)):
        values = field.values
        if values.device != row.device:
            raise ValueError(f"{field.name} is on {values.device}; the row is on {row.device}")
        needs_gradient = values.requires_grad and torch.is_grad_enabled()
        if row.shares:
            _check_shift(row, field.name, filling)
            if needs_gradient:
                raise ValueError(
                    f"{field.name} needs a gradient, which it does not get from a row whose sequences share prefixes: "
                    "compute it from what is packed"
                )
        # What was a list is packed as it was concatenated, where nothing comes between its rows. On a device the row
        # may have been found wrong, which it knows there.
        if field.is_end_to_end and row.is_tight and not filling.shift and row.error_word is None:
            continue
        alike.setdefault((field.lie, place if needs_gradient else None), []).append(place)
    for places in alike.values():
        for begin in range(0, len(places), _MOST_FIELDS):
            some = places[begin : begin + _MOST_FIELDS]
            first = fields[some[0]]
            offsets = first.offsets
            tokens = 0 if offsets is None else len(first.values)
            rows = Rows(not first.gathered, first.num_rows, offsets, tokens)
            outputs = _pack(row, [fillings[one] for one in some], rows, [fields[one].values for one in some])
            if first.is_judged_later:
                _judge_later(row, first, [fields[one].name for one in some])
            for one, output in zip(some, outputs):
                packed[one] = output
    return packed


def ids(row: PackedRow) -> tuple[torch.Tensor, torch.Tensor]:
    """Those of positions and of sequences, -1 in the tail, by one launch."""
    positions, sequences = (torch.empty(row.width, dtype=torch.int64, device=row.device) for _ in range(2))
    row.moves.ids(positions, sequences)
    return positions, sequences


def spread(row: PackedRow, values: torch.Tensor, pad_value: complex, indexed: bool) -> torch.Tensor:
    """One value a sequence, [rows], as one a token, [row.width]. Not differentiable."""
    values = plain(values)
    packed = values.new_empty(row.width)
    row.moves.spread(values, packed, pad_value, indexed)
    return packed


def _check_shift(row: PackedRow, name: str, filling: Filling) -> None:
    if row.shares and filling.shift:
        raise ValueError(
            f"shift of {name} is {filling.shift}; must be 0 where sequences share prefixes, since a token may have "
            "several next ones: unpack, and shift what is unpacked"
        )


def _judge_later(row: PackedRow, field: BatchField, names: Sequence[str]) -> None:
    """Has the row raise what is wrong with a field's offsets as soon as the host knows."""
    # Not the field, which would be kept as long.
    name, tokens, gathered, microbatch = field.name, len(field.values), field.gathered, row.microbatch

    def judge(copies: Sequence[torch.Tensor]) -> str | None:
        word, offsets = copies
        if not int(word):
            return None
        return offsets_error(name, offsets, tokens, microbatch, gathered) or (
            f"{', '.join(names)}: {_core.status_string(int(word))}"
        )

    assert row.error_word is not None and field.offsets is not None
    row.verdict.ask([row.error_word, field.offsets], judge)


def _pack(
    row: PackedRow, fillings: Sequence[Filling], rows: Rows, values: Sequence[torch.Tensor]
) -> Sequence[torch.Tensor]:
    if torch.is_grad_enabled() and values[0].requires_grad:
        # It is alone.
        return [_Pack.apply(row, fillings[0], rows, values[0])]
    return _packed(row, fillings, rows, values)


def _packed(
    row: PackedRow, fillings: Sequence[Filling], rows: Rows, values: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    lead, width = 2 if rows.offsets is None else 1, row.width
    packed, moves = [], []
    for one, filling in zip(values, fillings):
        to = one.new_empty(width) if one.ndim == lead else one.new_empty(width, *one.shape[lead:])
        packed.append(to)
        if to.numel():
            moves.append(Move(plain(one), to, filling))
    row.moves.pack(moves, rows)
    return packed


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        row: PackedRow,
        filling: Filling,
        rows: Rows,
        values: torch.Tensor,
    ) -> torch.Tensor:
        ctx.row, ctx.filling, ctx.rows, ctx.shape = row, filling, rows, values.shape
        return _packed(row, [filling], rows, [values])[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        output = gradient.new_empty(ctx.shape)
        if output.numel():
            move = Move(plain(gradient), output, Filling(0, ctx.filling.shift))
            ctx.row.moves.unpack([move], ctx.rows)
        return None, None, None, output


def _unpacked(
    row: PackedRow, filling: Filling, width: int, rows: Rows, packed: torch.Tensor
) -> torch.Tensor:
    unpacked = packed.new_empty(rows.num_rows, width, *packed.shape[1:])
    if unpacked.numel():
        row.moves.unpack([Move(plain(packed), unpacked, filling)], rows)
    return unpacked


class _Unpack(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        row: PackedRow,
        filling: Filling,
        width: int,
        rows: Rows,
        packed: torch.Tensor,
    ) -> torch.Tensor:
        ctx.row, ctx.filling, ctx.rows = row, filling, rows
        return _unpacked(row, filling, width, rows, packed)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        packed = gradient.new_empty(ctx.row.width, *gradient.shape[2:])
        if packed.numel() and ctx.row.shares:
            sides = plain(gradient), packed
            if gradient.is_complex():
                sides = torch.view_as_real(sides[0]), torch.view_as_real(packed)
            ctx.row.moves.unpack_gradient(*sides, ctx.rows)
        elif packed.numel():
            move = Move(plain(gradient), packed, Filling(0, ctx.filling.shift))
            ctx.row.moves.pack([move], ctx.rows)
        return None, None, None, None, packed


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous, and its values as its bits have them."""
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.contiguous()


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
