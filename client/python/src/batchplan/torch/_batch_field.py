"""The fields of a batch, and how they are packed."""

from __future__ import annotations

import dataclasses
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
    pad_value: float = 0
    shift: int = 0

    @classmethod
    def of(cls, name: str, pad_value: float, shift: int) -> Filling:
        if not isinstance(shift, (int, numpy.integer)) or abs(shift) > _MOST_SHIFT:
            raise ValueError(
                f"shift of {name} is {shift}; must be a whole number of -{_MOST_SHIFT} to {_MOST_SHIFT}"
            )
        return cls(pad_value, int(shift))


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
        if not sequences:
            raise ValueError(f"{name} is an empty list, which has no dtype; give an empty tensor")
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
