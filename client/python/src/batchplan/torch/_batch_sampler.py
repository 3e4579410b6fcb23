"""Planned micro-batches of a dataset, epoch by epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy
import torch
from numpy.typing import ArrayLike

from batchplan import _core
from batchplan._checks import flag, members, whole
from batchplan._local import plan as make_plan
from batchplan._options import Pass, PlanOptions
from batchplan._plan import Plan
from batchplan._request import Request

if TYPE_CHECKING:
    from typing_extensions import Unpack


class BatchSampler(torch.utils.data.Sampler[list[int]]):
    """The micro-batches of one data-parallel rank, for a DataLoader.

        sampler = BatchSampler(lengths, batch_size=512, rank=rank, dp=8, max_tokens=16384, seed=1)
        for batch in DataLoader(dataset, batch_sampler=sampler, collate_fn=collate):
            ...

    An epoch takes the dataset in global batches of `batch_size` sequences, plans each one, and yields
    the rank's micro-batches: positions in the dataset, in the order of the packed row. All ranks make
    the same plans, and have as many micro-batches. The next epoch has another order.

    An iterator goes on where the last one ended, so that one epoch ends before the next begins, and a
    sampler that loaded a state goes on from there. Only the latest iterator goes on: one that is used
    after another one was, or after set_epoch or load_state_dict, raises RuntimeError.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        batch_size: int,
        *,
        rank: int = 0,
        drop_last: bool = False,
        **options: Unpack[PlanOptions],
    ) -> None:
        """
        Args:
            lengths: tokens of each sequence of the dataset.
            batch_size: sequences of a global batch, over all ranks.
            rank: data-parallel, of options' dp.
            drop_last: leave out what does not fill a global batch at the epoch's end, rather than
                planning a smaller one, which fails if it has too few sequences for the ranks.
            options: see PlanOptions; of passes, the first one counts, and group_ids has one for each
                sequence of the dataset. `shuffle`, here True unless said otherwise, and `seed` are those
                of the dataset's order, another one every epoch. overlong="drop" leaves sequences out of
                the dataset; "truncate" is not possible, as a position does not say where to cut.

        Raises:
            ValueError: batch_size is below 1, there is no such rank, no global batch can be had, or the
                first one can't be planned with these options.
        """
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
        ranks = whole_dataset.ranks
        if self._batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; must be at least 1")
        if not 0 <= self._rank < ranks:
            raise ValueError(f"rank is {rank}; must be 0 to {ranks - 1}")
        if self._seed < 0:
            raise ValueError(f"seed is {self._seed}; must be at least 0")
        if options.get("overlong") == "truncate":
            raise ValueError('overlong is "truncate"; a sampler yields whole sequences: cut them before')
        if len(self._group_ids) not in (0, len(self._lengths)):
            raise ValueError(
                f"group_ids has {len(self._group_ids)} entries; lengths has {len(self._lengths)}"
            )
        self._positions = self._kept()
        if not self.steps:
            raise ValueError(
                f"lengths has {len(self._positions)} entries to plan, which make no global batch; "
                f"batch_size is {batch_size}"
            )
        # What a place in an epoch depends on.
        self._identity: dict[str, Any] = {
            "sequences": len(self._lengths),
            "batch_size": self._batch_size,
            "shuffle": self._shuffle,
            "seed": self._seed,
            "drop_last": self._drop_last,
            "dp": ranks,
            "planned_as": _digest(whole_dataset),
        }
        # Of the iterator that goes on.
        self._turn = 0
        self._begin(epoch=0)
        self.plan(0)

    def _kept(self) -> numpy.ndarray[Any, Any]:
        """Positions of the sequences that are not dropped for their length."""
        if self._options.get("overlong") != "drop" or not len(self._lengths):
            return numpy.arange(len(self._lengths))
        # By their lengths, and those of their group.
        deciding = ("preset", "max_tokens", "passes", "cp", "tp", "sequence_parallel", "groups")
        options: Any = {name: value for name, value in self._options.items() if name in deciding}
        if len(self._group_ids):
            options["group_ids"] = self._group_ids
        plan = make_plan(self._lengths, **options, overlong="drop", effort="fast")
        return numpy.delete(numpy.arange(len(self._lengths)), [one.index for one in plan.excluded])

    def _begin(self, epoch: int, step: int = 0, slot: int = 0) -> None:
        self._turn += 1
        self._epoch = epoch
        self._order = self._order_of(epoch)
        # The next micro-batch, and where this sampler began.
        self._step, self._slot = step, slot
        self._first_step, self._first_slot = step, slot
        # Micro-batches of the steps that ended since.
        self._counts: list[int] = []

    def _order_of(self, epoch: int) -> numpy.ndarray[Any, Any]:
        if not self._shuffle:
            return self._positions
        return numpy.random.default_rng([self._seed, epoch]).permutation(self._positions)

    def _planned(self, order: numpy.ndarray[Any, Any], step: int) -> tuple[Plan, numpy.ndarray[Any, Any]]:
        batch = order[step * self._batch_size : (step + 1) * self._batch_size]
        options = self._options
        if len(self._group_ids):
            options = {**options, "group_ids": self._group_ids[batch]}
        return make_plan(self._lengths[batch], **options), batch

    @property
    def epoch(self) -> int:
        """That of the next micro-batch."""
        return self._epoch + self._has_ended

    @property
    def _has_ended(self) -> bool:
        return self._step >= self.steps

    @property
    def steps(self) -> int:
        """Global batches of an epoch."""
        full, rest = divmod(len(self._positions), self._batch_size)
        return full + (rest > 0 and not self._drop_last)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of an epoch, or stays where it is in this one."""
        if epoch != self.epoch:
            self._begin(epoch)

    def plan(self, step: int) -> tuple[Plan, numpy.ndarray[Any, Any]]:
        """The plan of a global batch of this epoch, and its sequences' positions in the dataset.

        Raises:
            IndexError: there is no such global batch.
            InvalidRequest: it can't be planned.
            FailedPrecondition: cost="fitted".
        """
        if not 0 <= step < self.steps:
            raise IndexError(f"step is {step}; must be 0 to {self.steps - 1}")
        return self._planned(self._order_of(self.epoch) if self._has_ended else self._order, step)

    def __iter__(self) -> Iterator[list[int]]:
        if self._has_ended:
            self._begin(self._epoch + 1)
        self._turn += 1
        turn = self._turn
        while self._step < self.steps:
            plan, batch = self._planned(self._order, self._step)
            microbatches = list(plan.rank(self._rank))
            for slot in range(self._slot, len(microbatches)):
                # Before it is handed out: what was yielded is not yielded again.
                if slot + 1 < len(microbatches):
                    self._slot = slot + 1
                else:
                    self._counts.append(len(microbatches))
                    self._step, self._slot = self._step + 1, 0
                yield batch[microbatches[slot].indices].tolist()
                if turn != self._turn:
                    raise RuntimeError("the sampler was moved, or another iterator goes on in its place")

    def __len__(self) -> int:
        """Micro-batches of this epoch. Plans all of it, which takes as long as to go through it."""
        return sum(
            int(self.plan(step)[0].passes[0].microbatches_per_rank.sum()) for step in range(self.steps)
        )

    def state_dict(self, behind: int = 0) -> dict[str, Any]:
        """Where it is, to be loaded by a sampler that was made alike.

        Args:
            behind: micro-batches that were yielded and are not to count: those that a DataLoader's
                workers have fetched and the training has not seen.

        Raises:
            ValueError: fewer were yielded in the last epoch, or since a state was loaded.
        """
        step, slot = self._step, self._slot - behind
        while slot < 0 and step > self._first_step:
            step -= 1
            slot += self._counts[step - self._first_step]
        if behind < 0 or slot < (self._first_slot if step == self._first_step else 0):
            raise ValueError(f"behind is {behind}; not as many micro-batches were yielded")
        return {
            **self._identity,
            "planner_version": _core.version(),
            "epoch": self._epoch,
            "step": step,
            "slot": slot,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes where another sampler was.

        Raises:
            ValueError: that one had another dataset, order, batch size, number of ranks, or options; or
                it was amid a global batch that another version of the planner had planned.
        """
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise ValueError(f"{name} is {value}; it was {state.get(name)} when the state was saved")
        planner = state.get("planner_version")
        if state["slot"] > 0 and planner != _core.version():
            raise ValueError(
                f"planner_version is {_core.version()}; it was {planner} when the state was saved amid a "
                "global batch: set_epoch begins the epoch anew"
            )
        self._begin(state["epoch"], state["step"], state["slot"])


def _digest(dataset: Request) -> str:
    """Of what plans depend on."""
    digest = hashlib.sha256(dataset.to_json().encode())
    digest.update(dataset.lengths.tobytes())
    digest.update(dataset.group_ids.tobytes())
    return digest.hexdigest()
