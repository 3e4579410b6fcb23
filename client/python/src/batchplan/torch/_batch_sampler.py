"""Planned micro-batches of a dataset, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy
import torch
from numpy.typing import ArrayLike

from batchplan import _core
from batchplan._checks import whole
from batchplan._option_help import takes_options
from batchplan._options import PlanOptions
from batchplan._plan import Plan
from batchplan.torch._batch_size_schedule import BatchSizeSchedule
from batchplan.torch._global_batches import NOT_OF_SAMPLERS, GlobalBatches
from batchplan.torch._mixture import Mixture
from batchplan.torch._row_costs import PackedRows

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

    Once a sampler is made, every epoch can be planned. A global batch that can't be divided among the ranks
    gives some sequences to the next one; where sizes are fixed, by microbatches_per_step or mini_batch_size, it
    exchanges sequences with its neighbours.

    Global batches take as many micro-batches as they need, unless microbatches_per_step says how many.
    An optimizer that steps after as many micro-batches then steps once a global batch:

        sampler = BatchSampler(lengths, 512, microbatches_per_step=4, rank=rank, dp=8, max_tokens=16384)
        for number, batch in enumerate(DataLoader(dataset, batch_sampler=sampler, collate_fn=collate)):
            loss_of(batch).backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()

    Rows that were packed beforehand are dealt whole, by what they cost: attention is over the sequences within a
    row, so that rows of the same width differ. Rows of like cost then meet where ranks wait for each other:

        sampler = BatchSampler(dataset["seq_lengths"], 64, microbatches_per_step=4, rank=rank, dp=8, max_tokens=8192)

    Lightning: Trainer(use_distributed_sampler=False, accumulate_grad_batches=4), and the rank and dp of
    its strategy. Accelerate: leave the DataLoader out of accelerator.prepare(), and bring the batches to
    accelerator.device. Either would give the ranks parts of what is one rank's part already, and meets a
    RuntimeError; but not Accelerate's dispatch_batches=True, which nothing here sees. Trainers of
    transformers: batchplan.integrations.transformers.

    An iterator goes on where the last one ended, so that one epoch ends before the next begins, and a
    sampler that loaded a state goes on from there. Only the latest iterator goes on: one that is used
    after another one was, or after set_epoch or load_state_dict, raises RuntimeError.
    """

    @takes_options(without=NOT_OF_SAMPLERS, defaults={"shuffle": True})
    def __init__(
        self,
        lengths: ArrayLike | Iterable[float] | PackedRows,
        batch_size: int | BatchSizeSchedule,
        *,
        rank: int = 0,
        drop_last: bool = False,
        microbatches_per_step: int | None = None,
        window: int = 1,
        mixture: Mixture | None = None,
        largest_first: bool = False,
        **options: Unpack[PlanOptions],
    ) -> None:
        """
        Args:
            lengths: tokens of each sequence of the dataset; or of each row that was packed beforehand, a list of
                those of the sequences in it. Of such a dataset everything that is said here of sequences
                holds for rows. In plan() a row is a sequence of its width, and its cost the load "cost".
            batch_size: sequences of a global batch, over all ranks; or a schedule by which they grow as training goes
                on. Epochs then differ in steps.
            rank: data-parallel, of options' dp.
            drop_last: leave out what does not fill a global batch at the epoch's end, and, where the last
                global batch can't be divided among the ranks, the sequences that are too many for that: fewer
                than ranks, or than ranks times microbatch_count_multiple.
            microbatches_per_step: of each rank in every global batch, or with mini_batch_size or mini_batch_groups
                in every mini-batch. That they are enough is tried at the beginning of each epoch, with
                effort="fast" for some 2 us a sequence, and with more where that finds no plan.
            window: global batches, one after the other, that exchange sequences: long ones come together,
                where ranks wait for none of them alone, and every sequence is trained once an epoch, at most
                window - 1 global batches from where the shuffled order has it. Of a window, the first
                global batch then has most of the long ones: more tokens than the others, and a gradient that
                is biased to these. A window stays as it is where a global batch could not be planned then, or
                one has more or fewer sequences than batch_size. Planned once more as mini-batches with
                max_delay, with effort="fast".
            mixture: the sequences' sources, of each of which every global batch has its share: rounded up or down to
                whole sequences, with what is rounded off carried over to the next one. A global batch that can't be
                divided among the ranks exchanges sequences of the same source with its neighbours. Where `groups`
                stay together, each has one source, all have the same number of sequences, which divides
                batch_size, and shares are in whole groups. Not with a window.
            largest_first: the first epoch begins with the global batch that has the largest micro-batch, in tokens
                with padding, and among equals the costliest, so that too little memory shows at once; where the cost
                model has loads, the costliest with these. The others keep their order, and other epochs theirs. The
                whole first epoch is planned at once for that. Not with a batch size that grows.
            options: those of batchplan.plan; of passes, the first one counts, and group_ids, prompt_lengths, loads, items and
                kinds have one entry for each sequence of the dataset, of which every plan gets its part. Of packed
                rows, a micro-batch has as many as max_tokens holds of the widest one, and at most a pass's max_sequences;
                options that are about tokens, or about ranks that share a row, are refused. `shuffle`, here True unless
                said otherwise, and `seed` are those of the dataset's order, another one every epoch. Where `groups`
                stay together, these are shuffled as one, and a global batch ends with the group that ends nearest to
                batch_size; with mini_batch_groups it ends with a whole mini-batch, or the dataset's last one. Where
                kinds_per_slot asks for it, global batches that have too few of a kind exchange sequences with their
                neighbours, but not in a mixture. With allow_empty_microbatches ranks that have too few sequences get
                [], which DummyBatchCollator makes tensors of. overlong="drop" leaves sequences out of the dataset;
                "truncate" is not possible, as a position does not say where to cut, nor are `ranks`, which a sampler
                decides, nor `selection` and `ages`: it gives out all. It gives out positions: what a row has of a
                prompt already (prompt_lengths), and where items that are dealt go, is in plan(), whose items are
                those of the global batch. Prompts are those of groups; other shared prefixes are refused.

        Raises:
            ValueError: batch_size is below one sequence for each rank and micro-batch, there is no such rank,
                no global batch can be had, no global batch holds a group that stays together, mini_batch_groups do
                not divide the groups, a window is asked for with mini-batches or a mixture, more than
                microbatches_per_step are needed, a mixture has not one source a sequence or not one proportion a
                source, or groups can't hold it.
            InvalidRequest: a sequence is too long, or the sequences can't be divided among the ranks.
        """
        self._batches = GlobalBatches(
            lengths,
            batch_size,
            rank=rank,
            drop_last=drop_last,
            microbatches_per_step=microbatches_per_step,
            window=window,
            mixture=mixture,
            largest_first=largest_first,
            **options,
        )
        # Of the iterator that goes on.
        self._turn = 0
        self._begin(epoch=0)

    def _begin(self, epoch: int, step: int = 0, slot: int = 0) -> None:
        self._turn += 1
        self._epoch = epoch
        if not step and not slot:
            self._batches.adopt(None)
        # The next micro-batch, and where this sampler began.
        self._step, self._slot = step, slot
        self._first_step, self._first_slot = step, slot
        # Micro-batches of the steps that ended since.
        self._counts: list[int] = []
        # How often more was asked for when the epoch had ended.
        self._asked_in_vain = 0
        self._is_arranged = False

    @property
    def epoch(self) -> int:
        """That of the next micro-batch."""
        return self._epoch + self._has_ended

    @property
    def _has_ended(self) -> bool:
        return self._step >= self._batches.steps_of(self._epoch)

    @property
    def steps(self) -> int:
        """Global batches of this epoch; of every epoch, unless the batch size grows."""
        return self._batches.steps_of(self.epoch)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ARGUMENTS or name in PlanOptions.__annotations__:
            raise AttributeError(f"{name} can't be set: a sampler plans as it was made, so make another one")
        super().__setattr__(name, value)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of an epoch, or stays where it is in this one.

        Raises:
            ValueError: it is below 0.
        """
        epoch = whole("epoch", epoch)
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}; must be at least 0")
        if epoch != self.epoch:
            self._begin(epoch)

    def plan(self, step: int) -> tuple[Plan, numpy.ndarray[Any, Any]]:
        """The plan of a global batch of this epoch, and its sequences' positions in the dataset.

        Raises:
            IndexError: there is no such global batch.
        """
        return self._batches.plan(self.epoch, step)

    def __iter__(self) -> Iterator[list[int]]:
        return _Iterator(self)

    def _next(self, iterator: _Iterator) -> list[int]:
        if iterator.has_ended:
            self._asked_in_vain += iterator.turn == self._turn
            raise StopIteration
        if iterator.turn is None:
            if self._has_ended:
                self._begin(self._epoch + 1)
            self._turn += 1
            iterator.turn = self._turn
        if iterator.turn != self._turn:
            raise RuntimeError("the sampler was moved, or another iterator goes on in its place")
        if self._has_ended:
            iterator.has_ended = True
            self._asked_in_vain += 1
            raise StopIteration
        microbatches = self._batches.microbatches(self._epoch, self._step)
        self._is_arranged = self._batches.is_arranged(self._epoch)
        given = microbatches[self._slot].tolist()
        if self._slot + 1 < len(microbatches):
            self._slot += 1
        else:
            self._counts.append(len(microbatches))
            self._step, self._slot = self._step + 1, 0
        return given

    def __len__(self) -> int:
        """Micro-batches of this epoch; of every epoch, where microbatches_per_step is set. Otherwise it
        plans all of it, which the iterator then need not do again. Of an epoch in which a state of another dp, budget
        or number of micro-batches was loaded, those since then."""
        return self._batches.count(self.epoch)

    @property
    def batch_size(self) -> int:
        """There is none: micro-batches differ in size. Asked for by what divides the batches of a sampler
        among processes, as Accelerate and Lightning do.

        Raises:
            AttributeError: always; but
            RuntimeError: dp is above 1, so that the batches are divided already.
        """
        if self._batches.ranks > 1:
            raise RuntimeError(
                f"these batches are those of one rank of {self._batches.ranks} already, and would be divided "
                "once more: leave the DataLoader out of accelerator.prepare(), and bring its batches to "
                "accelerator.device; in Lightning, set Trainer(use_distributed_sampler=False)"
            )
        raise AttributeError("micro-batches differ in size")

    def state_dict(self, behind: int = 0) -> dict[str, Any]:
        """Where it is, to be loaded by a sampler that was made alike, but for what load_state_dict says. At an
        epoch's end that is the beginning of the next one. StatefulDataLoader of torchdata saves it by itself, and
        needs no `behind`.

        Args:
            behind: how often a DataLoader has asked for a micro-batch that the training has not seen yet:
                prefetch_factor * num_workers. It goes on asking when there are no more of the epoch, which
                counts too, so that the number holds up to the epoch's end.

        Raises:
            ValueError: fewer were asked for in the last epoch, or since a state was loaded.
        """
        step, slot = self._step, self._slot - max(0, whole("behind", behind) - self._asked_in_vain)
        while slot < 0 and step > self._first_step:
            step -= 1
            slot += self._counts[step - self._first_step]
        if behind < 0 or slot < (self._first_slot if step == self._first_step else 0):
            raise ValueError(f"behind is {behind}; not as many micro-batches were yielded")
        epoch = self._epoch
        if step == self._batches.steps_of(epoch):
            epoch, step = epoch + 1, 0
        return {
            **self._batches.identity,
            "planner_version": _core.version(),
            "epoch": epoch,
            "step": step,
            "slot": slot,
            # What the epoch was divided by, where its batches have been planned for another capacity since.
            "divided_by": self._batches.divided_by(epoch) if step or slot else None,
            # Whether which sequences came before rests on that version.
            "arranged": self._is_arranged and step > 0,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes where another sampler was. Plans the global batch that it was amid.

        It may have had another dp, max_tokens or microbatches_per_step, if it was not amid a global batch. The epoch
        then goes on with the same global batches, so that each sequence comes once, and the next one is as this sampler
        divides it. Those of an epoch that it had to arrange are found again by its dp and budget.

        Raises:
            ValueError: that one had another dataset, order, batch size, or options, by name; or another dp, max_tokens
                or microbatches_per_step amid a global batch, or the global batches that are left can't be
                planned with this one's, or by these overlong="drop" drops other sequences; or it
                was amid a global batch, a window, or an epoch in which batches gave others sequences, and had
                another version of the planner; or there is no such place.
        """
        batches = self._batches
        batches.check_alike(state)
        epoch, step, slot = (whole(name, state.get(name)) for name in ("epoch", "step", "slot"))
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}; must be at least 0")
        before = batches.adopt(batches.former(state, epoch, step, slot))
        try:
            self._check_place(state, epoch, step, slot)
        except ValueError:
            batches.adopt(before)
            raise
        if step == batches.steps_of(epoch):
            epoch, step = epoch + 1, 0
        self._begin(epoch, step, slot)
        self._is_arranged = bool(step) and batches.is_arranged(epoch)

    def _check_place(self, state: dict[str, Any], epoch: int, step: int, slot: int) -> None:
        """Raises ValueError where there is no such place, or its planner has another version."""
        steps = self._batches.steps_of(epoch)
        if not 0 <= step <= steps:
            raise ValueError(f"step is {step}; must be 0 to {steps}")
        planner = state.get("planner_version")
        if planner != _core.version() and step < steps:
            amid = slot > 0 or not self._batches.begins_window(step)
            if step > 0:
                amid = amid or bool(state.get("arranged")) or self._batches.is_arranged(epoch)
            if amid:
                raise ValueError(
                    f"planner_version is {_core.version()}; it was {planner} when the state was saved "
                    "amid a global batch, a window or an epoch that it had arranged: set_epoch begins the "
                    "epoch anew"
                )
        # At its first micro-batch a global batch need not be planned yet.
        most = 0
        if slot and step < steps:
            most = len(self._batches.microbatches(epoch, step)) - 1
        if not 0 <= slot <= most:
            raise ValueError(f"slot is {slot}; must be 0 to {most}, of step {step}")


class _Iterator(Iterator[list[int]]):
    """One of a sampler's. Loaders that fetch ahead ask it on after its end, which the sampler counts.

    Attributes:
        turn: the sampler's since it was asked first; None: it was not yet.
    """

    def __init__(self, sampler: BatchSampler) -> None:
        self._sampler = sampler
        self.turn: int | None = None
        self.has_ended = False

    def __next__(self) -> list[int]:
        return self._sampler._next(self)


# What a sampler was made with, beside the options of its plans.
_ARGUMENTS = (
    "lengths", "batch_size", "rank", "drop_last", "microbatches_per_step", "window", "mixture", "largest_first",
    "steps", "epoch",
)  # fmt: skip
