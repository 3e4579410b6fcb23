"""What waits to be trained, of an asynchronous trainer."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy
from numpy.typing import ArrayLike, NDArray

from batchplan._checks import seconds, whole
from batchplan._errors import InvalidRequest
from batchplan._local import plan as plan_here
from batchplan._options import PlanOptions, Selection
from batchplan._plan import MicroBatch, Plan
from batchplan._request import lengths_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

Item = TypeVar("Item")
_OLDEST = 2**32 - 1


@dataclasses.dataclass(frozen=True, eq=False)
class PoolBatch(Generic[Item]):
    """What was taken from a pool.

    Attributes:
        plan: of all that waited, whose positions it has; those of plan.deferred wait still.
        items: all that waited, by position.
        step: the pool's, before this was taken.
    """

    plan: Plan
    items: Sequence[Item]
    step: int

    def of(self, microbatch: MicroBatch) -> list[Item]:
        """The items of one of its micro-batches, in the order of the row."""
        return [self.items[place] for place in microbatch.indices.tolist()]

    @property
    def taken(self) -> list[Item]:
        """All that is trained, in the order of the first pass."""
        return [self.items[place] for place in self.plan.passes[0].sequence_index.tolist()]

    @property
    def left_out(self) -> list[Item]:
        """What is neither trained nor waits any more: too old, or overlong with overlong="drop"."""
        reasons = ("expired", "dropped")
        return [self.items[one.index] for one in self.plan.excluded if one.reason in reasons]


@dataclasses.dataclass
class _Group(Generic[Item]):
    """Items that are trained together."""

    items: list[Item]
    lengths: NDArray[numpy.uint32]
    # Whose weights made it.
    step: int


class Pool(Generic[Item]):
    """What waits to be trained, between generation that adds answers as they are finished and a trainer
    that takes a planned batch each step. What is not taken waits on, older by one step: none is lost, none
    older than max_age is trained, and none waits for ever.

        pool = batchplan.Pool()

        # In the threads of the generation, a group of answers to one prompt:
        pool.add(answers, [len(one.tokens) for one in answers], step=version_of_weights)

        # In the trainer:
        which = batchplan.Selection(groups=64, max_age=4, max_overtaking=16)
        batch = pool.take(which, timeout=600, dp=8, max_tokens=16384)
        for microbatch in batch.plan.rank(rank):
            train(batch.of(microbatch))

    Its step is the number of batches that were taken. Ages are counted by it. Any number of threads may add
    and take at the same time. It is pickled, with what waits, as part of a checkpoint. Pools that got the
    same answers in the same order give the same batches: one process has it and sends the others their part,
    or all of them have the same.
    """

    def __init__(self) -> None:
        self._groups: list[_Group[Item]] = []
        self._step = 0
        self._make_locks()

    def _make_locks(self) -> None:
        # Of what waits, for what adds; and of who takes, for as long as it is planned.
        self._changed = threading.Condition()
        self._taking = threading.Lock()

    @property
    def step(self) -> int:
        """Batches that were taken."""
        return self._step

    def __len__(self) -> int:
        """Sequences that wait."""
        with self._changed:
            return sum(len(group.items) for group in self._groups)

    def add(self, items: Sequence[Item], lengths: ArrayLike, *, step: int | None = None) -> None:
        """Adds sequences that are trained together, such as the answers to one prompt, behind those that wait.

        Args:
            items: at least one; what take gives back.
            lengths: tokens of each, at least 1.
            step: at which the weights were the trainer's that made them; None: the pool's. If several did,
                the first.

        Raises:
            InvalidRequest: there are none, not as many lengths, one of 0, or a step that the pool has not
                come to.
        """
        kept = list(items)
        tokens = lengths_of(lengths).copy()
        if len(tokens) != len(kept):
            raise InvalidRequest(f"lengths has {len(tokens)} entries; there are {len(kept)} items")
        if not kept:
            raise InvalidRequest("items is empty; must have at least one")
        if not tokens.all():
            raise InvalidRequest(f"lengths[{int((tokens == 0).argmax())}] is 0; must be at least 1")
        made = None if step is None else whole("step", step)
        with self._changed:
            if made is not None and not 0 <= made <= self._step:
                raise InvalidRequest(f"step is {made}; must be 0 to {self._step}, the pool's own")
            self._groups.append(_Group(kept, tokens, self._step if made is None else made))
            self._changed.notify_all()

    def take(
        self,
        which: Selection,
        *,
        timeout: float = 0.0,
        plan: Callable[..., Plan] = plan_here,
        **options: Unpack[PlanOptions],
    ) -> PoolBatch[Item]:
        """Plans a batch of what waits, which does not wait any more then, nor does what is too old. What
        waits beside it is one step older.

        Args:
            which: how much, how old at most, and who may pass whom. Groups are those that were added.
            timeout: seconds to wait until there is as much that is not too old, or as many tokens.
            plan: what makes the plan: the plan of a Client, with its job_id and step.
            options: see PlanOptions; the pool has the lengths, groups and ages.

        Raises:
            InvalidRequest: there is not as much, even then, or no plan can be made.
            Error: of `plan`. What waits stays as it was.
        """
        if not isinstance(which, Selection):
            raise InvalidRequest(f"selection is {which!r}; must be a batchplan.Selection")
        which.to_dict()
        for name in ("group_ids", "ages", "ranks", "selection"):
            if name in options:
                raise InvalidRequest(f"{name} is set; the pool decides it: leave it out")
        end = time.monotonic() + seconds("timeout", timeout)
        with self._taking:
            with self._changed:
                self._changed.wait_for(lambda: self._holds(which), end - time.monotonic())
                groups, step = list(self._groups), self._step
            sizes = [len(group.items) for group in groups]
            ages = [min(step - group.step, _OLDEST) for group in groups]
            lengths = [group.lengths for group in groups]
            made = plan(
                numpy.concatenate(lengths) if lengths else (),
                group_ids=numpy.repeat(numpy.arange(len(groups), dtype=numpy.uint32), sizes),
                ages=numpy.repeat(numpy.asarray(ages, numpy.uint32), sizes),
                selection=which,
                **options,
            )
            with self._changed:
                # Others have added behind these meanwhile.
                self._groups[: len(groups)] = _waiting(groups, made)
                self._step += 1
        items = [item for group in groups for item in group.items]
        return PoolBatch(made, items, step)

    def _holds(self, selection: Selection) -> bool:
        """Whether there is as much, of what is not too old."""
        young = [
            group
            for group in self._groups
            if not selection.max_age or self._step - group.step <= selection.max_age
        ]
        if selection.groups:
            return len(young) >= selection.groups
        if selection.sequences:
            return sum(len(group.items) for group in young) >= selection.sequences
        return sum(int(group.lengths.sum(dtype=numpy.int64)) for group in young) >= selection.max_tokens

    def __getstate__(self) -> dict[str, Any]:
        with self._changed:
            return {"groups": list(self._groups), "step": self._step}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._groups, self._step = state["groups"], state["step"]
        self._make_locks()


def _waiting(groups: list[_Group[Item]], plan: Plan) -> list[_Group[Item]]:
    """What the plan puts off. Of a group, sequences that are dropped for their length do not wait."""
    waits = numpy.zeros(sum(len(group.items) for group in groups), bool)
    waits[plan.deferred] = True
    left: list[_Group[Item]] = []
    begin = 0
    for group in groups:
        own = waits[begin : begin + len(group.items)]
        begin += len(group.items)
        if own.all():
            left.append(group)
        elif own.any():
            items = [item for item, stays in zip(group.items, own.tolist()) if stays]
            left.append(_Group(items, group.lengths[own], group.step))
    return left
