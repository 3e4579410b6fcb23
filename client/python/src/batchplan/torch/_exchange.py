"""Global batches that exchange sequences, so that each can be planned."""

from __future__ import annotations

import heapq

import numpy
from numpy.typing import NDArray

from batchplan.torch._batch_planner import BatchPlanner, Positions
from batchplan.torch._epoch import Epoch, UndividableError
from batchplan.torch._epoch_sizes import Ends
from batchplan.torch._mini_batches import MiniBatches
from batchplan.torch._mixture import SourceShares


class Exchange:
    """Exchanges sequences of an epoch's batches, of which the sizes stay as they are, or almost."""

    def __init__(
        self,
        planner: BatchPlanner,
        positions: Positions,
        *,
        mini_batches: MiniBatches,
        group_of: Positions | None,
        shares: SourceShares | None,
        moves: bool,
    ) -> None:
        """
        Args:
            positions: of the sequences in the dataset, ascending.
            mini_batches: of each global batch.
            group_of: of each position, the number of its group, which no batch may tear; None: none has one.
            shares: the sources of a mixture, by position; None: there is none.
            moves: whether other borders of the batches were tried before.
        """
        self._planner, self._positions, self._mini_batches = planner, positions, mini_batches
        self._group_of, self._shares, self._moves = group_of, shares, moves

    def dealt(self, epoch: int, order: Positions, ends: Ends) -> Epoch:
        """Batches of the same sizes, of which those that can't be planned exchange sequences with others.

        Raises:
            UndividableError: it helps nowhere.
        """
        fits = self._planner.fits
        batches = Epoch(order, ends, False).batches()
        if self._moves and self._planner.goes_by_tokens:
            # Nothing fits more than the shortest ones together.
            sharing = int(ends[-1]) % self._planner.multiple
            raise UndividableError(epoch, len(batches) - 1, batches[-1], sharing=sharing)
        for step, batch in enumerate(batches):
            if not self._mini_batches.divides(self._count(batch)):
                raise UndividableError(epoch, step, batch)
        is_arranged = False
        for step, batch in enumerate(batches):
            if fits(batch):
                continue
            width = 1
            while True:
                if width >= len(batches):
                    raise UndividableError(epoch, step, batch)
                width = min(2 * width, len(batches))
                # With those that follow, where there are enough.
                first = min(step, len(batches) - width)
                pool = batches[first : first + width]
                if not self._planner.holds(pool):
                    continue
                dealt = self._deal(pool)
                if not (dealt and all(map(fits, dealt))):
                    dealt = self._deal_rows(pool)
                if dealt and all(map(fits, dealt)):
                    break
            batches[first : first + width] = dealt
            is_arranged = True
        if is_arranged:
            order = numpy.concatenate(batches)
            ends = numpy.cumsum([len(one) for one in batches])
        return Epoch(order, ends, is_arranged)

    def _deal_rows(self, batches: list[Positions]) -> list[Positions]:
        """The sequences of these batches in batches that are almost alike in size, where their micro-batches were
        found all at once; none: they were not, or sizes must be the same."""
        if self._mini_batches or self._group_of is not None or self._shares is not None:
            return []
        rows = self._planner.rows(numpy.concatenate(batches), len(batches))
        if rows is None:
            return []
        each = len(rows) // len(batches)
        heap = [(0, 0, place) for place in range(len(batches))]
        parts: list[list[Positions]] = [[] for _ in batches]
        for row in sorted(rows, key=len, reverse=True):
            size, count, place = heapq.heappop(heap)
            parts[place].append(row)
            if count + 1 < each:
                heapq.heappush(heap, (size + len(row), count + 1, place))
        return [numpy.concatenate(part) for part in parts]

    def _count(self, batch: Positions) -> int:
        """What mini-batches count: its sequences, or groups."""
        return len(numpy.unique(self._groups_of(batch))) if self._mini_batches.of_groups else len(batch)

    def _groups_of(self, positions: Positions) -> Positions:
        """The group of each, by number."""
        assert self._group_of is not None
        return self._group_of[numpy.searchsorted(self._positions, positions)]

    def _deal(self, batches: list[Positions]) -> list[Positions]:
        """The sequences of these batches in batches of the same sizes, of a mixture with as many of each source, alike
        in tokens. The longest come first, each to the least full batch, among equals to that of the fewest tokens. A
        group comes as one. Where slots are of one kind, batches have enough of it for one, or none; no batches: they
        can't."""
        positions = numpy.concatenate(batches)
        tokens = self._planner.sizes(positions)
        units = numpy.arange(len(positions))
        if self._group_of is not None:
            units = numpy.unique(self._groups_of(positions), return_inverse=True)[1]
        counts = numpy.bincount(units)
        sums = numpy.bincount(units, tokens).astype(numpy.int64)
        # Of mini-batches, each by itself.
        sizes_of = [self._mini_batches.sizes(self._count(batch)) for batch in batches]
        sizes = [size for own in sizes_of for size in own]
        if self._mini_batches.of_groups and self._shares is None:
            counts[:] = 1
        source_of, rooms = self._rooms(positions, units, sizes)
        if rooms is None:
            return []
        source_of_unit = numpy.zeros(len(counts), numpy.int64)
        source_of_unit[units] = source_of
        # For each source: how full, in parts of a whole; tokens; which one.
        heaps = [[(0, 0, place) for place, room in enumerate(of) if room] for of in rooms.T.tolist()]
        filled = numpy.zeros_like(rooms).tolist()
        room_of = rooms.tolist()
        held = [0] * len(sizes)
        part_of = numpy.empty(len(counts), numpy.int64)
        for unit in numpy.lexsort((-sums, -counts)).tolist():
            source = int(source_of_unit[unit])
            place = heapq.heappop(heaps[source])[2]
            part_of[unit] = place
            filled[place][source] += int(counts[unit])
            held[place] += int(sums[unit])
            fullness = (filled[place][source] << 32) // room_of[place][source]
            heapq.heappush(heaps[source], (fullness, held[place], place))
        # In the order that they had.
        parts = part_of[units]
        dealt = positions[parts.argsort(kind="stable")]
        cuts = numpy.cumsum(numpy.bincount(parts, minlength=len(sizes)))[:-1]
        pieces = numpy.split(dealt, cuts)
        merged, used = [], 0
        for own in sizes_of:
            merged.append(numpy.concatenate(pieces[used : used + len(own)]))
            used += len(own)
        return merged

    def _rooms(
        self, positions: Positions, units: Positions, sizes: list[int]
    ) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64] | None]:
        """The source, or kind, of each sequence, and how many each batch has of it, shape [batches, sources]; None: not
        as a slot needs it.

        Args:
            units: of each sequence, the number of what stays together.
            sizes: of batches.
        """
        kinds = self._planner.kinds(positions)
        if self._shares is not None:
            source_of = self._shares.source_of[numpy.searchsorted(self._positions, positions)]
            rooms = numpy.zeros((len(sizes), int(source_of.max()) + 1), numpy.int64)
            # Where groups are counted, all have as many sequences.
            each = numpy.array(sizes) * (len(positions) // sum(sizes))
            numpy.add.at(rooms, (numpy.repeat(numpy.arange(len(sizes)), each), source_of), 1)
            return source_of, rooms
        if kinds is not None and not self._mini_batches.of_groups:
            of_units = numpy.zeros(len(units), numpy.int64)
            of_units[units] = kinds
            if (of_units[units] == kinds).all():
                source_of = numpy.unique(numpy.append(kinds, 0), return_inverse=True)[1][:-1]
                least = self._planner.ranks * self._planner.each
                if self._planner.options.get("groups") in ("same_rank", "same_microbatch"):
                    # Of a slot, in which each rank has another group.
                    least *= int(numpy.bincount(units).max())
                return source_of, _rooms_of_kinds(sizes, numpy.bincount(source_of).tolist(), least)
        return numpy.zeros(len(positions), numpy.int64), numpy.array(sizes, numpy.int64)[:, None]


def _rooms_of_kinds(sizes: list[int], counts: list[int], least: int) -> NDArray[numpy.int64] | None:
    """Of each batch, how many sequences of each kind it has, shape [batches, kinds]: none, or enough for a slot, in as
    many of the batches as that allows; of text what is left. None: that is not to be had.

    Args:
        sizes: of batches.
        counts: sequences of each kind, text first.
        least: of a slot.
    """
    rooms = numpy.zeros((len(sizes), len(counts)), numpy.int64)
    left = numpy.array(sizes, numpy.int64)
    # Of the rarest first.
    for kind in sorted(range(1, len(counts)), key=lambda one: counts[one]):
        if not counts[kind]:
            continue
        slots, rest = divmod(counts[kind], least)
        number = min(len(sizes), slots)
        if not number:
            return None
        # Those with the most room, in which others leave text the most. Only one has some that must share.
        chosen = (-left).argsort(kind="stable")[:number]
        rooms[chosen, kind] = slots // number * least
        rooms[chosen[: slots % number], kind] += least
        rooms[chosen[-1], kind] += rest
        left -= rooms[:, kind]
    if (left < 0).any():
        return None
    rooms[:, 0] = left
    return rooms
