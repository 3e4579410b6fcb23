"""A dataset in planned global batches, epoch by epoch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy
from numpy.typing import ArrayLike

from batchplan._checks import flag, members, whole
from batchplan._columns import listed
from batchplan._errors import InvalidRequest
from batchplan._options import Pass, PlanOptions
from batchplan._plan import Plan
from batchplan._request import Request
from batchplan.torch._batch_planner import BatchPlanner, MoreNeededError, Positions
from batchplan.torch._batch_size_schedule import BatchSizeSchedule
from batchplan.torch._capacity import Capacity
from batchplan.torch._dataset import OF_SEQUENCES, Dataset
from batchplan.torch._division import ContinuedDivision, Division, Former
from batchplan.torch._epoch_sizes import sizes_of_epochs
from batchplan.torch._epoch import UndividableError
from batchplan.torch._epochs import Epochs
from batchplan.torch._identity import capacity_of, check_alike, flat, parts_of
from batchplan.torch._mini_batches import MiniBatches
from batchplan.torch._mixture import Mixture, SourceShares
from batchplan.torch._row_costs import PackedRows, packed_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Options that no sampler takes, and why.
NOT_OF_SAMPLERS = {
    "ranks": "decides which rank has a sequence",
    **dict.fromkeys(
        ("selection", "ages", "shared_prefixes", "shared_with"), "gives out all sequences, in any order"
    ),
    "dynamic_cp": "gives out sequences, and not which ranks share them",
}
# Of refusals that fewer sequences, or fewer ranks, may mend, what they name.
_OF_RANKS = ("data_parallel", "mini_batches.size", "mini_batches.group_count")


class GlobalBatches:
    """Which sequences are in each global batch of each epoch, and their plans: functions of what this was
    made from, the same on every rank. The rank's own micro-batches of the latest epoch are kept, some 8
    bytes a sequence of the rank.

    Attributes:
        ranks: data-parallel.
        microbatches_per_step: of each rank and global batch, or mini-batch; None: as few as it takes.
        stand_in: position of the shortest sequence, or row, whose tensors can stand in for those of micro-batches
            without sequences; None: there are no such.
        identity: what a place in an epoch depends on, by name; JSON. The capacity is in it too.
    """

    def __init__(
        self,
        lengths: ArrayLike | Iterable[float] | PackedRows,
        batch_size: int | BatchSizeSchedule,
        *,
        rank: int,
        drop_last: bool,
        microbatches_per_step: int | None,
        window: int = 1,
        mixture: Mixture | None = None,
        largest_first: bool = False,
        allow_empty_where_needed: bool = False,
        **options: Unpack[PlanOptions],
    ) -> None:
        """See BatchSampler, whose arguments and errors these are.

        Args:
            allow_empty_where_needed: have allow_empty_microbatches if epochs can't be divided without, unless a pass
                says which kinds run at the same time, as what stands in for sequences is of one kind.
        """
        self._given = options.copy()
        shuffle = self._given.pop("shuffle", None)
        if options.get("passes") is not None:
            self._given["passes"] = members("passes", options["passes"], Pass)
        lengths = listed("manifest.lengths", lengths)
        self._rows = packed_rows(lengths)
        planned = lengths if self._rows is None else self._rows.widths
        of_rows = self._given if self._rows is None else self._rows.planned(self._given)
        whole_dataset = Request(planned, **of_rows)  # type: ignore[arg-type]
        self._dataset = Dataset(whole_dataset, of_rows)
        if self._given.get("max_tokens") is not None:
            only = Pass(self._given.pop("max_tokens"), limits=self._given.pop("limits", None))
            self._given["passes"] = [only]
        if not isinstance(batch_size, BatchSizeSchedule):
            batch_size = whole("batch_size", batch_size)
            if batch_size < 1:
                raise ValueError(f"batch_size is {batch_size}; must be at least 1")
            batch_size = BatchSizeSchedule([(0, batch_size)])
        self._schedule = batch_size
        self._rank = whole("rank", rank)
        self._shuffle = shuffle is None or flag("shuffle", shuffle)
        self._seed = whole("seed", options.get("seed") or 0)
        self._drop_last = flag("drop_last", drop_last)
        self._window = whole("window", window)
        self._mixture = mixture
        self._largest_first = flag("largest_first", largest_first)
        # Of the first pass.
        ignored = self._given["passes"][0].ignore_mini_batches
        self._mini_batches = MiniBatches(0, False, True) if ignored else MiniBatches.of(options)
        self.ranks = whole_dataset.ranks
        self._check(options)
        if microbatches_per_step is not None:
            microbatches_per_step = whole("microbatches_per_step", microbatches_per_step)
        self.microbatches_per_step = microbatches_per_step
        self._capacity = Capacity.of(self._given, self.ranks, microbatches_per_step)
        self._planner = self._planner_of(self._capacity)
        self._check_least()
        try:
            self._own = self._divided(self._planner)
        except UndividableError as error:
            kinds = self._given["passes"][0].kinds_per_slot
            if not allow_empty_where_needed or kinds not in (None, "any"):
                self._refuse(error)
            self._given["allow_empty_microbatches"] = True
            self._planner = self._planner_of(self._capacity)
            try:
                self._own = self._divided(self._planner)
            except UndividableError as still:
                self._refuse(still)
        self.stand_in: int | None = None
        if self._given.get("allow_empty_microbatches"):
            self.stand_in = int(self._dataset.lengths.argmin())
        stages = self._schedule.stages
        self.identity: dict[str, Any] = {
            "sequences": len(self._dataset.lengths),
            "batch_size": stages[0][1] if len(stages) == 1 else [list(stage) for stage in stages],
            "shuffle": self._shuffle,
            "seed": self._seed,
            "drop_last": self._drop_last,
            "dp": self.ranks,
            "planned_as": {**flat("", whole_dataset.fields), **self._dataset.digests()},
            "microbatches_per_step": self.microbatches_per_step,
            "window": self._window if self._window > 1 else None,
            "mixture": None if self._own.shares is None else self._own.shares.identity,
            "largest_first": self._largest_first or None,
        }
        if self._rows is not None:
            self.identity["planned_as"] = self._rows.identity(self._given, self.identity["planned_as"])
        # Where a saved state goes on, amid an epoch that another capacity divided: which epoch, and how.
        self._adopted: Former | None = None
        self._number = 0
        # The rank's micro-batches of that epoch, by step.
        self._microbatches: dict[int, list[Positions]] = {}
        self.microbatches(0, 0)

    def _check(self, options: PlanOptions) -> None:
        """Raises ValueError for arguments that no sampler takes, or not together."""
        if self._window < 1:
            raise ValueError(f"window is {self._window}; must be at least 1")
        if self._window > 1 and self._mini_batches:
            name = "mini_batch_groups" if self._mini_batches.of_groups else "mini_batch_size"
            raise ValueError(
                f"window is {self._window}, of global batches that are one mini-batch each; {name} is "
                f"{self._mini_batches.size}: leave one of them out"
            )
        if not 0 <= self._rank < self.ranks:
            raise ValueError(f"rank is {self._rank}; must be 0 to {self.ranks - 1}")
        if self._seed < 0:
            raise ValueError(f"seed is {self._seed}; must be at least 0")
        for name, reason in NOT_OF_SAMPLERS.items():
            value: Any = options.get(name)
            if value is not None and value is not False:
                raise ValueError(f"{name} is set; a sampler {reason}: leave it out")
        if options.get("overlong") == "truncate":
            raise ValueError('overlong is "truncate"; a sampler yields whole sequences: cut them before')
        if self._window > 1 and self._mixture is not None:
            raise ValueError(
                f"window is {self._window}, of global batches that exchange sequences, and mixture is set, whose "
                "shares each of them holds: leave one of them out"
            )
        if self._largest_first and len(self._schedule.stages) > 1:
            raise ValueError(
                "largest_first is True, and batch_size is a schedule, whose first global batches are small: leave one "
                "of them out"
            )

    def _check_least(self) -> None:
        """Raises ValueError where a global batch has too few sequences in any case."""
        size = self._mini_batches.sequences
        least, fewest = self._planner.least, size or self._schedule.smallest
        if fewest < least:
            name = "mini_batch_size" if size else "batch_size"
            each = self._planner.each
            per_rank = least // each // self.ranks
            rows = f"{per_rank} micro-batch" + ("es of " if per_rank > 1 else " of ")
            rows += "one sequence" if each == 1 else f"{each} sequences"
            raise ValueError(
                f"{name} is {fewest}; must be at least {least}, for {rows} on each of {self.ranks} ranks: "
                "allow_empty_microbatches=True gives ranks empty ones"
            )

    def _planner_of(self, capacity: Capacity) -> BatchPlanner:
        options = capacity.applied(self._given)
        if self._rows is not None:
            options = self._rows.planned(options)
        for name in OF_SEQUENCES:
            options.pop(name, None)  # type: ignore[misc]
        return BatchPlanner(self._dataset, options, ranks=capacity.dp, microbatches=capacity.microbatches_per_step)

    def _divided(self, planner: BatchPlanner) -> Division:
        """The epochs, as a planner divides them.

        Raises:
            UndividableError: it can't.
            ValueError: a sequence is too long, or there is no global batch, or a mixture can't be held.
        """
        positions = planner.kept()
        planner.check_longest(positions, self._schedule.largest)
        mini_batches, group_ids = MiniBatches.of(planner.options), self._dataset.group_ids
        # Of each position that is kept, its group by number; None: groups may be torn.
        group_of: Positions | None = None
        if len(group_ids) and (planner.options.get("groups") not in (None, "ignore") or mini_batches.of_groups):
            group_of = numpy.unique(group_ids[positions], return_inverse=True)[1]
        mini_batches.check(0 if group_of is None else int(group_of.max(initial=-1)) + 1, self._drop_last)
        shares: SourceShares | None = None
        if self._mixture is not None:
            shares = SourceShares(self._mixture, positions, len(self._dataset.lengths), group_of)
            shares.check([size for _, size in self._schedule.stages])
        count = len(positions) if shares is None else shares.count
        sizes = sizes_of_epochs(
            count,
            self._schedule,
            least=planner.least,
            drop_last=self._drop_last,
            keeps_sizes=mini_batches.sequences > 0,
            is_grouped=group_of is not None,
        )
        if shares is not None:
            sizes = [dataclasses.replace(one, ends=shares.whole(one.ends)) for one in sizes]
        if not len(sizes[-1].ends):
            where = f" in epoch {sizes[-1].epoch}" if sizes[-1].epoch else ""
            raise ValueError(
                f"lengths has {count} entries to plan, which make no global batch{where}; "
                f"batch_size is {self._schedule.largest if where else self._schedule.smallest}"
            )
        epochs = Epochs(
            planner,
            positions,
            sizes=sizes,
            mini_batches=mini_batches,
            group_of=group_of,
            shares=shares,
            seed=self._seed,
            shuffle=self._shuffle,
            drop_last=self._drop_last,
        )
        return Division(
            planner, positions, epochs, shares=shares, window=self._window, largest_first=self._largest_first
        )

    def _refuse(self, error: UndividableError) -> NoReturn:
        """Says why an epoch can't be divided, and what can be done."""
        where = f"global batch {error.step} of epoch {error.epoch}"
        if error.is_torn:
            raise ValueError(
                f"batch_size is {error.batch_size}; {where} would end within group "
                f"{self._dataset.group_ids[error.batch[-1]]}, and {self._stays()}: it must hold whole groups"
            ) from None
        ways_out = "allow_empty_microbatches=True gives ranks micro-batches without sequences"
        # Of one global batch it leaves nothing.
        if len(self._dataset.lengths) >= self._schedule.smallest:
            ways_out = f"drop_last=True leaves out what can't be divided at an epoch's end, and {ways_out}"
        if error.sharing:
            raise InvalidRequest(
                f"lengths can't be divided among {self.ranks} ranks: they are {error.sharing} more than a "
                f"multiple of {self._planner.multiple}, so that as many must share a micro-batch with another, "
                f"which {self._planner.limit} is too small for: {ways_out}"
            ) from None
        try:
            self._planner.plan(error.batch)
        except InvalidRequest as refused:
            if "kinds_per_slot" in str(refused):
                raise InvalidRequest(f"{refused}. It is {where}, and no order of the epoch is without such") from None
            # Others are of what no ranks and no order would hold.
            if not any(name in str(refused) for name in _OF_RANKS):
                raise
            raise InvalidRequest(f"{refused}. It is {where}: {ways_out}") from None
        except MoreNeededError as refused:
            raise ValueError(
                f"microbatches_per_step is {self.microbatches_per_step}; {where} needs {refused.needed} on each "
                "rank: raise it or max_tokens, or lower batch_size"
            ) from None
        raise InvalidRequest(f"batch_size is {error.batch_size}; {where} can't be divided: {ways_out}")

    def _stays(self) -> str:
        """What has groups stay together."""
        if self._mini_batches.of_groups:
            return f"mini_batch_groups is {self._mini_batches.size}"
        return f'groups is "{self._given["groups"]}"'

    def _division(self, epoch: int) -> Division | ContinuedDivision:
        """What says which sequences are in the global batches of an epoch."""
        adopted = self._adopted
        return adopted.division if adopted is not None and adopted.epoch == epoch else self._own

    def steps_of(self, epoch: int) -> int:
        """Global batches of an epoch."""
        return self._division(epoch).steps_of(epoch)

    def begins_window(self, step: int) -> bool:
        """Whether which sequences its global batch has does not rest on how others were planned."""
        return self._own.begins_window(step)

    def is_arranged(self, epoch: int) -> bool:
        """Whether which sequences its global batches have rests on the version of the planner."""
        return self._division(epoch).is_arranged(epoch)

    def check_alike(self, state: dict[str, Any]) -> None:
        """Whether a place in an epoch that another one saved is one here, but for the capacity.

        Raises:
            ValueError: what it depends on differs.
        """
        check_alike(self.identity, state)

    def former(self, state: dict[str, Any], epoch: int, step: int, slot: int) -> Former | None:
        """How the epoch is divided, amid which a saved state of another capacity goes on; None: as any other is here.

        Raises:
            ValueError: this capacity has another dataset, or other micro-batches in the global batch that the state is
                amid, or it can't divide the global batches that are left.
        """
        saved = capacity_of(state)
        if saved.max_tokens != self._capacity.max_tokens and self._given.get("overlong") == "drop":
            if not numpy.array_equal(self._planner_of(saved).kept(), self._own.positions):
                raise ValueError(
                    f'{self._capacity.differences(saved)}, and overlong is "drop": other sequences are too long'
                )
        if not step and not slot:
            return None
        if slot and saved != self._capacity:
            raise ValueError(
                f"{self._capacity.differences(saved)}, at slot {slot} of step {step}: only between two global batches "
                "can it be another one, as a global batch has other micro-batches then"
            )
        capacities = parts_of(state, saved)
        try:
            division = self._divided_by(capacities, epoch)
        except UndividableError:
            raise ValueError(f"divided_by is {state.get('divided_by')}, by which the epoch can't be divided") from None
        if capacities[-1][1] == self._capacity:
            return Former(epoch, step, division, capacities) if len(capacities) > 1 else None
        if isinstance(division, Division) and division.is_alike(self._own, epoch):
            return None
        try:
            continued = ContinuedDivision(division, epoch, step, self._own)
        except UndividableError as error:
            differences = self._capacity.differences(capacities[-1][1])
            raise ValueError(
                f"{differences}; global batch {step + error.step} of epoch {epoch} has {len(error.batch)} sequences, "
                "which can't be divided so: go on at an epoch's beginning"
            ) from None
        if not continued.is_other:
            return Former(epoch, step, division, capacities)
        return Former(epoch, step, continued, [*capacities, (step, self._capacity)])

    def _divided_by(self, capacities: list[tuple[int, Capacity]], epoch: int) -> Division | ContinuedDivision:
        (_, capacity), *later = capacities
        division: Division | ContinuedDivision = self._division_of(capacity)
        for first, capacity in later:
            division = ContinuedDivision(division, epoch, first, self._division_of(capacity))
        return division

    def _division_of(self, capacity: Capacity) -> Division:
        return self._own if capacity == self._capacity else self._divided(self._planner_of(capacity))

    def adopt(self, former: Former | None) -> Former | None:
        """Has an epoch divided by another capacity. Returns what it was before."""
        before = self._adopted
        if former is not before:
            self._adopted, self._microbatches = former, {}
        return before

    def divided_by(self, epoch: int) -> list[dict[str, Any]] | None:
        """The capacities that have divided this epoch, JSON; None: this one alone."""
        adopted = self._adopted
        if adopted is None or adopted.epoch != epoch:
            return None
        return [{"step": step, **capacity.to_dict()} for step, capacity in adopted.capacities]

    def plan(self, epoch: int, step: int) -> tuple[Plan, Positions]:
        """A global batch's plan, and its sequences' positions in the dataset.

        Raises:
            IndexError: there is no such global batch.
        """
        division = self._division(epoch)
        if not 0 <= step < division.steps_of(epoch):
            raise IndexError(f"step is {step}; must be 0 to {division.steps_of(epoch) - 1}")
        batch = division.batch(epoch, step)
        return self._planner.plan(batch), batch

    def microbatches(self, epoch: int, step: int) -> list[Positions]:
        """The rank's micro-batches of a global batch, as positions in the dataset, in the order of the
        packed row. Kept until another epoch is asked for.

        Raises:
            as plan() does.
        """
        if epoch != self._number:
            self._number, self._microbatches = epoch, {}
        if step not in self._microbatches:
            plan, batch = self.plan(epoch, step)
            self._microbatches[step] = [batch[one.indices] for one in plan.rank(self._rank)]
        return self._microbatches[step]

    def count(self, epoch: int) -> int:
        """The rank's micro-batches of an epoch; of one that went on with another capacity, since then. Plans all of it
        where microbatches_per_step is not set."""
        number, division, adopted = self.microbatches_per_step, self._division(epoch), self._adopted
        first = adopted.first if adopted is not None and adopted.epoch == epoch else 0
        steps = range(first, division.steps_of(epoch))
        if number is None:
            return sum(len(self.microbatches(epoch, step)) for step in steps)
        if not self._mini_batches:
            return number * len(steps)
        return number * sum(self._planner.mini_batches(division.batch(epoch, step)) for step in steps)
