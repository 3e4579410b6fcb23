"""Moves and sums by torch's own operations, for devices on which the kernels can't run.

What moves is gathered by an index, and as integers: so all bits arrive, and all data types do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy
import torch

from batchplan.torch._batch_field import Filling
from batchplan.torch._cells import Cells
from batchplan.torch._layout import Layout, Move, Rows
from batchplan.torch._verdict import is_capturing

# BATCHPLAN_ERROR_OFFSETS of the kernels.
_BAD_OFFSETS = 18
# Terms of a sum that are added in one step.
_FAN_IN = 32
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class TorchOperations:
    """Of a row on any device. What stays the same of its indices is computed once, there."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._cells = Cells(layout)
        self._index = layout.sequence_index.long()
        self._made: dict[Hashable, Any] = {}
        # Whether there may be an error in the error word.
        self._is_judged = False

    def pack(self, moves: Sequence[Move], rows: Rows) -> None:
        begins = self._begins(rows)
        for move in moves:
            if begins is None:
                width = move.source.shape[1]
                index = self._once(self._of_padded, rows.indexed, width, move.filling.shift)
            else:
                index = self._of_rows(begins, move.filling.shift)
            source = _words(move.source, 2 if begins is None else 1)
            self._gather(source, index, move, _words(move.destination, 1))

    def unpack(self, moves: Sequence[Move], rows: Rows) -> None:
        """Tokens that the row has none of get the pad value, in rows of other sequences too."""
        begins = self._begins(rows)
        for move in moves:
            source, shift = _words(move.source, 1), move.filling.shift
            destination = _words(move.destination, 2 if begins is None else 1)
            if begins is None:
                index = self._once(self._into_padded, move.destination.shape[1], shift)
                if not rows.indexed:
                    self._gather(source, index, move, destination)
                    continue
            else:
                index = self._once(self._into_ragged, shift)
            move.destination.fill_(move.filling.pad_value)
            taken = source.new_empty(len(index), *source.shape[1:])
            self._gather(source, index, move, taken)
            if begins is None:
                by_row = destination.view(len(move.destination), -1)
                by_row.index_copy_(0, self._index, taken.view(len(self._index), by_row.shape[1]))
            else:
                sequence, token = self._once(self._true_tokens)
                # Where offsets are bad all is padding, and need only stay within the tensor.
                places = (begins[sequence] + token).clamp(0, rows.num_tokens - 1)
                destination.index_copy_(0, places, taken)

    def spread(
        self, values: torch.Tensor, packed: torch.Tensor, pad_value: complex, indexed: bool
    ) -> None:
        """One value a sequence to each of its tokens."""
        index = self._once(self._of_sequences, indexed)
        move = Move(values, packed, Filling(pad_value))
        self._gather(_words(values, 1), index, move, _words(packed, 1))

    def ids(self, positions: torch.Tensor, sequences: torch.Tensor) -> None:
        cells = self._cells
        positions.copy_(self._unless_bad(cells.token, 0))
        is_tail = cells.sequence == len(self._layout)
        sequences.copy_(self._unless_bad(_where_not(is_tail, cells.sequence), -1))

    def predecessors(self, ids: torch.Tensor) -> None:
        """Of each token of the sequences, end to end, where the one before stands in the row. Prefixes are shared."""
        sequence, token = self._true_tokens()
        before = self._cells.of(sequence, (token - 1).clamp(min=0))
        ids.copy_(_where_not(token == 0, before))

    def unpack_gradient(self, source: torch.Tensor, packed: torch.Tensor, rows: Rows) -> None:
        """Of padded rows, whose row shares prefixes. In float or better, and in the order of the sequences."""
        wide = torch.promote_types(packed.dtype, torch.float32)
        sums = torch.zeros_like(packed, dtype=wide)
        flat = source.reshape(-1, *source.shape[2:])
        for cell, place in self._once(self._additions, rows.indexed, source.shape[1]):
            # No cell comes twice in one of them.
            sums[cell] += flat[place].to(wide)
        packed.copy_(sums)

    def sum(
        self,
        values: torch.Tensor,
        weights: torch.Tensor | None,
        sums: torch.Tensor,
        weight_sums: torch.Tensor,
    ) -> None:
        """In double precision where the device has it, by a tree that a token's place in its sequence decides: the
        same values give the same bits wherever the sequence stands."""
        if not len(self._layout):
            return
        wide = torch.float32 if values.device.type == "mps" else torch.float64
        cells = self._cells
        wanted = cells.token < cells.lengths[cells.sequence]
        counted = torch.ones_like(wanted, dtype=wide) if weights is None else weights.to(wide)
        counted = counted.masked_fill(~wanted, 0)
        # Of weight 0 a value adds nothing, be it NaN.
        weighted = (values.to(wide) * counted).masked_fill(counted == 0, 0)
        terms = torch.stack([weighted, counted])
        for index in self._once(self._tree):
            terms = torch.cat([terms, terms.new_zeros(2, 1)], dim=1)[:, index]
            while terms.shape[-1] > 1:
                terms = terms[..., 0::2] + terms[..., 1::2]
            terms = terms[..., 0]
        # No sum is -0, as none of the kernels' is.
        terms = terms + 0.0
        sums.copy_(terms[0])
        weight_sums.copy_(terms[1])

    def _gather(
        self, source: torch.Tensor, index: torch.Tensor, move: Move, destination: torch.Tensor
    ) -> None:
        """By words of _words(). -1: the pad value."""
        index = self._unless_bad(index, -1)
        if len(source):
            torch.index_select(source, 0, index.clamp(min=0), out=destination)
        is_padding = (index < 0)[:, None]
        pad = torch.full((1,), move.filling.pad_value, dtype=move.destination.dtype)
        for place, word in enumerate(_words(pad, 1).flatten().tolist()):
            destination[..., place].masked_fill_(is_padding, word)

    def _begins(self, rows: Rows) -> torch.Tensor | None:
        """Of ragged rows, where those of the sequences begin. What is wrong with them goes to the error word."""
        if rows.offsets is None:
            return None
        row = self._rows(rows.indexed)
        begins, ends = rows.offsets[:-1][row], rows.offsets[1:][row]
        word = self._layout.error_word
        if word is not None:
            good = (begins >= 0) & (ends - begins >= self._cells.lengths[:-1]) & (ends <= rows.num_tokens)
            found = torch.where(good.all(), 0 * word, 0 * word + _BAD_OFFSETS)
            word.copy_(torch.where(word == 0, found, word))
            self._is_judged = True
        return begins

    def _unless_bad(self, values: torch.Tensor, otherwise: int) -> torch.Tensor:
        """All of them `otherwise` if the error word holds an error."""
        if self._layout.error_word is None or not self._is_judged:
            return values
        return torch.where(self._layout.error_word == 0, values, torch.full_like(values, otherwise))

    def _once(self, make: Callable[..., Any], *arguments: Hashable) -> Any:
        """What depends on the row and the arguments alone."""
        key = make.__name__, *arguments
        if key in self._made:
            return self._made[key]
        made = make(*arguments)
        # A graph computes it at each replay, and in memory of its own.
        if not is_capturing(self._layout.device):
            self._made[key] = made
        return made

    def _rows(self, indexed: bool) -> torch.Tensor:
        """Of the unpacked side, those of the sequences."""
        return self._index if indexed else torch.arange(len(self._layout), device=self._layout.device)

    def _of_sequences(self, indexed: bool) -> torch.Tensor:
        """The rows that cells take one value from."""
        cells = self._cells
        return _where_not(
            cells.token >= cells.lengths[cells.sequence], _with_tail(self._rows(indexed))[cells.sequence]
        )

    def _of_padded(self, indexed: bool, width: int, shift: int) -> torch.Tensor:
        return self._of_rows(self._rows(indexed) * width, shift)

    def _of_rows(self, begins: torch.Tensor, shift: int) -> torch.Tensor:
        """The tokens of the unpacked side that cells take; -1: none."""
        cells = self._cells
        length = cells.lengths[cells.sequence]
        partner = cells.token + shift
        outside = (cells.token >= length) | (partner < 0) | (partner >= length)
        return _where_not(outside, _with_tail(begins)[cells.sequence] + partner)

    def _into_padded(self, width: int, shift: int) -> torch.Tensor:
        """The cells that the tokens of rows of a width take; -1: none."""
        device = self._layout.device
        sequence = torch.arange(len(self._layout), device=device).repeat_interleave(width)
        token = torch.arange(width, device=device).repeat(len(self._layout))
        return self._origins(sequence, token, shift)

    def _into_ragged(self, shift: int) -> torch.Tensor:
        return self._origins(*self._true_tokens(), shift)

    def _additions(self, indexed: bool, width: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Tokens of padded rows that are added to cells: to each first that of its first sequence, then the second."""
        sequence, token = self._true_tokens()
        place = self._rows(indexed)[sequence] * width + token
        cell = self._cells.of(sequence, token)
        by_cell = torch.argsort(cell * (len(sequence) + 1) + torch.arange(len(cell), device=cell.device))
        cell, place = cell[by_cell], place[by_cell]
        number = torch.arange(len(cell), device=cell.device)
        number = number - torch.searchsorted(cell, cell)
        rounds = range(int(number.max()) + 1 if len(number) else 0)
        return [(cell[number == one], place[number == one]) for one in rounds]

    def _true_tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Sequence, and place in it, of all tokens without padding."""
        starts = self._layout.cu_seqlens.long()
        place = torch.arange(int(self._layout.microbatch.cu_seqlens[-1]), device=starts.device)
        sequence = torch.searchsorted(starts, place, right=True) - 1
        return sequence, place - starts[sequence]

    def _origins(self, sequence: torch.Tensor, token: torch.Tensor, shift: int) -> torch.Tensor:
        length = self._cells.lengths[sequence]
        place = token - shift
        outside = (token >= length) | (place < 0) | (place >= length)
        return _where_not(outside, self._cells.of(sequence, place.clamp(min=0)))

    def _tree(self) -> list[torch.Tensor]:
        """Of each level of a sum, which terms are added at once: [sums, _FAN_IN]. The number of all: none."""
        cells, layout = self._cells, self._layout
        own = layout.cp_rank is not None
        # On the host too, so that nothing waits for the number of sums.
        counts = layout.microbatch.lengths.astype(numpy.int64)
        if own:
            counts = numpy.diff(layout.microbatch.cu_seqlens_padded).astype(numpy.int64) // layout.cp
        on_device = (cells.counts if own else cells.lengths)[:-1]
        place = torch.arange(_FAN_IN, device=layout.device)
        number, begins = len(cells.token), None
        levels = []
        while True:
            counts = numpy.maximum(-(-counts // _FAN_IN), 1)
            folded = ((on_device + _FAN_IN - 1) // _FAN_IN).clamp(min=1)
            ends = torch.cumsum(folded, 0)
            total = int(counts.sum())
            one = torch.arange(total, device=layout.device)
            sequence = torch.searchsorted(ends, one, right=True)
            term = _FAN_IN * (one - (ends - folded)[sequence])[:, None] + place
            if begins is not None:
                index = begins[sequence][:, None] + term
            elif own:
                index = cells.begins[sequence][:, None] + term
            else:
                index = cells.of(sequence[:, None], term)
            is_missing = term >= on_device[sequence][:, None]
            levels.append(torch.where(is_missing, torch.full_like(index, number), index))
            number, begins, on_device = total, ends - folded, folded
            if counts.max() == 1:
                return levels


def _words(tensor: torch.Tensor, lead: int) -> torch.Tensor:
    """Its bits as integers, [tokens, elements, integers of an element]. A view.

    Args:
        lead: dimensions that say which token it is.
    """
    tensor = tensor.detach()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor.unsqueeze(-1)
    integers = tensor.view(_INTEGERS[tensor.element_size()])
    tokens, elements = (math.prod(part) for part in (tensor.shape[:lead], tensor.shape[lead:-1]))
    return integers.view(tokens, elements, tensor.shape[-1])


def _with_tail(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows, rows.new_zeros(1)])


def _where_not(condition: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """-1 where the condition is true."""
    return torch.where(condition, torch.full_like(values, -1), values)
