"""The fields of a batch, and how they are packed."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy
import torch

from batchplan._micro_batch import MicroBatch
from batchplan.torch._verdict import is_on_host

if TYPE_CHECKING:
    from batchplan.torch._row import PackedRow

# [rows, tokens, ...] padded, nested, or one tensor [tokens, ...] a row.
Sequences = Union[torch.Tensor, Sequence[torch.Tensor]]

_MOST_SHIFT = 2**31 - 1
# What a subclass such as a nested tensor is asked goes by way of Python otherwise, which takes longer than all that is
# done here. Of torch before 2.0 there is none.
_WithoutSubclass: Any = getattr(torch._C, "DisableTorchFunctionSubclass", contextlib.nullcontext)


class Filling(NamedTuple):
    pad_value: complex = 0
    shift: int = 0

    @classmethod
    def of(cls, name: str, pad_value: complex, shift: int, dtype: torch.dtype) -> Filling:
        """Of a field of that dtype."""
        if type(pad_value) is int and pad_value == 0 and type(shift) is int and shift == 0:
            return ZEROS
        if not isinstance(shift, (int, numpy.integer)) or abs(shift) > _MOST_SHIFT:
            raise ValueError(
                f"shift of {name} is {shift}; must be a whole number of -{_MOST_SHIFT} to {_MOST_SHIFT}"
            )
        if isinstance(pad_value, (torch.Tensor, numpy.generic, numpy.ndarray)):
            pad_value = pad_value.item()
        if not isinstance(pad_value, (bool, int, float, complex)) or not _fits(pad_value, dtype):
            raise ValueError(f"pad_value of {name} is {pad_value!r}, which is no {dtype}")
        return cls(pad_value, int(shift))


# Of most fields.
ZEROS = Filling()


def _fits(value: complex, dtype: torch.dtype) -> bool:
    if dtype.is_complex:
        return True
    if isinstance(value, complex):
        return False
    finite = isinstance(value, int) or math.isfinite(value)
    if dtype.is_floating_point:
        return not finite or abs(value) <= torch.finfo(dtype).max
    if not finite or value != int(value):
        return False
    least, most = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    return least <= value <= most


class BatchField:
    """One field of a batch: padded [rows, tokens, ...], or ragged [tokens, ...] with offsets.

    Attributes:
        gathered: its rows are the micro-batch's alone, in its order.
        is_end_to_end: its tokens are those of the micro-batch's sequences, end to end, and no others, contiguous.
        is_judged_later: its offsets are such as the host has not seen.
    """

    def __init__(
        self,
        name: str,
        values: torch.Tensor,
        num_rows: int,
        gathered: bool,
        *,
        offsets: torch.Tensor | None = None,
        lengths: list[int] | None = None,
        is_end_to_end: bool = False,
        is_judged_later: bool = False,
    ) -> None:
        """
        Args:
            offsets, lengths: of ragged rows one of them: where rows begin, [rows + 1], or their tokens.
        """
        self.name, self.values, self.num_rows, self.gathered = name, values, num_rows, gathered
        self.is_end_to_end, self.is_judged_later = is_end_to_end, is_judged_later
        self._offsets, self._lengths = offsets, lengths

    @classmethod
    def of(cls, name: str, sequences: Sequences, row: PackedRow, gathered: bool) -> BatchField:
        """Of a list the micro-batch's rows alone are copied, so that a step copies each row once.

        Raises:
            ValueError: a planned sequence is not there, or has fewer tokens than planned, as far as the
                host can see.
        """
        if isinstance(sequences, (list, tuple)):
            return cls._of_list(name, sequences, row, gathered)
        if not isinstance(sequences, torch.Tensor):
            raise ValueError(f"{name} is a {type(sequences).__name__}; must be a tensor, or a list of them")
        if type(sequences) is not torch.Tensor:
            with _WithoutSubclass():
                return cls._of_tensor(name, sequences, row, gathered)
        return cls._of_tensor(name, sequences, row, gathered)

    @classmethod
    def _of_tensor(cls, name: str, sequences: Any, row: PackedRow, gathered: bool) -> BatchField:
        if sequences.is_nested:
            # Strided ones have no lengths(). Those with gaps between the rows are like them: offsets alone do not tell
            # their lengths.
            lengths = getattr(sequences, "lengths", None)
            if lengths is not None and lengths() is None:
                return cls._of_jagged(name, sequences, row, gathered)
            return cls._of_list(name, sequences.unbind(), row, gathered)
        shape = sequences.shape
        if len(shape) < 2:
            raise ValueError(f"{name} has shape {tuple(shape)}; must be (rows, tokens, ...)")
        _check_rows(name, shape[0], row, gathered)
        if shape[1] < row.max_seqlen:
            _check_lengths(name, numpy.full(len(row), shape[1]), row.microbatch, gathered)
        return cls(name, sequences, shape[0], gathered)

    @classmethod
    def _of_list(
        cls, name: str, sequences: Sequence[torch.Tensor], row: PackedRow, gathered: bool
    ) -> BatchField:
        if not sequences:
            raise ValueError(f"{name} is an empty list, which has no dtype; give an empty tensor")
        _check_rows(name, len(sequences), row, gathered)
        rows = sequences if gathered else [sequences[place] for place in row.microbatch.indices.tolist()]
        if not rows:
            # The first one says what they would be.
            _check_alike(name, sequences[:1], row.microbatch, gathered)
            return cls(name, sequences[0][:0], 0, True, lengths=[], is_end_to_end=True)
        try:
            dtype = rows[0].dtype
            lengths = [one.shape[0] for one in rows if one.dtype is dtype]
            values = torch.cat(rows)
        except (AttributeError, IndexError, TypeError, RuntimeError):
            _check_alike(name, rows, row.microbatch, gathered)
            raise
        if len(lengths) < len(rows):
            _check_alike(name, rows, row.microbatch, gathered)
        is_end_to_end = lengths == row.microbatch.lengths.tolist()
        if not is_end_to_end:
            _check_lengths(name, numpy.array(lengths, numpy.int64), row.microbatch, gathered)
        elif values.layout is not torch.strided or not values.is_contiguous():
            is_end_to_end = False
        return cls(name, values, len(lengths), True, lengths=lengths, is_end_to_end=is_end_to_end)

    @classmethod
    def _of_jagged(cls, name: str, sequences: Any, row: PackedRow, gathered: bool) -> BatchField:
        ragged = getattr(sequences, "_ragged_idx", 1)
        if ragged != 1:
            raise ValueError(f"{name} is nested in dimension {ragged}; must be in 1, its tokens")
        offsets = sequences.offsets().to(torch.int64).contiguous()
        num_rows = offsets.shape[0] - 1
        _check_rows(name, num_rows, row, gathered)
        values = _values_of(sequences)
        later, tokens = not is_on_host(offsets.device), values.shape[0]
        if not later and not row.has_tokens(offsets.data_ptr(), num_rows, tokens, gathered):
            raise ValueError(offsets_error(name, offsets, tokens, row.microbatch, gathered))
        return cls(name, values, num_rows, gathered, offsets=offsets, is_judged_later=later)

    @property
    def offsets(self) -> torch.Tensor | None:
        """Of ragged rows, int64, [rows + 1]; None of padded ones."""
        if self._offsets is None and self._lengths is not None:
            offsets = [0, *itertools.accumulate(self._lengths)]
            self._offsets = torch.tensor(offsets, dtype=torch.int64, device=self.values.device)
        return self._offsets

    @property
    def lie(self) -> Hashable:
        """Equal of fields in the same rows, which one launch moves."""
        if self._lengths is not None:
            return tuple(self._lengths)
        return self.num_rows if self._offsets is None else (id(self._offsets), len(self.values))


def _values_of(nested: Any) -> torch.Tensor:
    """Of a jagged one, without the detour by which gradients come, where none is needed."""
    values = nested._values
    if not isinstance(values, torch.Tensor) or nested.requires_grad:
        values = nested.values()
    return values


def device_of(sequences: Any, microbatch: MicroBatch, gathered: bool) -> Any:
    """Of a field's tensors, if they are. A list need not have others than the micro-batch's."""
    if isinstance(sequences, (list, tuple)):
        place = 0 if gathered or not len(microbatch) else int(microbatch.indices[0])
        sequences = sequences[place] if place < len(sequences) else None
    with _WithoutSubclass():
        return getattr(sequences, "device", "cpu")


def _check_rows(name: str, num_rows: int, row: PackedRow, gathered: bool) -> None:
    if gathered and num_rows != len(row):
        raise ValueError(f"{name} has {num_rows} rows; the micro-batch has {len(row)} sequences")
    if not gathered and row.last_index >= num_rows:
        raise ValueError(f"{name} has {num_rows} rows; the micro-batch has sequence {row.last_index}")


def offsets_error(
    name: str, offsets: torch.Tensor, tokens: int, microbatch: MicroBatch, gathered: bool
) -> str | None:
    """What is wrong with offsets of ragged rows with so many tokens together."""
    begins, ends = (
        part if gathered else part[microbatch.indices]
        for part in (offsets.numpy()[:-1], offsets.numpy()[1:])
    )
    error = _lengths_error(name, ends - begins, microbatch, gathered)
    outside = (begins < 0) | (ends > tokens)
    if error is None and outside.any():
        place = int(outside.argmax())
        row = place if gathered else int(microbatch.indices[place])
        error = f"{name}[{row}] is tokens {int(begins[place])} to {int(ends[place])}; there are {tokens}"
    return error


def _lengths_error(
    name: str, there: numpy.ndarray[Any, Any], microbatch: MicroBatch, gathered: bool
) -> str | None:
    """`there`: tokens of the micro-batch's sequences."""
    short = microbatch.lengths > there
    if not short.any():
        return None
    place = int(short.argmax())
    row = place if gathered else int(microbatch.indices[place])
    planned = int(microbatch.lengths[place])
    return f"{name}[{row}] has {int(there[place])} tokens; {planned} are planned"


def _check_lengths(
    name: str, there: numpy.ndarray[Any, Any], microbatch: MicroBatch, gathered: bool
) -> None:
    error = _lengths_error(name, there, microbatch, gathered)
    if error is not None:
        raise ValueError(error)


def _check_alike(name: str, rows: Sequence[Any], microbatch: MicroBatch, gathered: bool) -> None:
    """That they are tensors which one field may have as rows."""
    places = range(len(rows)) if gathered or not len(microbatch) else microbatch.indices.tolist()
    for place, one in zip(places, rows):
        if not isinstance(one, torch.Tensor) or one.ndim < 1:
            raise ValueError(f"{name}[{place}] is no tensor of (tokens, ...)")
        if (one.dtype, one.device, one.shape[1:]) != (rows[0].dtype, rows[0].device, rows[0].shape[1:]):
            raise ValueError(
                f"{name}[{place}] is {one.dtype} of {tuple(one.shape)} on {one.device}; "
                f"{name}[{places[0]}] is {rows[0].dtype} of {tuple(rows[0].shape)} on {rows[0].device}"
            )
