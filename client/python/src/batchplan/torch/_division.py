"""Which sequences are in each global batch of each epoch, as one planner divides them."""

from __future__ import annotations

import dataclasses

import numpy

from batchplan._errors import InvalidRequest
from batchplan._micro_batch import MicroBatch
from batchplan._options import DEFAULT_COST, CostModel, load_costs
from batchplan._pass_plan import PassPlan
from batchplan._sequence_loads import SequenceLoads
from batchplan.torch._batch_planner import BatchPlanner, Positions
from batchplan.torch._capacity import Capacity
from batchplan.torch._epochs import Epochs
from batchplan.torch._mixture import SourceShares


class Division:
    """Epochs, windows of which exchange sequences, and the order in which global batches come. Keeps the latest epoch
    and window.

    Attributes:
        planner: what plans its windows.
        positions: of the sequences in the dataset, ascending.
        epochs: by that planner.
        shares: the sources of a mixture; None: there is none.
    """

    def __init__(
        self,
        planner: BatchPlanner,
        positions: Positions,
        epochs: Epochs,
        *,
        shares: SourceShares | None,
        window: int,
        largest_first: bool,
    ) -> None:
        """
        Args:
            window: global batches that exchange sequences; 1: none do.
            largest_first: the first epoch begins with the global batch of the largest micro-batch.
        """
        self.planner, self.positions, self.shares = planner, positions, shares
        self.epochs, self._window, self._largest_first = epochs, window, largest_first
        self._number, self._epoch = 0, epochs.of(0)
        # The latest window: its epoch, its first step, and its global batches.
        self._latest: tuple[int, int, list[Positions]] = (0, -1, [])
        # Of the first epoch, what comes first by the order without that; None: not known yet.
        self._largest: int | None = None if largest_first else 0

    def steps_of(self, epoch: int) -> int:
        """Global batches of an epoch."""
        return self.epochs.steps_of(epoch)

    def is_arranged(self, epoch: int) -> bool:
        """Whether which sequences its global batches have, or which comes first, rests on the planner."""
        self._go_to(epoch)
        return self._epoch.is_arranged or (self._largest_first and epoch == 0)

    def is_alike(self, other: Division, epoch: int) -> bool:
        """Whether another one surely has the same global batches in an epoch."""
        if self._window > 1 or (self._largest_first and epoch == 0):
            return False
        for one in (self, other):
            one._go_to(epoch)
        own, others = self._epoch, other._epoch
        return numpy.array_equal(own.ends, others.ends) and numpy.array_equal(own.order, others.order)

    def begins_window(self, step: int) -> bool:
        """Whether which sequences its global batch has does not rest on how others were planned."""
        return self._window == 1 or step % self._window == 0

    def batch(self, epoch: int, step: int) -> Positions:
        """The positions of a global batch, in the order in which they come to it."""
        self._go_to(epoch)
        if epoch or not self._largest_first:
            return self._at(step)
        if self._largest is None:
            self._largest = self._find_largest()
        return self._at(self._largest if step == 0 else step - 1 if step <= self._largest else step)

    def _go_to(self, epoch: int) -> None:
        if epoch != self._number:
            self._number, self._epoch = epoch, self.epochs.of(epoch)

    def _find_largest(self) -> int:
        """The global batch of the first epoch that has the largest micro-batch, the first one among equals."""
        most, found = (-1.0, -1.0), 0
        for step in range(self.steps_of(0)):
            batch = self._at(step)
            plan, loads = self.planner.plan(batch).passes[0], self.planner.loads(batch)
            size = _largest_of(plan, self.planner.options.get("cost"), loads)
            if size > most:
                most, found = size, step
        return found

    def _at(self, step: int) -> Positions:
        """A global batch of the epoch, in the order that these have without largest_first."""
        if self._window == 1:
            return self._epoch.batch(step)
        first = step - step % self._window
        if self._latest[:2] != (self._number, first):
            self._latest = (self._number, first, self._window_from(first))
        return self._latest[2][step - first]

    def _window_from(self, first: int) -> list[Positions]:
        """The global batches of a window, whose long sequences come together where that is faster."""
        sizes = self.epochs.sizes_of(self._number).batch_sizes
        steps = range(first, min(first + self._window, len(sizes)))
        batches = [self._epoch.batch(step) for step in steps]
        size = int(sizes[first])
        full = sum(len(batch) == size for batch in batches)
        # Others are at the epoch's end, or of a batch size that follows, unless batches were moved.
        if full < 2 or any(len(batch) != size for batch in batches[:full]):
            return batches
        sequences = numpy.concatenate(batches[:full])
        options = self.planner.options_of(sequences).copy()
        options.pop("order", None)
        options["passes"] = [dataclasses.replace(self.planner.passes[0], ignore_mini_batches=False)]
        options["effort"] = "fast"
        options["mini_batch_size"] = size
        options["max_delay"] = full - 1
        try:
            plan = self.planner.made(sequences, options).passes[0]
        except InvalidRequest:
            # Of other numbers of micro-batches only.
            return batches
        if not self.planner.is_exact(plan):
            return batches
        ends = plan.microbatch_offsets[numpy.cumsum(plan.microbatches_per_rank) * plan.data_parallel]
        members = numpy.split(plan.sequence_index, ends[:-1])
        exchanged = [sequences[numpy.sort(own)] for own in members]
        if not all(map(self.planner.fits, exchanged)):
            return batches
        return exchanged + batches[full:]


class ContinuedDivision:
    """One epoch that goes on, from a global batch on, as another planner divided what was left of it."""

    def __init__(self, begun: Division | ContinuedDivision, epoch: int, first: int, division: Division) -> None:
        """
        Args:
            begun: what divided it up to global batch `first`.
            division: of the planner that divides the others.

        Raises:
            UndividableError: it can't.
        """
        self._begun, self._epoch, self._first = begun, epoch, first
        left = [begun.batch(epoch, step) for step in range(first, begun.steps_of(epoch))]
        self._batches = division.epochs.continued(epoch, left) if left else left
        # Whether other global batches are left now.
        self.is_other = len(left) != len(self._batches) or not all(map(numpy.array_equal, left, self._batches))

    def steps_of(self, epoch: int) -> int:
        return self._first + len(self._batches)

    def is_arranged(self, epoch: int) -> bool:
        return True

    def batch(self, epoch: int, step: int) -> Positions:
        return self._batches[step - self._first] if step >= self._first else self._begun.batch(epoch, step)


@dataclasses.dataclass(frozen=True, eq=False)
class Former:
    """How an epoch is divided, amid which a saved state of another capacity went on.

    Attributes:
        epoch: its number.
        first: the global batch at which it went on.
        capacities: what divided it, each from a global batch on.
    """

    epoch: int
    first: int
    division: Division | ContinuedDivision
    capacities: list[tuple[int, Capacity]]


def _largest_of(
    plan: PassPlan, cost: CostModel | str | None, loads: SequenceLoads
) -> tuple[float, float]:
    """The tokens of the largest micro-batch, padding included; and the most that one of so many costs. Where loads
    cost, the costliest is the largest, and tokens are not told."""
    model = cost if isinstance(cost, CostModel) else DEFAULT_COST
    found = (0.0, 0.0)
    for rank in range(plan.data_parallel):
        for one in plan.rank(rank):
            tokens = 0 if model.loads else one.width * (len(one) if one.padded else 1)
            found = max(found, (float(tokens), _cost_of(one, model, loads)))
    return found


def _cost_of(one: MicroBatch, model: CostModel, loads: SequenceLoads) -> float:
    """What it costs its rank, with what that computes of the items of others."""
    total = float(model.of_sequences(one.lengths).sum())
    if one.shared_tokens is not None:
        shared = model.of_sequences(one.shared_tokens) - model.per_sequence
        total -= float(shared.sum())
    sums = loads.sums()
    for load in load_costs(model):
        values = sums[load.load][one.indices]
        if load.dealt:
            values = loads.items[load.load].values[one.dealt[load.load].received]
        total += load.per_unit * float(values.sum())
    return total
