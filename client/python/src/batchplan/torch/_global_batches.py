"""A dataset in planned global batches, epoch by epoch."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import ArrayLike, NDArray

from batchplan._checks import flag, members, whole
from batchplan._errors import InvalidRequest
from batchplan._local import plan as make_plan
from batchplan._options import CostModel, Pass, PlanOptions
from batchplan._plan import PassPlan, Plan
from batchplan._request import Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

Positions = NDArray[Any]
# What a request without costs is planned with.
_DEFAULT_COST = CostModel(1.0, 1 / 24576)
_PLACE = re.compile(r"(\b(?:lengths|group_ids)\[|\bsequence )(\d+)")


# By which micro-batches are made as few as can be, the quickest first.
_EFFORTS = ("fast", "default", "thorough")


class GlobalBatches:
    """Which sequences are in each global batch of each epoch, and their plans: functions of what this was
    made from, the same on every rank. The rank's own micro-batches of the latest epoch are kept, some 8
    bytes a sequence of the rank.

    Attributes:
        ranks: data-parallel.
        steps: global batches of an epoch.
        microbatches_per_step: of each rank and global batch, or mini-batch; None: as few as it takes.
        identity: what a place in an epoch depends on, by name; JSON.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        batch_size: int,
        *,
        rank: int,
        drop_last: bool,
        microbatches_per_step: int | None,
        window: int,
        **options: Unpack[PlanOptions],
    ) -> None:
        """See BatchSampler, whose arguments and errors these are."""
        self._options = options.copy()
        shuffle = self._options.pop("shuffle", None)
        if options.get("passes") is not None:
            self._options["passes"] = members("passes", options["passes"], Pass)
        whole_dataset = Request(lengths, **self._options)
        self._lengths, self._group_ids = whole_dataset.lengths, whole_dataset.group_ids
        self._options.pop("group_ids", None)
        self._batch_size = whole("batch_size", batch_size)
        self._rank = whole("rank", rank)
        self._shuffle = shuffle is None or flag("shuffle", shuffle)
        self._seed = whole("seed", options.get("seed") or 0)
        self._drop_last = flag("drop_last", drop_last)
        self._window = whole("window", window)
        # Of the first pass; 0: a global batch is one.
        passes = self._options.get("passes")
        self._mini_batch = whole("mini_batches.size", options.get("mini_batch_size") or 0)
        if passes and passes[0].ignore_mini_batches:
            self._mini_batch = 0
        self.ranks = whole_dataset.ranks
        self.microbatches_per_step: int | None = None
        if self._batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; must be at least 1")
        if self._window < 1:
            raise ValueError(f"window is {window}; must be at least 1")
        if self._window > 1 and self._mini_batch:
            raise ValueError(
                f"window is {window}, of global batches that are one mini-batch each; mini_batch_size is "
                f"{self._mini_batch}: leave one of them out"
            )
        if not 0 <= self._rank < self.ranks:
            raise ValueError(f"rank is {rank}; must be 0 to {self.ranks - 1}")
        if self._seed < 0:
            raise ValueError(f"seed is {self._seed}; must be at least 0")
        if options.get("ranks") is not None:
            raise ValueError("ranks is set; a sampler decides which rank has a sequence: leave it out")
        for name in ("selection", "ages"):
            if options.get(name) is not None:
                raise ValueError(
                    f"{name} is set; a sampler gives out every sequence once an epoch: leave it out"
                )
        if options.get("dynamic_cp"):
            raise ValueError(
                "dynamic_cp is set; a sampler gives out sequences, and not which ranks share them: leave it out"
            )
        if options.get("overlong") == "truncate":
            raise ValueError('overlong is "truncate"; a sampler yields whole sequences: cut them before')
        if len(self._group_ids) not in (0, len(self._lengths)):
            raise ValueError(
                f"group_ids has {len(self._group_ids)} entries; lengths has {len(self._lengths)}"
            )
        if microbatches_per_step is not None:
            self._fix_microbatches(whole("microbatches_per_step", microbatches_per_step))
        self._positions = self._kept()
        # Of each position that is kept, its group by number; None: groups may be torn.
        self._group_of: Positions | None = None
        if len(self._group_ids) and options.get("groups") not in (None, "ignore"):
            self._group_of = numpy.unique(self._group_ids[self._positions], return_inverse=True)[1]
        self._ends = self._ends_of_batches()
        if not self.steps:
            raise ValueError(
                f"lengths has {len(self._positions)} entries to plan, which make no global batch; "
                f"batch_size is {batch_size}"
            )
        self.identity: dict[str, Any] = {
            "sequences": len(self._lengths),
            "batch_size": self._batch_size,
            "shuffle": self._shuffle,
            "seed": self._seed,
            "drop_last": self._drop_last,
            "dp": self.ranks,
            "planned_as": _digest(whole_dataset),
            "microbatches_per_step": self.microbatches_per_step,
            "window": self._window if self._window > 1 else None,
        }
        # Of one epoch, by step.
        self._epoch = 0
        self._order = self._order_of(0)
        self._own: dict[int, list[Positions]] = {}
        # The latest window: its epoch, its first step, and its global batches.
        self._latest: tuple[int, int, list[Positions]] = (0, -1, [])
        self.microbatches(0, 0)
        # It may have fewer sequences.
        self.microbatches(0, self.steps - 1)

    def _fix_microbatches(self, number: int) -> None:
        if number < 1:
            raise ValueError(f"microbatches_per_step is {number}; must be at least 1")
        needed = number * self.ranks
        fewest = self._mini_batch or self._batch_size
        if fewest < needed and not self._options.get("allow_empty_microbatches"):
            raise ValueError(
                f"microbatches_per_step is {number}; on {self.ranks} ranks these need {needed} sequences, "
                f"one each, and a batch has {fewest}"
            )
        passes = self._options.get("passes")
        first = passes[0] if passes else Pass(self._options["max_tokens"])
        for name in ("min_microbatches", "microbatch_count_multiple"):
            given = getattr(first, name)
            if given not in (None, number):
                raise ValueError(f"microbatches_per_step is {number}; passes[0].{name} is {given}")
        first = dataclasses.replace(first, min_microbatches=number, microbatch_count_multiple=number)
        self._options.pop("max_tokens", None)
        self._options["passes"] = [first, *(passes or ())[1:]]
        self.microbatches_per_step = number

    def _kept(self) -> Positions:
        """Positions of the sequences that are not dropped for their length."""
        if self._options.get("overlong") != "drop" or not len(self._lengths):
            return numpy.arange(len(self._lengths))
        # By their lengths, and those of their group.
        deciding = ("preset", "max_tokens", "passes", "cp", "tp", "sequence_parallel", "groups")
        options: Any = {name: value for name, value in self._options.items() if name in deciding}
        if options.get("passes"):
            # Numbers of micro-batches are those of a global batch.
            one = {"min_microbatches": None, "microbatch_count_multiple": None}
            options["passes"] = [dataclasses.replace(each, **one) for each in options["passes"]]
        if len(self._group_ids):
            options["group_ids"] = self._group_ids
        plan = make_plan(self._lengths, **options, overlong="drop", effort="fast")
        return numpy.delete(numpy.arange(len(self._lengths)), [one.index for one in plan.excluded])

    def _ends_of_batches(self) -> list[int]:
        """Where each global batch ends in an epoch's order. One at the end that is too small for its
        micro-batches is evened out with the one before it."""
        full, rest = divmod(len(self._positions), self._batch_size)
        ends = [(step + 1) * self._batch_size for step in range(full)]
        if not rest or self._drop_last:
            return ends
        needed = self.ranks * (self.microbatches_per_step or 0)
        if rest < needed and not self._options.get("allow_empty_microbatches"):
            last_two = self._batch_size + rest
            if self._options.get("mini_batch_size") or not full or last_two // 2 < needed:
                raise ValueError(
                    f"the last global batch has {rest} sequences, too few for {needed} micro-batches: "
                    "drop_last=True leaves them out"
                )
            ends[-1] -= self._batch_size - (last_two + 1) // 2
        return [*ends, len(self._positions)]

    def _order_of(self, epoch: int) -> Positions:
        """Of an epoch. Groups that stay together are shuffled as one.

        Raises:
            ValueError: one of these is torn by the end of a global batch.
        """
        random = numpy.random.default_rng([self._seed, epoch])
        if self._group_of is None:
            return random.permutation(self._positions) if self._shuffle else self._positions
        places = numpy.arange(len(self._positions))
        if self._shuffle:
            places = random.permutation(self._group_of.max() + 1)[self._group_of].argsort(kind="stable")
        order, group_of = self._positions[places], self._group_of[places]
        step_of = numpy.searchsorted(self._ends, numpy.arange(len(order)), "right")
        last_step_of = numpy.zeros_like(step_of)
        last_step_of[group_of] = step_of
        torn = last_step_of[group_of] != step_of
        if torn.any():
            place = int(torn.argmax())
            raise ValueError(
                f"batch_size is {self._batch_size}; global batch {step_of[place]} of epoch {epoch} would end "
                f"within group {self._group_ids[order[place]]}, and groups is "
                f'"{self._options["groups"]}": it must hold whole groups'
            )
        return order

    def _batch(self, epoch: int, order: Positions, step: int) -> Positions:
        first = step - step % self._window
        if self._latest[:2] != (epoch, first):
            self._latest = (epoch, first, self._window_from(order, first))
        return self._latest[2][step - first]

    def _window_from(self, order: Positions, first: int) -> list[Positions]:
        """The global batches of a window, whose long sequences come together where that is faster."""
        begin = self._ends[first - 1] if first else 0
        ends = numpy.asarray(self._ends[first : first + self._window])
        batches = numpy.split(order[begin : ends[-1]], ends[:-1] - begin)
        full = sum(len(batch) == self._batch_size for batch in batches)
        # Smaller ones are at the epoch's end.
        if full < 2:
            return batches
        sequences = order[begin : begin + full * self._batch_size]
        passes = self._options.get("passes") or [Pass(self._options["max_tokens"])]
        options = self._options_of(sequences).copy()
        options.pop("max_tokens", None)
        options.pop("order", None)
        options["passes"] = [dataclasses.replace(passes[0], ignore_mini_batches=False)]
        options["effort"] = "fast"
        options["mini_batch_size"] = self._batch_size
        options["max_delay"] = full - 1
        try:
            plan = self._made(sequences, options).passes[0]
        except InvalidRequest:
            if self.microbatches_per_step is None:
                raise
            # Of other numbers of micro-batches only, which its global batches are asked for one by one.
            return batches
        if not self._is_exact(plan):
            return batches
        ends = plan.microbatch_offsets[numpy.cumsum(plan.microbatches_per_rank) * self.ranks]
        members = numpy.split(plan.sequence_index, ends[:-1])
        return [sequences[numpy.sort(own)] for own in members] + batches[full:]

    def begins_window(self, step: int) -> bool:
        """Whether which sequences its global batch has does not rest on how others were planned."""
        return self._window == 1 or step % self._window == 0

    @property
    def steps(self) -> int:
        return len(self._ends)

    def check(self, epochs: int) -> None:
        """Whether microbatches_per_step are enough in the first epochs.

        Raises:
            ValueError: epochs is below 1, or a global batch needs more.
            InvalidRequest: one can't be planned.
        """
        if whole("epochs", epochs) < 1:
            raise ValueError(f"epochs is {epochs}; must be at least 1")
        if self.microbatches_per_step is None:
            return
        for epoch in range(epochs):
            order = self._order_of(epoch)
            for step in range(self.steps):
                self._fewest(epoch, step, self._batch(epoch, order, step))

    def plan(self, epoch: int, step: int) -> tuple[Plan, Positions]:
        """A global batch's plan, and its sequences' positions in the dataset.

        Raises:
            IndexError: there is no such global batch.
            ValueError: it needs more than microbatches_per_step, or one of the epoch would tear a group.
            InvalidRequest: it can't be planned.
            FailedPrecondition: cost="fitted".
        """
        if not 0 <= step < self.steps:
            raise IndexError(f"step is {step}; must be 0 to {self.steps - 1}")
        self._go_to(epoch)
        batch = self._batch(epoch, self._order, step)
        options = self._options_of(batch)
        plan = self._exact(batch, options)
        if plan is None:
            # More micro-batches than needed shorten the step, by the costs.
            plan = self._exact(batch, self._heavy(batch, options))
        if plan is None:
            plan = self._fewest(epoch, step, batch)
        return plan, batch

    def microbatches(self, epoch: int, step: int) -> list[Positions]:
        """The rank's micro-batches of a global batch, as positions in the dataset, in the order of the
        packed row. Kept until another epoch is asked for.

        Raises:
            as plan() does.
        """
        self._go_to(epoch)
        if step not in self._own:
            plan, batch = self.plan(epoch, step)
            self._own[step] = [batch[one.indices] for one in plan.rank(self._rank)]
        return self._own[step]

    def count(self, epoch: int) -> int:
        """The rank's micro-batches of an epoch. Plans all of it where microbatches_per_step is not set."""
        number = self.microbatches_per_step
        if number is None:
            return sum(len(self.microbatches(epoch, step)) for step in range(self.steps))
        return number * (self._ends[-1] // self._mini_batch if self._mini_batch else self.steps)

    def _go_to(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._order, self._own = epoch, self._order_of(epoch), {}

    def _made(self, batch: Positions, options: PlanOptions) -> Plan:
        try:
            return make_plan(self._lengths[batch], **options)
        except InvalidRequest as error:
            # What is named by its place in the batch.
            message = _PLACE.sub(lambda found: f"{found[1]}{batch[int(found[2])]}", str(error))
            raise InvalidRequest(message) from None

    def _options_of(self, batch: Positions) -> PlanOptions:
        if not len(self._group_ids):
            return self._options
        return {**self._options, "group_ids": self._group_ids[batch]}

    def _is_exact(self, plan: PassPlan) -> bool:
        number = self.microbatches_per_step
        return number is None or bool((plan.microbatches_per_rank == number).all())

    def _exact(self, batch: Positions, options: PlanOptions) -> Plan | None:
        """A plan of microbatches_per_step; None: it would have more."""
        try:
            plan = self._made(batch, options)
        except InvalidRequest:
            if self.microbatches_per_step is None:
                raise
            # Maybe of twice as many only, for which there are too few sequences.
            plan = self._made(batch, _of_any_multiple(options))
        return plan if self._is_exact(plan.passes[0]) else None

    def _heavy(self, batch: Positions, options: PlanOptions) -> PlanOptions:
        """With costs by which a micro-batch more costs more than it can save."""
        cost = options.get("cost")
        if not isinstance(cost, CostModel):
            cost = _DEFAULT_COST
        # No sequence costs more, whatever the coefficients are of. One above the budget is rounded up
        # by less than that.
        widest = budget = float(options["passes"][0].max_tokens)
        longest = float(self._lengths[batch].max())
        if longest > budget:
            widest += longest
        most = sum(cost.to_dict().values()) * widest**2
        added = cost.per_microbatch + 2.0 * len(batch) * most
        heavy = options.copy()
        heavy["cost"] = dataclasses.replace(cost, per_microbatch=added)
        return heavy

    def _fewest(self, epoch: int, step: int, batch: Positions) -> Plan:
        """A plan of no more micro-batches than needed, with as little effort as finds it.

        Raises:
            ValueError: these are more than microbatches_per_step, whatever the effort.
        """
        options = self._heavy(batch, self._options_of(batch))
        for effort in _EFFORTS:
            options["effort"] = effort
            plan = self._exact(batch, options)
            if plan is not None:
                return plan
        plan = self._made(batch, _of_any_multiple(options))
        if not self._is_exact(plan.passes[0]):
            needed = plan.passes[0].microbatches_per_rank.max()
            raise ValueError(
                f"microbatches_per_step is {self.microbatches_per_step}; global batch {step} of epoch "
                f"{epoch} needs {needed} on each rank: raise it or max_tokens, or lower batch_size"
            )
        return plan


def _of_any_multiple(options: PlanOptions) -> PlanOptions:
    """With any number of micro-batches that is not below the least."""
    first, *others = options["passes"]
    passes = [dataclasses.replace(first, microbatch_count_multiple=None), *others]
    return {**options, "passes": passes}


def _digest(dataset: Request) -> str:
    """Of what plans depend on."""
    digest = hashlib.sha256(dataset.to_json().encode())
    digest.update(dataset.lengths.tobytes())
    digest.update(dataset.group_ids.tobytes())
    return digest.hexdigest()
