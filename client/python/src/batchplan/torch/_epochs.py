"""Which sequences are in each global batch of each epoch."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Sequence

import numpy

from batchplan.torch._batch_planner import BatchPlanner, Positions
from batchplan.torch._epoch import Epoch, UndividableError
from batchplan.torch._epoch_sizes import Ends, EpochSizes, evened
from batchplan.torch._exchange import Exchange
from batchplan.torch._mini_batches import MiniBatches
from batchplan.torch._mixture import SourceShares

# Orders of an epoch that are tried where groups stay together.
_ORDERS = 8


class Epochs:
    """The epochs of a dataset. The planner can divide each global batch: where batch sizes are alike, and the first
    epoch can be divided, every other one can.

    An epoch is shuffled and cut into batches. Where one of these can't be planned, the first that helps is done:

    1. Where batches may differ in size, it ends earlier, and the next one begins there. At the epoch's end the
       shortest sequences of the dataset come together; or, with drop_last, those that are too many are left out.
    2. It exchanges sequences with its neighbours: two batches, then four, up to all, become alike in tokens; or,
       where sizes need not be the same, their micro-batches are planned together and divided among them. In a
       mixture a batch keeps its count of each source.
    3. Groups that stay together are shuffled once more.
    4. The epoch has the batches of the first one of its sizes, in another order.

    Cost: 8 bytes a sequence, and as much for each of `sizes`. Where arithmetic tells that batches can be planned, an
    epoch begins in microseconds a batch; else each is planned with effort="fast".
    """

    def __init__(
        self,
        planner: BatchPlanner,
        positions: Positions,
        *,
        sizes: Sequence[EpochSizes],
        mini_batches: MiniBatches,
        group_of: Positions | None,
        shares: SourceShares | None,
        seed: int,
        shuffle: bool,
        drop_last: bool,
    ) -> None:
        """
        Args:
            positions: of the sequences in the dataset.
            sizes: of all epochs; each has a global batch at least.
            mini_batches: of each global batch.
            group_of: of each position, the number of its group, which no batch may tear; None: none has one.
            shares: the sources of a mixture, by position; None: there is none.

        Raises:
            UndividableError: the first epoch of one of `sizes` can't be divided.
        """
        self._planner = planner
        self._positions = positions
        self._sizes, self._mini_batches = sizes, mini_batches
        self._group_of, self._shares = group_of, shares
        self._seed, self._shuffle, self._drop_last = seed, shuffle, drop_last
        # Whether batches may differ in size.
        self._moves = planner.microbatches is None and not mini_batches and group_of is None and shares is None
        self._exchange = Exchange(
            planner, positions, mini_batches=mini_batches, group_of=group_of, shares=shares, moves=self._moves
        )
        # Sequences of each source in each batch, and the first epoch, by place in sizes.
        self._counts = [shares.counts(one.ends) for one in sizes] if shares is not None else []
        self._firsts: dict[int, Epoch] = {}
        for place, one in enumerate(sizes):
            try:
                self._firsts[place] = self.of(one.epoch)
            except UndividableError as error:
                error.batch_size = int(one.batch_sizes[error.step])
                raise

    def steps_of(self, epoch: int) -> int:
        """Global batches of an epoch."""
        return len(self.sizes_of(epoch).ends)

    def sizes_of(self, epoch: int) -> EpochSizes:
        """What the sizes of an epoch's global batches are, unless they can't be planned so."""
        return self._sizes[self._place_of(epoch)]

    def _place_of(self, epoch: int) -> int:
        return bisect.bisect([one.epoch for one in self._sizes], epoch) - 1

    def of(self, epoch: int) -> Epoch:
        """An epoch.

        Raises:
            UndividableError: the first epoch can't be divided.
        """
        place = self._place_of(epoch)
        sizes, first = self._sizes[place], self._firsts.get(place)
        if first is not None and (epoch == sizes.epoch or not self._shuffle):
            return first
        failed: UndividableError | None = None
        for attempt in range(1 if self._group_of is None or not self._shuffle else _ORDERS):
            # The first attempt is the order that the seed and the epoch have without it.
            random = numpy.random.default_rng([self._seed, epoch, *([attempt] if attempt else [])])
            order = self._order(random)
            try:
                ends = sizes.ends
                if self._shares is not None:
                    order = self._shares.drawn(self._positions, order, self._counts[place])
                elif self._group_of is not None:
                    ends = self._ends_of_groups(epoch, order, ends)
                found = self._moved(order, ends) if self._moves else None
                found = found or self._exchange.dealt(epoch, order, ends)
            except UndividableError as error:
                failed = failed or error
            else:
                is_arranged = found.is_arranged or attempt > 0
                return dataclasses.replace(found, is_arranged=is_arranged)
        if first is None:
            assert failed is not None
            raise failed
        # One that can be planned, as is known.
        batches = first.batches()
        random = numpy.random.default_rng([self._seed, epoch])
        exchanged = numpy.arange(len(batches))
        for size in numpy.unique(sizes.batch_sizes):
            alike = numpy.flatnonzero(sizes.batch_sizes == size)
            exchanged[alike] = alike[random.permutation(len(alike))]
        batches = [batches[place] for place in exchanged]
        return Epoch(numpy.concatenate(batches), numpy.cumsum([len(one) for one in batches]), True)

    def continued(self, epoch: int, batches: list[Positions]) -> list[Positions]:
        """What is left of an epoch that another planner divided: the same global batches, if these can be planned; or
        else arranged as a whole epoch is.

        Raises:
            UndividableError: it can't be divided.
        """
        if all(map(self._planner.fits, batches)):
            return batches
        if self._shares is not None and self._group_of is None:
            batches = self._shares.evened(self._positions, batches, self._planner.least)
        order = numpy.concatenate(batches)
        ends = numpy.cumsum([len(one) for one in batches])
        if self._shares is None and not self._mini_batches:
            ends = evened(ends, self._planner.least, self._group_of is not None)
            if self._group_of is not None:
                ends = self._ends_of_groups(epoch, order, ends)
        found = self._moved(order, ends) if self._moves else None
        return (found or self._exchange.dealt(epoch, order, ends)).batches()

    def _order(self, random: numpy.random.Generator) -> Positions:
        """Positions in a random order, in which groups stay together."""
        if self._group_of is None:
            return random.permutation(self._positions) if self._shuffle else self._positions
        if self._shuffle:
            places = random.permutation(self._group_of.max() + 1)[self._group_of]
        elif self._shares is None:
            return self._positions
        else:
            # By the first of each group.
            places = numpy.unique(self._group_of, return_index=True)[1][self._group_of]
        return self._positions[places.argsort(kind="stable")]

    def _ends_of_groups(self, epoch: int, order: Positions, nominal: Ends) -> Ends:
        """The ends of groups that are the nearest to where batches would end.

        Raises:
            UndividableError: two batches would end with the same group, or mini-batches must be whole.
        """
        group_of = self._groups_of(order)
        places = numpy.arange(len(order))
        last = numpy.zeros(group_of.max() + 1, numpy.int64)
        last[group_of] = places
        # Where no group has begun that has not ended.
        borders = numpy.flatnonzero(numpy.maximum.accumulate(last[group_of]) == places) + 1
        mini_batches = self._mini_batches
        if mini_batches.of_groups:
            borders = self._borders_of_mini_batches(order, borders)
        upper = numpy.minimum(numpy.searchsorted(borders, nominal), len(borders) - 1)
        later = borders[upper]
        earlier = numpy.where(upper > 0, borders[upper - 1], 0)
        is_later = later - nominal <= nominal - earlier
        if mini_batches.of_groups:
            # Each has one at least.
            steps = numpy.arange(len(nominal))
            which = numpy.maximum.accumulate(upper - ~is_later - steps) + steps
            which = numpy.minimum(which, len(borders) - len(nominal) + steps)
            ends = numpy.where(which < 0, 0, borders[which])
        else:
            ends = numpy.where(is_later, later, earlier)
        torn = ends != nominal if mini_batches.sequences else numpy.diff(ends, prepend=0) <= 0
        if torn.any():
            step = int(torn.argmax())
            batch = Epoch(order, nominal, False).batch(step)
            raise UndividableError(epoch, step, batch, is_torn=True)
        return ends

    def _borders_of_mini_batches(self, order: Positions, borders: Positions) -> Positions:
        """Those behind as many groups as whole mini-batches have. What is left behind the last one is a smaller
        mini-batch, or no part of the epoch."""
        firsts = numpy.unique(self._groups_of(order), return_index=True)[1]
        # Of each border, the groups before it.
        ended = numpy.searchsorted(numpy.sort(firsts), borders)
        whole = borders[ended % self._mini_batches.size == 0]
        return whole if self._mini_batches.is_exact else numpy.union1d(whole, borders[-1:])

    def _groups_of(self, positions: Positions) -> Positions:
        """The group of each, by number."""
        assert self._group_of is not None
        return self._group_of[numpy.searchsorted(self._positions, positions)]

    def _moved(self, order: Positions, nominal: Ends) -> Epoch | None:
        """Batches that end where they can be planned; None: they can't, at least so."""
        least, multiple, fits = self._planner.least, self._planner.multiple, self._planner.fits
        ends = nominal.copy()
        begin = 0
        for step in range(len(ends) - 1):
            if not fits(order[begin : ends[step]], quickly=True):
                fewer = (ends[step] - begin) // multiple * multiple
                if fewer < least or not fits(order[begin : begin + fewer]):
                    return self._moved_to_multiples(order, nominal)
                ends[step] = begin + fewer
            begin = ends[step]
        if fits(order[begin : ends[-1]]):
            return Epoch(order, ends, bool((ends != nominal).any()))
        if self._drop_last:
            ends[-1] -= (ends[-1] - begin) % multiple
            return Epoch(order, ends, True) if fits(order[begin : ends[-1]]) else None
        return self._moved_last(order, ends, nominal) or self._moved_to_multiples(order, nominal)

    def _moved_last(self, order: Positions, ends: Ends, nominal: Ends) -> Epoch | None:
        """With another border between the last two batches: one of them has a multiple of the ranks in sequences."""
        if len(ends) < 2:
            return None
        least, multiple, fits = self._planner.least, self._planner.multiple, self._planner.fits
        begin, end = int(ends[-3]) if len(ends) > 2 else 0, int(ends[-1])
        places = {*range(begin + multiple, end, multiple), *range(end - multiple, begin, -multiple)}
        nearest = sorted(places, key=lambda place: (abs(place - int(nominal[-2])), place))
        for place in nearest:
            if min(place - begin, end - place) < least:
                continue
            if fits(order[begin:place]) and fits(order[place:end]):
                return Epoch(order, numpy.append(ends[:-2], [place, end]), True)
        return None

    def _moved_to_multiples(self, order: Positions, nominal: Ends) -> Epoch | None:
        """All batches but the last have a multiple of the ranks in sequences. In the last one those that have to
        share micro-batches are the shortest of the dataset."""
        least, multiple, fits = self._planner.least, self._planner.multiple, self._planner.fits
        steps, count = len(nominal), int(nominal[-1])
        # As many as those that follow need.
        latest = (count - least * numpy.arange(steps - 1, 0, -1)) // multiple * multiple
        ends = numpy.minimum(nominal[:-1] // multiple * multiple, latest)
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
        ascending = numpy.sort(order)
        shortest = ascending[self._planner.sizes(ascending).argsort(kind="stable")[:count]]
        is_short = numpy.isin(order, shortest)
        before = numpy.flatnonzero(is_short[:begin])
        behind = begin + numpy.flatnonzero(~is_short[begin:])
        lengths = self._planner.sizes(order[behind])
        behind = behind[(-lengths).argsort(kind="stable")[: len(before)]]
        before = before[: len(behind)]
        exchanged = order.copy()
        exchanged[before], exchanged[behind] = order[behind], order[before]
        return exchanged
