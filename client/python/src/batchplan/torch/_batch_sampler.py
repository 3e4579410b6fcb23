"""Planned micro-batches of a dataset, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy
import torch
from numpy.typing import ArrayLike

from batchplan._local import plan as make_plan
from batchplan._options import PlanOptions
from batchplan._plan import Plan

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
            options: see PlanOptions; of passes, the first one counts. `shuffle`, here True unless said
                otherwise, and `seed` are those of the dataset's order, another one every epoch.

        Raises:
            ValueError: batch_size is below 1, or there is no such rank.
        """
        self._lengths = numpy.asarray(lengths)
        ranks = options.get("dp") or 1
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; must be at least 1")
        if not 0 <= rank < ranks:
            raise ValueError(f"rank is {rank}; must be 0 to {ranks - 1}")
        self._batch_size = batch_size
        self._rank = rank
        self._options = options.copy()
        shuffle = self._options.pop("shuffle", True)
        # What an order, and a place in it, depend on.
        self._identity = {
            "sequences": len(self._lengths),
            "batch_size": batch_size,
            "shuffle": shuffle,
            "seed": options.get("seed", 0),
            "drop_last": drop_last,
            "dp": ranks,
        }
        self._begin(epoch=0)

    def _begin(self, epoch: int) -> None:
        self._epoch = epoch
        # The next micro-batch.
        self._step = self._slot = 0
        # Micro-batches of the steps that ended, from the first one that this sampler took.
        self._first_step = 0
        self._counts: list[int] = []
        self._length: int | None = None
        if self._identity["shuffle"]:
            generator = numpy.random.default_rng([self._identity["seed"], epoch])
            self._order = generator.permutation(len(self._lengths))
        else:
            self._order = numpy.arange(len(self._lengths))

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def steps(self) -> int:
        """Global batches of an epoch."""
        whole, rest = divmod(len(self._lengths), self._batch_size)
        return whole + (rest > 0 and not self._identity["drop_last"])

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of an epoch, or stays where it is in this one."""
        if epoch != self._epoch:
            self._begin(epoch)

    def plan(self, step: int) -> tuple[Plan, numpy.ndarray[Any, Any]]:
        """The plan of a global batch of this epoch, and its sequences' positions in the dataset.

        Raises:
            InvalidRequest: it can't be planned.
        """
        if not 0 <= step < self.steps:
            raise IndexError(f"step is {step}; must be 0 to {self.steps - 1}")
        batch = self._order[step * self._batch_size : (step + 1) * self._batch_size]
        return make_plan(self._lengths[batch], **self._options), batch

    def __iter__(self) -> Iterator[list[int]]:
        while self._step < self.steps:
            plan, batch = self.plan(self._step)
            microbatches = list(plan.rank(self._rank))
            while self._slot < len(microbatches):
                # Before it is handed out: what was yielded is not yielded again.
                self._slot += 1
                yield batch[microbatches[self._slot - 1].indices].tolist()
            self._counts.append(len(microbatches))
            self._step, self._slot = self._step + 1, 0
        self._begin(self._epoch + 1)

    def __len__(self) -> int:
        """Micro-batches of this epoch, for which all of it is planned once."""
        if self._length is None:
            self._length = sum(
                int(self.plan(step)[0].passes[0].microbatches_per_rank.sum())
                for step in range(self.steps)
            )
        return self._length

    def state_dict(self, behind: int = 0) -> dict[str, Any]:
        """Where it is, to be loaded by a sampler that was made alike.

        Args:
            behind: micro-batches that were yielded and are not to count: those that a DataLoader's
                workers have fetched and the training has not seen.

        Raises:
            ValueError: fewer were yielded since the epoch began, or the state was loaded.
        """
        step, slot = self._step, self._slot - behind
        while slot < 0 and step > self._first_step:
            step -= 1
            slot += self._counts[step - self._first_step]
        if behind < 0 or slot < 0:
            raise ValueError(f"behind is {behind}; not as many micro-batches were yielded")
        return {**self._identity, "epoch": self._epoch, "step": step, "slot": slot}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes where another sampler was.

        Raises:
            ValueError: that one had another dataset, order, batch size or number of ranks.
        """
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise ValueError(f"{name} is {value}; it was {state.get(name)} when the state was saved")
        self._begin(state["epoch"])
        self._first_step = self._step = state["step"]
        self._slot = state["slot"]
