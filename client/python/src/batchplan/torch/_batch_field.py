"""The fields of a batch, and how they are packed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Union

import numpy
import torch

from batchplan.torch._row import PackedRow

# [rows, tokens, ...] padded, nested, or one tensor [tokens, ...] a row.
Sequences = Union[torch.Tensor, Sequence[torch.Tensor]]

_MOST_SHIFT = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Filling:
    pad_value: complex = 0
    shift: int = 0

    @classmethod
    def of(cls, name: str, pad_value: complex, shift: int, dtype: torch.dtype) -> Filling:
        """Of a field of that dtype."""
        if not isinstance(shift, (int, numpy.integer)) or abs(shift) > _MOST_SHIFT:
            raise ValueError(
                f"shift of {name} is {shift}; must be a whole number of -{_MOST_SHIFT} to {_MOST_SHIFT}"
            )
        if isinstance(pad_value, (torch.Tensor, numpy.generic, numpy.ndarray)):
            pad_value = pad_value.item()
        if not isinstance(pad_value, (bool, int, float, complex)) or not _fits(pad_value, dtype):
            raise ValueError(f"pad_value of {name} is {pad_value!r}, which is no {dtype}")
        return cls(pad_value, int(shift))


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


@dataclasses.dataclass(frozen=True)
class BatchField:
    """One field of a batch: padded [rows, tokens, ...], or ragged [tokens, ...] with offsets [rows + 1].
    `lengths` of ragged rows where they are known on the host."""

    name: str
    values: torch.Tensor
    offsets: torch.Tensor | None
    lengths: numpy.ndarray[Any, Any] | None = None

    @classmethod
    def of(cls, name: str, sequences: Sequences) -> BatchField:
        if isinstance(sequences, torch.Tensor):
            if not sequences.is_nested:
                if sequences.ndim < 2:
                    shape = tuple(sequences.shape)
                    raise ValueError(f"{name} has shape {shape}; must be (rows, tokens, ...)")
                return cls(name, sequences, None)
            if sequences.layout != torch.strided:
                return cls(name, sequences.values(), sequences.offsets())
            sequences = sequences.unbind()
        if not isinstance(sequences, (list, tuple)):
            raise ValueError(f"{name} is a {type(sequences).__name__}; must be a tensor, or a list of them")
        if not sequences:
            raise ValueError(f"{name} is an empty list, which has no dtype; give an empty tensor")
        for place, one in enumerate(sequences):
            if not isinstance(one, torch.Tensor) or one.ndim < 1:
                raise ValueError(f"{name}[{place}] is no tensor of (tokens, ...)")
            if _kind_of(one) != _kind_of(sequences[0]):
                raise ValueError(
                    f"{name}[{place}] is {one.dtype} of {tuple(one.shape)} on {one.device}; {name}[0] is "
                    f"{sequences[0].dtype} of {tuple(sequences[0].shape)} on {sequences[0].device}"
                )
        lengths = numpy.array([len(one) for one in sequences])
        offsets = torch.from_numpy(numpy.concatenate([[0], lengths.cumsum()]))
        values = torch.cat(list(sequences))
        return cls(name, values, offsets.to(values.device), lengths)

    @property
    def num_rows(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def lies_like(self, other: BatchField) -> bool:
        """In the same rows, so that one launch moves both."""
        if self.offsets is None or other.offsets is None:
            return self.offsets is other.offsets and self.num_rows == other.num_rows
        return self.offsets is other.offsets and len(self.values) == len(other.values)

    def check(self, row: PackedRow, gathered: bool) -> None:
        """That the planned sequences are there, as far as the host can see."""
        planned, count, name = row.microbatch, len(row), self.name
        if self.values.device != row.device:
            raise ValueError(f"{name} is on {self.values.device}; the row is on {row.device}")
        if gathered and self.num_rows != count:
            raise ValueError(f"{name} has {self.num_rows} rows; the micro-batch has {count} sequences")
        if not count:
            return
        index = numpy.arange(count) if gathered else planned.indices
        if int(index.max()) >= self.num_rows:
            raise ValueError(
                f"{name} has {self.num_rows} rows; the micro-batch has sequence {int(index.max())}"
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


def _kind_of(one: torch.Tensor) -> tuple[torch.dtype, torch.device, torch.Size]:
    """What rows of one field have in common."""
    return one.dtype, one.device, one.shape[1:]
