"""What each of many sequences brings beside tokens, to be planned in parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._columns import uint32_of
from batchplan._errors import InvalidRequest
from batchplan._loads import ItemLists, Values, items_of, loads_of


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceLoads:
    """Attributes:
    loads: by name, one value a sequence.
    items: by name of other loads, what each sequence has of them.
    kinds: one a sequence; None: they have none.
    """

    loads: Mapping[str, Values]
    items: Mapping[str, ItemLists]
    kinds: NDArray[numpy.uint32] | None

    @classmethod
    def of_options(cls, count: int, *, loads: Any, items: Any, kinds: Any) -> SequenceLoads:
        """
        Args:
            count: of sequences.
            loads, items, kinds: as PlanOptions has them.

        Raises:
            InvalidRequest: they are not one a sequence, or a value is not finite or below 0.
        """
        own = dict(loads_of(loads))
        lists = items_of(items, count)
        of_sequences = None if kinds is None else uint32_of("kinds", kinds)
        for name, values in own.items():
            if name in lists:
                raise InvalidRequest(f'loads and items both have "{name}"; its items add up to it')
            if len(values) != count:
                raise InvalidRequest(f'loads["{name}"] has {len(values)} values; there are {count} sequences')
        for name, values in (*own.items(), *((name, one.values) for name, one in lists.items())):
            wrong = ~(numpy.isfinite(values) & (values >= 0))
            if wrong.any():
                place = int(wrong.argmax())
                where = f'loads["{name}"][{place}]'
                if name in lists:
                    where = f'an item of "{name}" of sequence {lists[name].sequences[place]}'
                raise InvalidRequest(f"{where} is {values[place]}; must be finite, at least 0")
        if of_sequences is not None and len(of_sequences) != count:
            raise InvalidRequest(f"kinds has {len(of_sequences)} entries; there are {count} sequences")
        return cls(own, lists, of_sequences)

    @property
    def names(self) -> list[str]:
        """What there is."""
        return sorted([*self.loads, *self.items]) + ["kinds"] * (self.kinds is not None)

    def of(self, places: NDArray[Any]) -> SequenceLoads:
        """Those of some sequences, in their order."""
        return SequenceLoads(
            {name: values[places] for name, values in self.loads.items()},
            {name: lists.of(places) for name, lists in self.items.items()},
            None if self.kinds is None else self.kinds[places],
        )

    @classmethod
    def joined(cls, parts: Sequence[SequenceLoads]) -> SequenceLoads:
        """Of the sequences of all parts, at least one, which have the same names."""
        first = parts[0]
        return cls(
            {name: numpy.concatenate([one.loads[name] for one in parts]) for name in first.loads},
            {name: ItemLists.joined([one.items[name] for one in parts]) for name in first.items},
            None if first.kinds is None else numpy.concatenate([one.kinds for one in parts if one.kinds is not None]),
        )

    def sums(self) -> dict[str, Values]:
        """By name, what each sequence has of a load."""
        return {**self.loads, **{name: lists.sums for name, lists in self.items.items()}}

    def options(self) -> dict[str, Any]:
        """Those of a plan, without those of what there is not."""
        given = {"loads": self.loads, "items": self.items, "kinds": self.kinds}
        return {name: value for name, value in given.items() if value is not None and len(value)}
