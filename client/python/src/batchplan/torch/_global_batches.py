"""A dataset in planned global batches, epoch by epoch."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any, NoReturn

import numpy
from numpy.typing import ArrayLike

from batchplan._checks import flag, members, whole
from batchplan._errors import InvalidRequest
from batchplan._local import plan as make_plan
from batchplan._options import Pass, PlanOptions
from batchplan._plan import Plan
from batchplan._request import Request
from batchplan.torch._batch_planner import BatchPlanner, MoreNeededError, Positions
from batchplan.torch._epochs import Epochs, UndividableError
from batchplan.torch._row_costs import PackedRows, packed_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        lengths: ArrayLike | PackedRows,
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
        rows = packed_rows(lengths)
        planned: Any = lengths
        if rows is not None:
            # In what follows, what a row costs is its length.
            planned, self._options = rows.planned(self._options)
        whole_dataset = Request(planned, **self._options)
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
        for name in ("prompt_lengths", "shared_prefixes", "shared_with"):
            if options.get(name) is not None:
                raise ValueError(
                    f"{name} is set; a sampler gives out sequences, and not what they share: leave it out"
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
            microbatches_per_step = whole("microbatches_per_step", microbatches_per_step)
        self._planner = BatchPlanner(
            self._lengths,
            self._group_ids,
            self._options,
            ranks=self.ranks,
            microbatches=microbatches_per_step,
        )
        self.microbatches_per_step = microbatches_per_step
        least, fewest = self._planner.least, self._mini_batch or self._batch_size
        if fewest < least:
            name = "mini_batch_size" if self._mini_batch else "batch_size"
            per_rank = f"{least // self.ranks} micro-batch" + ("es" if least > self.ranks else "")
            raise ValueError(
                f"{name} is {fewest}; must be at least {least}, for {per_rank} of one sequence on each of "
                f"{self.ranks} ranks: allow_empty_microbatches=True gives ranks empty ones"
            )
        positions = self._kept()
        self._planner.check_longest(positions, self._batch_size)
        # Of each position that is kept, its group by number; None: groups may be torn.
        group_of: Positions | None = None
        if len(self._group_ids) and options.get("groups") not in (None, "ignore"):
            group_of = numpy.unique(self._group_ids[positions], return_inverse=True)[1]
        try:
            self._epochs = Epochs(
                self._planner,
                positions,
                batch_size=self._batch_size,
                mini_batch=whole("mini_batches.size", options.get("mini_batch_size") or 0),
                group_of=group_of,
                seed=self._seed,
                shuffle=self._shuffle,
                drop_last=self._drop_last,
            )
        except UndividableError as error:
            self._refuse(error)
        if not self.steps:
            raise ValueError(
                f"lengths has {len(positions)} entries to plan, which make no global batch; "
                f"batch_size is {batch_size}"
            )
        self.identity: dict[str, Any] = {
            "sequences": len(self._lengths),
            "batch_size": self._batch_size,
            "shuffle": self._shuffle,
            "seed": self._seed,
            "drop_last": self._drop_last,
            "dp": self.ranks,
            "planned_as": {**_planned_as(whole_dataset), **(rows.identity(options) if rows else {})},
            "microbatches_per_step": self.microbatches_per_step,
            "window": self._window if self._window > 1 else None,
        }
        self._number = 0
        self._epoch = self._epochs.of(0)
        # The rank's micro-batches of that epoch, by step.
        self._own: dict[int, list[Positions]] = {}
        # The latest window: its epoch, its first step, and its global batches.
        self._latest: tuple[int, int, list[Positions]] = (0, -1, [])
        self.microbatches(0, 0)

    def _refuse(self, error: UndividableError) -> NoReturn:
        """Says why an epoch can't be divided, and what can be done."""
        where = f"global batch {error.step} of epoch {error.epoch}"
        if error.is_torn:
            raise ValueError(
                f"batch_size is {self._batch_size}; {where} would end within group "
                f"{self._group_ids[error.batch[-1]]}, and groups is "
                f'"{self._options["groups"]}": it must hold whole groups'
            ) from None
        ways_out = (
            "drop_last=True leaves out what can't be divided at an epoch's end, and "
            "allow_empty_microbatches=True gives ranks micro-batches without sequences"
        )
        if error.sharing:
            raise InvalidRequest(
                f"lengths can't be divided among {self.ranks} ranks: they are {error.sharing} more than a "
                f"multiple of {self._planner.multiple}, so that as many must share a micro-batch with another, "
                f"which {self._planner.limit} is too small for: {ways_out}"
            ) from None
        try:
            self._planner.plan(error.batch)
        except InvalidRequest as refused:
            # Others are of what no ranks and no order would hold.
            if not any(name in str(refused) for name in ("data_parallel", "mini_batches.size")):
                raise
            raise InvalidRequest(f"{refused}. It is {where}: {ways_out}") from None
        except MoreNeededError as refused:
            raise ValueError(
                f"microbatches_per_step is {self.microbatches_per_step}; {where} needs {refused.needed} on each "
                "rank: raise it or max_tokens, or lower batch_size"
            ) from None
        raise InvalidRequest(f"batch_size is {self._batch_size}; {where} can't be divided: {ways_out}")

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

    def _batch(self, step: int) -> Positions:
        if self._window == 1:
            return self._epoch.batch(step)
        first = step - step % self._window
        if self._latest[:2] != (self._number, first):
            self._latest = (self._number, first, self._window_from(first))
        return self._latest[2][step - first]

    def _window_from(self, first: int) -> list[Positions]:
        """The global batches of a window, whose long sequences come together where that is faster."""
        steps = range(first, min(first + self._window, self.steps))
        batches = [self._epoch.batch(step) for step in steps]
        full = sum(len(batch) == self._batch_size for batch in batches)
        # Smaller ones are at the epoch's end, unless batches were moved.
        if full < 2 or any(len(batch) != self._batch_size for batch in batches[:full]):
            return batches
        sequences = numpy.concatenate(batches[:full])
        options = self._planner.options_of(sequences).copy()
        options.pop("max_tokens", None)
        options.pop("order", None)
        options["passes"] = [dataclasses.replace(self._planner.passes[0], ignore_mini_batches=False)]
        options["effort"] = "fast"
        options["mini_batch_size"] = self._batch_size
        options["max_delay"] = full - 1
        try:
            plan = self._planner.made(sequences, options).passes[0]
        except InvalidRequest:
            # Of other numbers of micro-batches only.
            return batches
        if not self._planner.is_exact(plan):
            return batches
        ends = plan.microbatch_offsets[numpy.cumsum(plan.microbatches_per_rank) * self.ranks]
        members = numpy.split(plan.sequence_index, ends[:-1])
        exchanged = [sequences[numpy.sort(own)] for own in members]
        if not all(map(self._planner.fits, exchanged)):
            return batches
        return exchanged + batches[full:]

    def begins_window(self, step: int) -> bool:
        """Whether which sequences its global batch has does not rest on how others were planned."""
        return self._window == 1 or step % self._window == 0

    @property
    def steps(self) -> int:
        return self._epochs.steps

    def check_alike(self, state: dict[str, Any]) -> None:
        """Whether a place in an epoch that another one saved is the same here.

        Raises:
            ValueError: what it depends on differs.
        """
        others = {name: value for name, value in self.identity.items() if name != "planned_as"}
        own, saved = self.identity["planned_as"], state.get("planned_as")
        for name, value in others.items():
            if state.get(name) != value:
                raise ValueError(f"{name} is {value}; it was {state.get(name)} when the state was saved")
        if not isinstance(saved, dict):
            raise ValueError(f"planned_as is {saved!r}; must be what a state_dict has there")
        for name in sorted(own.keys() | saved.keys()):
            now, then = (one.get(name, "unset") for one in (own, saved))
            if now == then:
                continue
            if name in ("lengths", "group_ids"):
                raise ValueError(f"{name} are not those of when the state was saved")
            raise ValueError(f"{name} is {now}; it was {then} when the state was saved")

    def is_arranged(self, epoch: int) -> bool:
        """Whether which sequences its global batches have rests on the version of the planner."""
        self._go_to(epoch)
        return self._epoch.is_arranged

    def plan(self, epoch: int, step: int) -> tuple[Plan, Positions]:
        """A global batch's plan, and its sequences' positions in the dataset.

        Raises:
            IndexError: there is no such global batch.
        """
        if not 0 <= step < self.steps:
            raise IndexError(f"step is {step}; must be 0 to {self.steps - 1}")
        self._go_to(epoch)
        batch = self._batch(step)
        return self._planner.plan(batch), batch

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
        self._go_to(epoch)
        sequences = int(self._epoch.ends[-1])
        return number * (sequences // self._mini_batch if self._mini_batch else self.steps)

    def _go_to(self, epoch: int) -> None:
        if epoch != self._number:
            self._number, self._epoch, self._own = epoch, self._epochs.of(epoch), {}


def _planned_as(dataset: Request) -> dict[str, Any]:
    """What plans depend on beside the seed, by option. JSON."""
    arrays = {"lengths": dataset.lengths, "group_ids": dataset.group_ids}
    digests = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}
    return {**_flat("", dataset.fields), **digests}


def _flat(where: str, value: Any) -> dict[str, Any]:
    """The values in a message, by the options that they are of."""
    if isinstance(value, dict):
        entries = [(f"{where}.{name}" if where else name, one) for name, one in value.items()]
    elif isinstance(value, list):
        entries = [(f"{where}[{place}]", one) for place, one in enumerate(value)]
    else:
        return {_NAMES.get(where, where): value}
    return {name: one for place, entry in entries for name, one in _flat(place, entry).items()}


# Of options that are not called as their fields in a request.
_NAMES = {
    "passes[0].max_tokens_per_microbatch": "max_tokens",
    "topology.data_parallel": "dp",
    "topology.context_parallel": "cp",
    "topology.tensor_parallel": "tp",
    "topology.pipeline_parallel": "pp",
    "topology.virtual_pipeline": "vpp",
    "topology.sequence_parallel": "sequence_parallel",
    "mini_batches.size": "mini_batch_size",
    "mini_batches.order": "order",
    "mini_batches.seed": "seed",
    "mini_batches.groups": "groups",
    "mini_batches.max_delay": "max_delay",
    "manifest.pad_to": "pad_to",
}
