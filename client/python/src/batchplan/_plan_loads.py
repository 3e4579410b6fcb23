"""What the micro-batches of a plan have of the batch's loads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from batchplan._loads import Values
from batchplan._micro_batch import DealtItems, Uint32s


@dataclasses.dataclass(frozen=True, eq=False)
class LoadValues:
    """The loads of a batch, by name."""

    # Of each sequence.
    of_sequences: Mapping[str, Values] = dataclasses.field(default_factory=dict)
    # Of each item, of loads that came as items.
    of_items: Mapping[str, Values] = dataclasses.field(default_factory=dict)

    def of(self, indices: Uint32s, dealt: Mapping[str, DealtItems]) -> dict[str, float]:
        """Of a micro-batch with these sequences, of dealt loads the items that it computes."""
        sums = {name: float(values[indices].sum()) for name, values in self.of_sequences.items()}
        for name, items in dealt.items():
            if name in sums and items.received is not None:
                sums[name] = float(self.of_items[name][items.received].sum())
        return sums


NO_LOADS = LoadValues()
