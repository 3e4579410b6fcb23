"""The fields of a batch, and how they are packed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import numpy
import torch

from batchplan._micro_batch import MicroBatch
from batchplan.torch._verdict import is_on_host

# [rows, tokens, ...] padded, nested, or one tensor [tokens, ...] a row.
Sequences = Union[torch.Tensor, Sequence[torch.Tensor]]

_MOST_SHIFT = 2**31 - 1


class Filling(NamedTuple):
    pad_value: complex = 0
    shift: int = 0

    @classmethod
    def of(cls, name: str, pad_value: complex, shift: int, dtype: torch.dtype) -> Filling:
        """Of a field of that dtype."""
        if type(pad_value) is int and pad_value == 0 and type(shift) is int and shift == 0:
            return _ZEROS
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
_ZEROS = Filling()


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


class BatchField(NamedTuple):
    """One field of a batch: padded [rows, tokens, ...], or ragged [tokens, ...] with offsets [rows + 1].
    `gathered`: its rows are the micro-batch's alone, in its order."""

    name: str
    values: torch.Tensor
    offsets: torch.Tensor | None
    gathered: bool
    # Offsets that the host has not seen.
    is_judged_later: bool = False

    @classmethod
    def of(cls, name: str, sequences: Sequences, microbatch: MicroBatch, gathered: bool) -> BatchField:
        """Of a list the micro-batch's rows alone are copied, so that a step copies each row once.

        Raises:
            ValueError: a planned sequence is not there, or has fewer tokens than planned, as far as the
                host can see.
        """
        if isinstance(sequences, torch.Tensor) and sequences.is_nested:
            # Jagged ones with gaps between the rows are like strided ones: offsets alone do not tell their lengths.
            if sequences.layout != torch.strided and sequences.lengths() is None:
                return cls._of_jagged(name, sequences, microbatch, gathered)
            sequences = sequences.unbind()
        if isinstance(sequences, torch.Tensor):
            if sequences.ndim < 2:
                shape = tuple(sequences.shape)
                raise ValueError(f"{name} has shape {shape}; must be (rows, tokens, ...)")
            rows, width = sequences.shape[:2]
            _check_rows(name, rows, microbatch, gathered)
            if width < microbatch.max_seqlen:
                _check_lengths(name, numpy.full(len(microbatch), width), microbatch, gathered)
            return cls(name, sequences, None, gathered)
        if not isinstance(sequences, (list, tuple)):
            raise ValueError(f"{name} is a {type(sequences).__name__}; must be a tensor, or a list of them")
        if not sequences:
            raise ValueError(f"{name} is an empty list, which has no dtype; give an empty tensor")
        _check_rows(name, len(sequences), microbatch, gathered)
        places = range(len(sequences)) if gathered else microbatch.indices.tolist()
        # Of no rows, the first one says what they would be.
        rows = [sequences[place] for place in places] or [sequences[0]]
        if not _are_alike(rows):
            raise ValueError(_unlike(name, places or [0], rows))
        rows = rows if len(microbatch) else [rows[0][:0]]
        lengths = numpy.array([one.shape[0] for one in rows[: len(microbatch)]], numpy.int64)
        _check_lengths(name, lengths, microbatch, gathered)
        offsets = torch.from_numpy(numpy.concatenate([[0], lengths.cumsum()]))
        return cls(name, torch.cat(rows), offsets.to(rows[0].device), gathered=True)

    @classmethod
    def _of_jagged(
        cls, name: str, sequences: Any, microbatch: MicroBatch, gathered: bool
    ) -> BatchField:
        ragged = getattr(sequences, "_ragged_idx", 1)
        if ragged != 1:
            raise ValueError(f"{name} is nested in dimension {ragged}; must be in 1, its tokens")
        offsets = sequences.offsets().to(torch.int64).contiguous()
        _check_rows(name, len(offsets) - 1, microbatch, gathered)
        values, later = sequences.values(), not is_on_host(offsets.device)
        error = None if later else offsets_error(name, offsets, len(values), microbatch, gathered)
        if error is not None:
            raise ValueError(error)
        return cls(name, values, offsets, gathered, later)

    @property
    def num_rows(self) -> int:
        return self.values.shape[0] if self.offsets is None else self.offsets.shape[0] - 1

    def lies_like(self, other: BatchField) -> bool:
        """In the same rows, so that one launch moves both. Lists have offsets of their own."""
        if self.offsets is None or other.offsets is None:
            return self.offsets is other.offsets and self.num_rows == other.num_rows
        return self.offsets is other.offsets and len(self.values) == len(other.values)


def _check_rows(name: str, num_rows: int, microbatch: MicroBatch, gathered: bool) -> None:
    if gathered and num_rows != len(microbatch):
        raise ValueError(
            f"{name} has {num_rows} rows; the micro-batch has {len(microbatch)} sequences"
        )
    if not gathered and microbatch.last_index >= num_rows:
        raise ValueError(f"{name} has {num_rows} rows; the micro-batch has sequence {microbatch.last_index}")


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


def _are_alike(rows: Sequence[Any]) -> bool:
    """Whether they are tensors that one field may have as rows."""
    first = rows[0]
    if not isinstance(first, torch.Tensor) or first.ndim < 1:
        return False
    dtype, device, ndim, inner = first.dtype, first.device, first.ndim, first.shape[1:]
    return all(
        isinstance(one, torch.Tensor)
        and one.dtype == dtype
        and one.ndim == ndim
        and one.device == device
        and (ndim == 1 or one.shape[1:] == inner)
        for one in rows
    )


def _unlike(name: str, places: Sequence[int], rows: Sequence[Any]) -> str:
    """What is wrong with rows, by their places in the list, that are not alike."""
    for place, one in zip(places, rows):
        if not isinstance(one, torch.Tensor) or one.ndim < 1:
            return f"{name}[{place}] is no tensor of (tokens, ...)"
        if (one.dtype, one.device, one.shape[1:]) != (rows[0].dtype, rows[0].device, rows[0].shape[1:]):
            break
    return (
        f"{name}[{place}] is {one.dtype} of {tuple(one.shape)} on {one.device}; "
        f"{name}[{places[0]}] is {rows[0].dtype} of {tuple(rows[0].shape)} on {rows[0].device}"
    )
