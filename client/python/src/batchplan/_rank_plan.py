"""The micro-batches of one rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from batchplan._micro_batch import MicroBatch


class RankPlan(Sequence[MicroBatch]):
    """In the order in which the rank runs them, each made when it is asked for."""

    def __init__(self, make: Callable[[int, int, int], MicroBatch], slots: list[tuple[int, int, int]]) -> None:
        """
        Args:
            make: of a mini-batch, a slot and a place in the plan.
            slots: all three, of each micro-batch.
        """
        self._make, self._slots = make, slots

    def __len__(self) -> int:
        return len(self._slots)

    @overload
    def __getitem__(self, place: int) -> MicroBatch: ...
    @overload
    def __getitem__(self, place: slice) -> RankPlan: ...
    def __getitem__(self, place: int | slice) -> MicroBatch | RankPlan:
        if isinstance(place, slice):
            return RankPlan(self._make, self._slots[place])
        return self._make(*self._slots[place])

    def __iter__(self) -> Iterator[MicroBatch]:
        return (self._make(*one) for one in self._slots)

    def __repr__(self) -> str:
        return f"<RankPlan: {len(self)} micro-batch{'es' if len(self) != 1 else ''}>"
