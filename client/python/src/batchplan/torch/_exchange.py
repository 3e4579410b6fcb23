"""Global batches that exchange sequences, so that each can be planned."""

from __future__ import annotations

import heapq

import numpy

from batchplan.torch._batch_planner import BatchPlanner, Positions
from batchplan.torch._epoch import Epoch, UndividableError
from batchplan.torch._epoch_sizes import Ends
from batchplan.torch._mixture import SourceShares


class Exchange:
    """Exchanges sequences of an epoch's batches, of which the sizes stay as they are, or almost."""

    def __init__(
        self,
        planner: BatchPlanner,
        positions: Positions,
        *,
        mini_batch: int,
        group_of: Positions | None,
        shares: SourceShares | None,
        moves: bool,
    ) -> None:
        """
        Args:
            positions: of the sequences in the dataset, ascending.
            mini_batch: sequences of a mini-batch; 0: a global batch is one.
            group_of: of each position, the number of its group, which no batch may tear; None: none has one.
            shares: the sources of a mixture, by position; None: there is none.
            moves: whether other borders of the batches were tried before.
        """
        self._planner, self._positions, self._mini_batch = planner, positions, mini_batch
        self._group_of, self._shares, self._moves = group_of, shares, moves

    def dealt(self, epoch: int, order: Positions, ends: Ends) -> Epoch:
        """Batches of the same sizes, of which those that can't be planned exchange sequences with others.

        Raises:
            UndividableError: it helps nowhere.
        """
        fits = self._planner.fits
        batches = Epoch(order, ends, False).batches()
        if self._moves and self._planner.is_plain:
            # Nothing fits more than the shortest ones together.
            sharing = int(ends[-1]) % self._planner.multiple
            raise UndividableError(epoch, len(batches) - 1, batches[-1], sharing=sharing)
        for step, batch in enumerate(batches):
            if self._mini_batch and len(batch) % self._mini_batch:
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
                if not all(map(fits, dealt)):
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
        if self._mini_batch or self._group_of is not None or self._shares is not None:
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

    def _deal(self, batches: list[Positions]) -> list[Positions]:
        """The sequences of these batches in batches of the same sizes, of a mixture with as many of each source, alike
        in tokens. The longest come first, each to the least full batch, among equals to that of the fewest tokens. A
        group comes as one."""
        positions = numpy.concatenate(batches)
        tokens = self._planner.tokens(positions)
        units = numpy.arange(len(positions))
        if self._group_of is not None:
            units = numpy.unique(self._group_of[numpy.searchsorted(self._positions, positions)], return_inverse=True)[1]
        counts = numpy.bincount(units)
        sums = numpy.bincount(units, tokens).astype(numpy.int64)
        # Of mini-batches, each by itself.
        sizes = [len(batch) for batch in batches]
        if self._mini_batch:
            sizes = [self._mini_batch] * sum(size // self._mini_batch for size in sizes)
        source_of = numpy.zeros(len(positions), numpy.int64)
        if self._shares is not None:
            source_of = self._shares.source_of[numpy.searchsorted(self._positions, positions)]
        # Of each batch, the sequences of each source that it has.
        rooms = numpy.zeros((len(sizes), int(source_of.max()) + 1), numpy.int64)
        numpy.add.at(rooms, (numpy.repeat(numpy.arange(len(sizes)), sizes), source_of), 1)
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
        if not self._mini_batch:
            return pieces
        merged, used = [], 0
        for batch in batches:
            number = len(batch) // self._mini_batch
            merged.append(numpy.concatenate(pieces[used : used + number]))
            used += number
        return merged

