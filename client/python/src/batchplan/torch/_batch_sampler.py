"""Planned micro-batches of a dataset, epoch by epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy
import torch
from numpy.typing import ArrayLike

from batchplan._local import plan as make_plan
from batchplan._options import PlanOptions
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
    sampler that loaded a state goes on from there.
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
                of the dataset's order, another one every epoch. Not overlong="truncate": a position does
                not say where to cut.

        Raises:
            ValueError: batch_size is below 1, there is no such rank, or an option is wrong.
        """
        self._lengths = numpy.asarray(lengths)
        self._options = options.copy()
        shuffle = self._options.pop("shuffle", None)
        group_ids = self._options.pop("group_ids", None)
        self._group_ids = None if group_ids is None else numpy.asarray(group_ids)
        seed = int(options.get("seed") or 0)
        ranks = int(options.get("dp") or 1)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; must be at least 1")
        if not 0 <= rank < ranks:
            raise ValueError(f"rank is {rank}; must be 0 to {ranks - 1}")
        if seed < 0:
            raise ValueError(f"seed is {seed}; must be at least 0")
        if options.get("overlong") == "truncate":
            raise ValueError('overlong is "truncate"; a sampler yields whole sequences: cut them before')
        if self._group_ids is not None and len(self._group_ids) != len(self._lengths):
            raise ValueError(
                f"group_ids has {len(self._group_ids)} entries; lengths has {len(self._lengths)}"
            )
        self._batch_size = batch_size
        self._rank = rank
        self._shuffle = shuffle is not False
        self._seed = seed
        self._drop_last = drop_last
        # What a place in an epoch depends on.
        self._identity: dict[str, Any] = {
            "sequences": len(self._lengths),
            "batch_size": batch_size,
            "shuffle": self._shuffle,
            "seed": seed,
            "drop_last": drop_last,
            "dp": ranks,
            "planned_as": self._digest(),
        }
        self._begin(epoch=0)

    def _digest(self) -> str:
        """Of the lengths, and of what plans depend on."""
        request = Request(self._lengths, **self._options)
        digest = hashlib.sha256(request.to_json().encode())
        digest.update(request.lengths.tobytes())
        if self._group_ids is not None:
            digest.update(self._group_ids.astype(numpy.int64).tobytes())
        return digest.hexdigest()

    def _begin(self, epoch: int, step: int = 0, slot: int = 0) -> None:
        self._epoch = epoch
        self._order = self._order_of(epoch)
        # The next micro-batch, and where this sampler began.
        self._step, self._slot = step, slot
        self._first_step, self._first_slot = step, slot
        # Micro-batches of the steps that ended since.
        self._counts: list[int] = []

    def _order_of(self, epoch: int) -> numpy.ndarray[Any, Any]:
        if not self._shuffle:
            return numpy.arange(len(self._lengths))
        return numpy.random.default_rng([self._seed, epoch]).permutation(len(self._lengths))

    def _planned(self, order: numpy.ndarray[Any, Any], step: int) -> tuple[Plan, numpy.ndarray[Any, Any]]:
        batch = order[step * self._batch_size : (step + 1) * self._batch_size]
        options = self._options
        if self._group_ids is not None:
            options = {**options, "group_ids": self._group_ids[batch]}
        return make_plan(self._lengths[batch], **options), batch

    @property
    def epoch(self) -> int:
        """That of the next micro-batch."""
        return self._epoch + self._has_ended

    @property
    def _has_ended(self) -> bool:
        return self._step >= self.steps > 0

    @property
    def steps(self) -> int:
        """Global batches of an epoch."""
        whole, rest = divmod(len(self._lengths), self._batch_size)
        return whole + (rest > 0 and not self._drop_last)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of an epoch, or stays where it is in this one."""
        if epoch != self.epoch:
            self._begin(epoch)

    def plan(self, step: int) -> tuple[Plan, numpy.ndarray[Any, Any]]:
        """The plan of a global batch of this epoch, and its sequences' positions in the dataset.

        Raises:
            IndexError: there is no such global batch.
            InvalidRequest: it can't be planned.
        """
        if not 0 <= step < self.steps:
            raise IndexError(f"step is {step}; must be 0 to {self.steps - 1}")
        return self._planned(self._order_of(self.epoch) if self._has_ended else self._order, step)

    def __iter__(self) -> Iterator[list[int]]:
        if self._has_ended:
            self._begin(self._epoch + 1)
        while self._step < self.steps:
            plan, batch = self._planned(self._order, self._step)
            microbatches = list(plan.rank(self._rank))
            while self._slot < len(microbatches):
                # Before it is handed out: what was yielded is not yielded again.
                self._slot += 1
                yield batch[microbatches[self._slot - 1].indices].tolist()
            self._counts.append(len(microbatches))
            self._step, self._slot = self._step + 1, 0

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
        return {**self._identity, "epoch": self._epoch, "step": step, "slot": slot}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes where another sampler was.

        Raises:
            ValueError: that one had another dataset, order, batch size, number of ranks, or options.
        """
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise ValueError(f"{name} is {value}; it was {state.get(name)} when the state was saved")
        self._begin(state["epoch"], state["step"], state["slot"])
