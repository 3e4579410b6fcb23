"""Moves and sums by the kernels that come with the package."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from batchplan import _core
from batchplan.torch._batch_field import ZEROS
from batchplan.torch._layout import Layout, Move, Rows

# Of the kernels' backends.
_HOST, _CUDA = range(2)
_TOKENS, _PER_SEQUENCE, _POSITION_IDS, _SEQUENCE_IDS, _PREDECESSORS = range(5)


class Kernels:
    """Of a row on the host or on a CUDA device, on whose current stream they are enqueued."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        word = layout.error_word
        self._is_on_cuda = layout.device.type == "cuda"
        # Of addresses: the layout keeps the tensors. On the host it reads what the tensors are copies of.
        self._row = _core.Row(
            _CUDA if self._is_on_cuda else _HOST,
            layout.parts,
            0 if word is None else layout.arrays.data_ptr(),
            0 if word is None else word.data_ptr(),
            layout.cp,
            layout.cp_rank,
            layout.zigzag,
        )

    def pack(self, moves: Sequence[Move], rows: Rows) -> None:
        """Of at most 32 tensors."""
        fields = [_field(move, move.destination, move.source, rows) for move in moves]
        self._move(self._row.pack, fields, rows)

    def unpack(self, moves: Sequence[Move], rows: Rows) -> None:
        """Tokens that the row has none of get the pad value, in rows of other sequences too."""
        # Where the device finds something wrong, it writes nothing. On the host rows that are padded are written whole,
        # and ragged ones where all of their tokens are planned.
        if self._is_on_cuda or rows.offsets is not None and rows.num_tokens != self._layout.parts.num_tokens:
            for move in moves:
                move.destination.fill_(move.filling.pad_value)
        fields = [_field(move, move.source, move.destination, rows) for move in moves]
        self._move(self._row.unpack, fields, rows)

    def spread(
        self, values: torch.Tensor, packed: torch.Tensor, pad_value: complex, indexed: bool
    ) -> None:
        """One value a sequence to each of its tokens."""
        pad = _bytes(pad_value, values.dtype)
        field = _core.Field(
            _PER_SEQUENCE, values.data_ptr(), packed.data_ptr(), values.element_size(), 1, 0, 0, pad
        )
        self._move(self._row.pack, [field], Rows(indexed, values.shape[0]))

    def ids(self, positions: torch.Tensor, sequences: torch.Tensor) -> None:
        fields = [_ids(_POSITION_IDS, positions), _ids(_SEQUENCE_IDS, sequences)]
        self._run(self._row.pack, fields, False, 0, len(self._layout), 0)

    def predecessors(self, ids: torch.Tensor) -> None:
        """Of each token of the sequences, end to end, where the one before stands in the row. Prefixes are shared."""
        offsets = self._layout.cu_seqlens.long()
        rows = Rows(False, len(self._layout), offsets, len(ids))
        self._move(self._row.unpack, [_ids(_PREDECESSORS, ids)], rows)

    def unpack_gradient(self, source: torch.Tensor, packed: torch.Tensor, rows: Rows) -> None:
        """Of padded rows, whose row shares prefixes."""
        elements, width = math.prod(packed.shape[1:]), source.shape[1]
        self._run(
            self._row.unpack_gradient,
            exported(source),
            exported(packed),
            elements,
            width,
            rows.indexed,
            rows.num_rows,
        )

    def sum(
        self,
        values: torch.Tensor,
        weights: torch.Tensor | None,
        sums: torch.Tensor,
        weight_sums: torch.Tensor,
    ) -> None:
        size = self._row.workspace_size()
        workspace = torch.empty(size, dtype=torch.uint8, device=values.device) if size else None
        self._run(
            self._row.sum,
            exported(values),
            None if weights is None else exported(weights),
            exported(sums),
            exported(weight_sums),
            None if workspace is None else exported(workspace),
        )

    def _move(
        self, work: Callable[..., None], fields: Sequence[_core.Field], rows: Rows
    ) -> None:
        offsets = 0 if rows.offsets is None else rows.offsets.data_ptr()
        self._run(work, fields, rows.indexed, offsets, rows.num_rows, rows.num_tokens)

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        """A call whose last argument is the stream."""
        if not self._is_on_cuda:
            work(*arguments, 0)
            return
        with torch.cuda.device(self._layout.device):
            work(*arguments, torch.cuda.current_stream().cuda_stream)


def _field(move: Move, packed: torch.Tensor, unpacked: torch.Tensor, rows: Rows) -> _core.Field:
    source, destination, filling = move
    return _core.Field(
        _TOKENS,
        source.data_ptr(),
        destination.data_ptr(),
        destination.element_size(),
        1 if packed.ndim == 1 else math.prod(packed.shape[1:]),
        unpacked.shape[1] if rows.offsets is None else 0,
        filling.shift,
        b"" if filling is ZEROS else _bytes(filling.pad_value, destination.dtype),
    )


def _ids(content: int, ids: torch.Tensor) -> _core.Field:
    return _core.Field(content, 0, ids.data_ptr(), ids.element_size(), 1, 0, 0, b"")


def _bytes(value: complex, dtype: torch.dtype) -> bytes:
    """One element, as it lies in memory."""
    # All bits of a zero are 0, but for its sign.
    if value == 0 and type(value) is int:
        return b""
    one = torch.full((1,), value, dtype=dtype)
    return bytes(one.view(torch.uint8).tolist())


def exported(tensor: torch.Tensor) -> object:
    """As DLPack, for work on the current stream: nothing waits. It lies contiguously, and its bits are
    its values."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bool:
        tensor = tensor.view(torch.uint8)
    return tensor.__dlpack__(stream=-1)
