"""What sequences bring to micro-batches beside tokens, as arrays."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._checks import text
from batchplan._columns import float64_of, listed
from batchplan._errors import InvalidRequest

Values = NDArray[numpy.float64]
NO_VALUES = numpy.empty(0, numpy.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class ItemLists:
    """The items of each sequence, such as its images.

    Attributes:
        values: of all items, one sequence after the other.
        counts: items of each sequence.
    """

    values: Values
    counts: NDArray[numpy.int64]

    def __len__(self) -> int:
        """Sequences."""
        return len(self.counts)

    @property
    def sequences(self) -> NDArray[numpy.uint32]:
        """The sequence of each item."""
        return numpy.repeat(numpy.arange(len(self.counts), dtype=numpy.uint32), self.counts)

    @property
    def sums(self) -> Values:
        """Of each sequence."""
        return numpy.bincount(self.sequences, self.values, len(self.counts)).astype(numpy.float64)

    @property
    def largest(self) -> Values:
        """Of each sequence, 0 where it has no item."""
        found = numpy.zeros(len(self.counts))
        numpy.maximum.at(found, self.sequences, self.values)
        return found

    def of(self, places: NDArray[Any]) -> ItemLists:
        """Those of some sequences, in their order."""
        counts = self.counts[places]
        begins = (self.counts.cumsum() - self.counts)[places]
        items = numpy.repeat(begins - (counts.cumsum() - counts), counts) + numpy.arange(counts.sum())
        return ItemLists(self.values[items], counts)

    @classmethod
    def joined(cls, parts: Sequence[ItemLists]) -> ItemLists:
        """Of the sequences of all parts, one after the other."""
        return cls(*(numpy.concatenate([getattr(one, name) for one in parts]) for name in ("values", "counts")))


def loads_of(given: Any) -> list[tuple[str, Values]]:
    """Names and values, as the core takes them, without a copy where they are so already."""
    return [
        (name, float64_of(f"manifest.loads[{place}].values", values))
        for place, (name, values) in enumerate(_by_name("loads", given).items())
    ]


def items_of(given: Any, count: int) -> dict[str, ItemLists]:
    """By name of the load, the items of so many sequences."""
    return {
        name: lists if isinstance(lists, ItemLists) else _items(f"manifest.items[{place}]", lists, count)
        for place, (name, lists) in enumerate(_by_name("items", given).items())
    }


def _items(where: str, lists: Any, count: int) -> ItemLists:
    lists = listed(where, lists)
    if not isinstance(lists, Iterable):
        raise InvalidRequest(f"{where} is {reprlib.repr(lists)}; must be a list of lists, one a sequence")
    arrays = [float64_of(f"{where}[{sequence}]", values) for sequence, values in enumerate(lists)]
    if len(arrays) != count:
        raise InvalidRequest(f"{where} has {len(arrays)} lists; must have {count}, one a sequence")
    counts = numpy.array([len(one) for one in arrays], numpy.int64)
    return ItemLists(numpy.concatenate(arrays) if arrays else NO_VALUES, counts)


def _by_name(field: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"{field} is {reprlib.repr(given)}; must be a mapping by name of the load")
    return {text(f"a name of {field}", name): values for name, values in given.items()}
