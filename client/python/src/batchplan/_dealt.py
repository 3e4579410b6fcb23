"""Where the items of a dealt load are computed: what each micro-batch sends and receives."""

from __future__ import annotations

import numpy
from numpy.typing import NDArray

from batchplan._micro_batch import DealtItems, Uint32s

_Numbers = NDArray[numpy.int64]


class Dealing:
    """The items of one load in all slots of a pass."""

    def __init__(
        self,
        item_ranks: Uint32s,
        places: _Numbers,
        slot_of: _Numbers,
        rank_of: _Numbers,
        is_slice: bool,
    ) -> None:
        """
        Args:
            item_ranks: which rank computes each item.
            places: the micro-batch of each item's sequence; -1: not planned.
            slot_of, rank_of: the slot of each micro-batch, counted over all mini-batches, and its rank.
            is_slice: only one rank's micro-batches are known.
        """
        items = numpy.flatnonzero(places >= 0)
        own, to = places[items], item_ranks[items].astype(numpy.int64)
        self._is_slice = is_slice
        self._slot_of, self._rank_of = slot_of, rank_of
        order = numpy.lexsort((items, to, own))
        self._microbatches = own[order]
        self._sent = _read_only(items[order])
        self._sent_to = _read_only(to[order])
        slots, of = slot_of[own], rank_of[own]
        order = numpy.lexsort((items, of, to, slots))
        self._ranks = int(max(to.max(initial=0), rank_of.max(initial=0))) + 1
        self._keys = (slots * self._ranks + to)[order]
        self._received = _read_only(items[order])
        self._received_from = _read_only(of[order])

    def of(self, microbatch: int) -> DealtItems:
        """The items of the micro-batch at this place in the plan."""
        begin, end = numpy.searchsorted(self._microbatches, (microbatch, microbatch + 1)).tolist()
        sent, sent_to = self._sent[begin:end], self._sent_to[begin:end]
        if self._is_slice:
            return DealtItems(sent, sent_to)
        key = int(self._slot_of[microbatch]) * self._ranks + int(self._rank_of[microbatch])
        begin, end = numpy.searchsorted(self._keys, (key, key + 1)).tolist()
        return DealtItems(sent, sent_to, self._received[begin:end], self._received_from[begin:end])


def _read_only(values: _Numbers) -> Uint32s:
    array = values.astype(numpy.uint32)
    array.flags.writeable = False
    return array
