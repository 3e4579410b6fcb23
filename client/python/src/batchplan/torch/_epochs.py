"""Which sequences are in each global batch of each epoch."""

from __future__ import annotations

import dataclasses
import heapq

import numpy
from numpy.typing import NDArray

from batchplan.torch._batch_planner import BatchPlanner, Positions

Ends = NDArray[numpy.int64]
# Orders of an epoch that are tried where groups stay together.
_ORDERS = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Epoch:
    """One epoch of a dataset in global batches.

    Attributes:
        order: positions in the dataset, one global batch after the other.
        ends: where each global batch ends in the order. Shape [steps].
        is_arranged: whether that rests on what the planner can divide, rather than on the shuffle alone.
    """

    order: Positions
    ends: Ends
    is_arranged: bool

    def batch(self, step: int) -> Positions:
        """The positions of a global batch."""
        begin = self.ends[step - 1] if step else 0
        return self.order[begin : self.ends[step]]

    def batches(self) -> list[Positions]:
        """Those of all of them."""
        return numpy.split(self.order[: self.ends[-1]], self.ends[:-1])


class UndividableError(Exception):
    """An epoch has a global batch that can't be planned, and what helps elsewhere does not help here.

    Attributes:
        batch: its positions in the dataset.
        is_torn: whether it would end within a group that stays together.
        sharing: sequences of the dataset that have to share micro-batches with others, so that the rest is a
            multiple; 0: the batch's own fault.
    """

    def __init__(
        self, epoch: int, step: int, batch: Positions, *, is_torn: bool = False, sharing: int = 0
    ) -> None:
        super().__init__(epoch, step)
        self.epoch, self.step, self.batch = epoch, step, batch
        self.is_torn, self.sharing = is_torn, sharing


class Epochs:
    """The epochs of a dataset. All have as many global batches, and the planner can divide each of these: if the
    first epoch can be divided, every other one can.

    An epoch is shuffled and cut into batches. Where one of these can't be planned, the first that helps is done:

    1. Where batches may differ in size, it ends earlier, and the next one begins there. At the epoch's end the
       shortest sequences of the dataset come together; or, with drop_last, those that are too many are left out.
    2. It exchanges sequences with its neighbours: two batches, then four, up to all, become alike in tokens; or,
       where sizes need not be the same, their micro-batches are planned together and divided among them.
    3. Groups that stay together are shuffled once more.
    4. The epoch has the batches of the first one, in another order.

    Cost: 8 bytes a sequence. Where arithmetic tells that batches can be planned, an epoch begins in microseconds a
    batch; else each is planned with effort="fast".
    """

    def __init__(
        self,
        planner: BatchPlanner,
        positions: Positions,
        *,
        batch_size: int,
        mini_batch: int,
        group_of: Positions | None,
        seed: int,
        shuffle: bool,
        drop_last: bool,
    ) -> None:
        """
        Args:
            positions: of the sequences in the dataset.
            mini_batch: sequences of a mini-batch; 0: a global batch is one.
            group_of: of each position, the number of its group, which no batch may tear; None: none has one.

        Raises:
            UndividableError: the first epoch can't be divided.
        """
        self._planner = planner
        self._positions = positions
        self._batch_size, self._mini_batch = batch_size, mini_batch
        self._group_of = group_of
        self._seed, self._shuffle, self._drop_last = seed, shuffle, drop_last
        # Whether batches may differ in size.
        self._moves = planner.microbatches is None and not mini_batch and group_of is None
        self._shortest: Positions | None = None
        self._nominal = self._nominal_ends()
        self._first: Epoch | None = None
        if len(self._nominal):
            self._first = self.of(0)

    @property
    def steps(self) -> int:
        """Global batches of an epoch."""
        return len(self._nominal)

    def of(self, epoch: int) -> Epoch:
        """An epoch.

        Raises:
            UndividableError: the first epoch can't be divided.
        """
        if self._first is not None and (epoch == 0 or not self._shuffle):
            return self._first
        failed: UndividableError | None = None
        for attempt in range(1 if self._group_of is None or not self._shuffle else _ORDERS):
            # The first attempt is the order that the seed and the epoch have without it.
            random = numpy.random.default_rng([self._seed, epoch, *([attempt] if attempt else [])])
            order = self._order(random)
            try:
                ends = self._nominal if self._group_of is None else self._ends_of_groups(epoch, order)
                found = self._moved(order) if self._moves else None
                found = found or self._dealt(epoch, order, ends)
            except UndividableError as error:
                failed = failed or error
            else:
                is_arranged = found.is_arranged or attempt > 0
                return dataclasses.replace(found, is_arranged=is_arranged)
        if self._first is None:
            assert failed is not None
            raise failed
        # One that can be planned, as is known.
        batches = self._first.batches()
        random = numpy.random.default_rng([self._seed, epoch])
        batches = [batches[place] for place in random.permutation(len(batches))]
        return Epoch(numpy.concatenate(batches), numpy.cumsum([len(one) for one in batches]), True)

    def _nominal_ends(self) -> Ends:
        """Where batches end unless their sequences can't be planned so. If the last one has too few, it and the
        one before it become alike in size, or else all of them."""
        count, size, least = len(self._positions), self._batch_size, self._planner.least
        full, rest = divmod(count, size)
        ends = numpy.arange(1, full + 1, dtype=numpy.int64) * size
        if self._drop_last or not rest:
            return ends
        if rest >= least or not full or self._mini_batch:
            return numpy.append(ends, count)
        if size + rest >= 2 * least:
            ends[-1] = count - (size + rest) // 2
            return numpy.append(ends, count)
        # Groups leave no batch just enough.
        is_enough = self._group_of is None and count >= (full + 1) * least
        steps = full + 1 if is_enough else full
        return numpy.arange(1, steps + 1, dtype=numpy.int64) * count // steps

    def _order(self, random: numpy.random.Generator) -> Positions:
        """Positions in a random order, in which groups stay together."""
        if not self._shuffle:
            return self._positions
        if self._group_of is None:
            return random.permutation(self._positions)
        places = random.permutation(self._group_of.max() + 1)[self._group_of]
        return self._positions[places.argsort(kind="stable")]

    def _ends_of_groups(self, epoch: int, order: Positions) -> Ends:
        """The ends of groups that are the nearest to where batches end.

        Raises:
            UndividableError: two batches would end with the same group, or mini-batches must be whole.
        """
        group_of = self._groups_of(order)
        places = numpy.arange(len(order))
        last = numpy.zeros(group_of.max() + 1, numpy.int64)
        last[group_of] = places
        # Where no group has begun that has not ended.
        borders = numpy.flatnonzero(numpy.maximum.accumulate(last[group_of]) == places) + 1
        upper = numpy.searchsorted(borders, self._nominal)
        later = borders[upper]
        earlier = numpy.where(upper > 0, borders[upper - 1], 0)
        ends = numpy.where(later - self._nominal <= self._nominal - earlier, later, earlier)
        torn = ends != self._nominal if self._mini_batch else numpy.diff(ends, prepend=0) <= 0
        if torn.any():
            step = int(torn.argmax())
            batch = Epoch(order, self._nominal, False).batch(step)
            raise UndividableError(epoch, step, batch, is_torn=True)
        return ends

    def _groups_of(self, positions: Positions) -> Positions:
        """The group of each, by number."""
        assert self._group_of is not None
        return self._group_of[numpy.searchsorted(self._positions, positions)]

    def _moved(self, order: Positions) -> Epoch | None:
        """Batches that end where they can be planned; None: they can't, at least so."""
        least, multiple, fits = self._planner.least, self._planner.multiple, self._planner.fits
        ends = self._nominal.copy()
        begin = 0
        for step in range(len(ends) - 1):
            if not fits(order[begin : ends[step]], quickly=True):
                fewer = (ends[step] - begin) // multiple * multiple
                if fewer < least or not fits(order[begin : begin + fewer]):
                    return self._moved_to_multiples(order)
                ends[step] = begin + fewer
            begin = ends[step]
        if fits(order[begin : ends[-1]]):
            return Epoch(order, ends, bool((ends != self._nominal).any()))
        if self._drop_last:
            ends[-1] -= (ends[-1] - begin) % multiple
            return Epoch(order, ends, True) if fits(order[begin : ends[-1]]) else None
        return self._moved_last(order, ends) or self._moved_to_multiples(order)

    def _moved_last(self, order: Positions, ends: Ends) -> Epoch | None:
        """With another border between the last two batches: one of them has a multiple of the ranks in sequences."""
        if len(ends) < 2:
            return None
        least, multiple, fits = self._planner.least, self._planner.multiple, self._planner.fits
        begin, end = int(ends[-3]) if len(ends) > 2 else 0, int(ends[-1])
        places = {*range(begin + multiple, end, multiple), *range(end - multiple, begin, -multiple)}
        nearest = sorted(places, key=lambda place: (abs(place - int(self._nominal[-2])), place))
        for place in nearest:
            if min(place - begin, end - place) < least:
                continue
            if fits(order[begin:place]) and fits(order[place:end]):
                return Epoch(order, numpy.append(ends[:-2], [place, end]), True)
        return None

    def _moved_to_multiples(self, order: Positions) -> Epoch | None:
        """All batches but the last have a multiple of the ranks in sequences. In the last one those that have to
        share micro-batches are the shortest of the dataset."""
        least, multiple, fits = self._planner.least, self._planner.multiple, self._planner.fits
        steps, count = len(self._nominal), int(self._nominal[-1])
        # As many as those that follow need.
        latest = (count - least * numpy.arange(steps - 1, 0, -1)) // multiple * multiple
        ends = numpy.minimum(self._nominal[:-1] // multiple * multiple, latest)
        ends = numpy.append(ends, count)
        if (numpy.diff(ends, prepend=0) < least).any():
            return None
        rest = count % multiple
        if rest and self._drop_last:
            ends[-1] -= rest
        elif rest:
            order = self._with_shortest_last(order, int(ends[-2]) if steps > 1 else 0, 2 * rest)
        found = Epoch(order, ends, True)
        return found if all(map(fits, found.batches())) else None

    def _with_shortest_last(self, order: Positions, begin: int, count: int) -> Positions:
        """With so many of the shortest sequences behind `begin`, in exchange for the longest there."""
        if self._shortest is None:
            lengths = self._planner.tokens(self._positions)
            self._shortest = self._positions[lengths.argsort(kind="stable")[:count]]
        is_short = numpy.isin(order, self._shortest)
        before = numpy.flatnonzero(is_short[:begin])
        behind = begin + numpy.flatnonzero(~is_short[begin:])
        lengths = self._planner.tokens(order[behind])
        behind = behind[(-lengths).argsort(kind="stable")[: len(before)]]
        before = before[: len(behind)]
        exchanged = order.copy()
        exchanged[before], exchanged[behind] = order[behind], order[before]
        return exchanged

    def _dealt(self, epoch: int, order: Positions, ends: Ends) -> Epoch:
        """Batches of the same sizes, of which those that can't be planned exchange sequences with others.

        Raises:
            UndividableError: it helps nowhere.
        """
        fits = self._planner.fits
        batches = Epoch(order, ends, False).batches()
        if self._moves and self._planner.is_plain:
            # Nothing fits more than the shortest ones together.
            sharing = int(self._nominal[-1]) % self._planner.multiple
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
        if self._mini_batch or self._group_of is not None:
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
        """The sequences of these batches in batches of the same sizes, alike in tokens. The longest come first,
        each to the least full batch, among equals to that of the fewest tokens. A group comes as one."""
        positions = numpy.concatenate(batches)
        tokens = self._planner.tokens(positions)
        units = numpy.arange(len(positions))
        if self._group_of is not None:
            units = numpy.unique(self._groups_of(positions), return_inverse=True)[1]
        counts = numpy.bincount(units)
        sums = numpy.bincount(units, tokens).astype(numpy.int64)
        # Of mini-batches, each by itself.
        sizes = [len(batch) for batch in batches]
        if self._mini_batch:
            sizes = [self._mini_batch] * sum(size // self._mini_batch for size in sizes)
        # How full, in parts of a whole; tokens; which one.
        heap = [(0, 0, place) for place in range(len(sizes))]
        filled = [0] * len(sizes)
        part_of = numpy.empty(len(counts), numpy.int64)
        for unit in numpy.lexsort((-sums, -counts)).tolist():
            _, held, place = heapq.heappop(heap)
            part_of[unit] = place
            filled[place] += int(counts[unit])
            heapq.heappush(heap, ((filled[place] << 32) // sizes[place], held + int(sums[unit]), place))
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

