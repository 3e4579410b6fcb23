"""What the micro-batches of a plan have of the batch's loads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy

from batchplan import _core
from batchplan._errors import Error
from batchplan._loads import Values
from batchplan._micro_batch import DealtItems, Uint32s


@dataclasses.dataclass(frozen=True, eq=False)
class LoadValues:
    """The loads of a batch, by name."""

    # Of each sequence, what it has itself or the sum of its items.
    of_sequences: Mapping[str, Values] = dataclasses.field(default_factory=dict)
    # Of each item, of loads that came as items.
    of_items: Mapping[str, Values] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_arrays(cls, arrays: _core.Arrays) -> LoadValues:
        """Those of a manifest."""
        lengths, *_, loads, items = arrays
        of_sequences = dict(loads)
        for name, sequences, values in items:
            if len(sequences) > 0 and sequences.max() >= len(lengths):
                raise Error(f"items of {name!r} are of sequence {sequences.max()}; there are {len(lengths)}")
            sums = numpy.bincount(sequences, values, len(lengths))
            of_sequences[name] = sums.astype(numpy.float64, copy=False)
        return cls(of_sequences, {name: values for name, _, values in items})

    def of(self, indices: Uint32s, dealt: Mapping[str, DealtItems]) -> dict[str, float]:
        """Of a micro-batch with these sequences, of dealt loads the items that it computes."""
        sums = {name: float(values[indices].sum()) for name, values in self.of_sequences.items()}
        for name, items in dealt.items():
            if name not in sums:
                continue
            if items.received is None:
                # Of one rank's part of a plan, not known.
                del sums[name]
            else:
                sums[name] = float(self.of_items[name][items.received].sum())
        return sums


NO_LOADS = LoadValues()
