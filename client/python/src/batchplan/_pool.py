"""What waits to be trained, of an asynchronous trainer."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy
from numpy.typing import ArrayLike, NDArray

from batchplan._checks import seconds, whole
from batchplan._columns import uint32_of
from batchplan._errors import InvalidRequest
from batchplan._loads import Values
from batchplan._local import plan as plan_here
from batchplan._option_help import takes_options
from batchplan._options import PlanOptions, Selection
from batchplan._micro_batch import MicroBatch
from batchplan._plan import Plan
from batchplan._request import Request
from batchplan._sequence_loads import SequenceLoads

if TYPE_CHECKING:
    from typing_extensions import Unpack

Item = TypeVar("Item")
_OLDEST = 2**32 - 1
# Of excluded sequences, the reasons for which they are not trained.
_LEFT_OUT = ("expired", "dropped")
# Options that it does not take, and why.
_ITS_OWN = {
    **dict.fromkeys(("group_ids", "ages", "ranks", "selection"), "the pool decides it: leave it out"),
    **dict.fromkeys(("loads", "items", "kinds"), "the pool has what waits: give them to add()"),
    **dict.fromkeys(
        ("prompt_lengths", "shared_prefixes", "shared_with"),
        "a pool shares prompts alone: give add() a prompt_length",
    ),
}


@dataclasses.dataclass(frozen=True, eq=False)
class PoolBatch(Generic[Item]):
    """What was taken from a pool.

    Attributes:
        plan: of all that waited, whose positions it has; those of plan.deferred wait still.
        items: all that waited, by position. Send a rank what `of` gives, rather than all of this.
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
        return [self.items[one.index] for one in self.plan.excluded if one.reason in _LEFT_OUT]


@dataclasses.dataclass
class _Group(Generic[Item]):
    """Items that are trained together."""

    items: list[Item]
    lengths: NDArray[numpy.uint32]
    # Whose weights made it.
    step: int
    # Tokens that all of its items begin with.
    prompt: int
    loads: SequenceLoads
    tokens: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.tokens = int(self.lengths.sum(dtype=numpy.int64))


class Pool(Generic[Item]):
    """What waits to be trained, between generation that adds answers as they are finished and a trainer
    that takes a planned batch each step. What is not taken waits on, older by one step: none is lost, and none
    older than max_age is trained. At each step who waits is passed by at most max_overtaking that came later;
    none waits for ever where max_age is set, or max_overtaking is below the number that is taken.

        pool = batchplan.Pool()

        # In the threads of the generation, a group of answers to one prompt; `version` counts the
        # optimizer's steps before the weights that made them:
        pool.add(answers, [len(one.tokens) for one in answers], step=version)

        # In the trainer:
        which = batchplan.Selection(groups=64, max_age=4, max_overtaking=16)
        batch = pool.take(which, timeout=600, dp=8, max_tokens=16384)
        for microbatch in batch.plan.rank(rank):
            train(batch.of(microbatch))

    Its step is the number of batches that were taken, from the one that it begins with. Ages are counted by
    it: while a batch is trained, the weights are those of pool.step - 1. Any number of threads may add and
    take at the same time. It is pickled, with what waits, as part of a checkpoint: after the optimizer's
    step, since a batch that was taken is not in it. Pools that got the same answers in the same order give
    the same batches: one process has it and sends the others their part, or all of them have the same.
    """

    def __init__(self, step: int = 0) -> None:
        """
        Args:
            step: the optimizer's steps so far, of a job that goes on.

        Raises:
            InvalidRequest: it is below 0.
        """
        self._groups: list[_Group[Item]] = []
        self._step = whole("step", step)
        if self._step < 0:
            raise InvalidRequest(f"step is {step}; must be at least 0")
        self._make_locks()

    def _make_locks(self) -> None:
        # Of what waits, for what adds; and of who plans a batch of it.
        self._changed = threading.Condition()
        self._changes = 0
        self._taking = threading.Lock()

    @property
    def step(self) -> int:
        """Batches that were taken, from the first step on."""
        return self._step

    def __len__(self) -> int:
        """Sequences that wait."""
        with self._changed:
            return sum(len(group.items) for group in self._groups)

    def __iter__(self) -> Iterator[Item]:
        """What waits, by position."""
        with self._changed:
            items = [item for group in self._groups for item in group.items]
        return iter(items)

    def add(
        self,
        items: Sequence[Item],
        lengths: ArrayLike | Iterable[float],
        *,
        step: int | None = None,
        prompt_length: int = 0,
        loads: Mapping[str, ArrayLike] | None = None,
        load_items: Mapping[str, Sequence[ArrayLike]] | None = None,
        kinds: ArrayLike | None = None,
    ) -> None:
        """Adds sequences that are trained together, such as the answers to one prompt, behind those that wait.

        Args:
            items: at least one; what take gives back.
            lengths: tokens of each, at least 1.
            step: the optimizer's steps before the weights that made them, of several weights the oldest;
                None: as many as batches were taken, which is one too many while the last one is trained.
            prompt_length: tokens that all of them begin with, so that a row computes these once
                (MicroBatch.shared_tokens); 0: none.
            loads, load_items, kinds: what each brings beside tokens, as the loads, items and kinds of
                PlanOptions: of all that waits the same names. A plan numbers items in the order of what waits.

        Raises:
            InvalidRequest: there are none, not as many lengths, loads or kinds, one of 0 or below the prompt's,
                other loads than those of what waits, or a step that the pool has not come to.
        """
        kept = list(items)
        tokens = uint32_of("lengths", lengths).copy()
        if len(tokens) != len(kept):
            raise InvalidRequest(f"lengths has {len(tokens)} entries; there are {len(kept)} items")
        if not kept:
            raise InvalidRequest("items is empty; must have at least one")
        if not tokens.all():
            raise InvalidRequest(f"lengths[{int((tokens == 0).argmax())}] is 0; must be at least 1")
        prompt = whole("prompt_length", prompt_length)
        if not 0 <= prompt <= tokens.min():
            raise InvalidRequest(f"prompt_length is {prompt}; must be 0 to {tokens.min()}, the least of lengths")
        made = None if step is None else whole("step", step)
        own = SequenceLoads.of_options(len(kept), loads=loads, items=load_items, kinds=kinds)
        # What stands in the pool is not changed with the caller's arrays.
        own = own.of(numpy.arange(len(kept)))
        with self._changed:
            if self._groups and self._groups[0].loads.names != own.names:
                names, others = (one.names or "none" for one in (own, self._groups[0].loads))
                raise InvalidRequest(f"loads has {names}; what waits has {others}, and all must have the same")
            if made is not None and not 0 <= made <= self._step:
                raise InvalidRequest(f"step is {made}; must be 0 to {self._step}, the pool's own")
            self._groups.append(_Group(kept, tokens, self._step if made is None else made, prompt, own))
            self._note_change()

    @takes_options(without=_ITS_OWN)
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
            timeout: seconds to wait until there is as much that is not too old, of sequences of any length;
                with max_tokens, after which what there is is taken; with sequences, also until whole groups
                add up to them, which only later ones that may overtake can mend. Planning comes on top, and
                that of others who take at the same time.
            plan: what makes the plan: the plan of a Client, with its job_id and step. It must not take from
                this pool.
            options: those of batchplan.plan, but that the pool has the lengths, groups, ages, prompts, loads and
                kinds.

        Raises:
            InvalidRequest: there is not as much, even then, or no plan can be made; positions that it names
                are those of iter(pool). What can never be planned, discard takes out.
            Error: of `plan`. What waits stays as it was.
        """
        if not isinstance(which, Selection):
            raise InvalidRequest(f"selection is {which!r}; must be a batchplan.Selection")
        for name, reason in _ITS_OWN.items():
            if name in options:
                raise InvalidRequest(f"{name} is set; {reason}")
        # Before anything is waited for. What a client's plan takes beside them is its own.
        own: Any = options
        if plan is not plan_here:
            own = {name: value for name, value in options.items() if name in PlanOptions.__annotations__}
        Request((1,), selection=which, **own)
        end = time.monotonic() + seconds("timeout", timeout)
        tried = -1
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._changes != tried and self._holds(which), end - time.monotonic()
                )
            with self._taking:
                with self._changed:
                    # Another one may have taken it meanwhile.
                    if not self._holds(which) and time.monotonic() < end:
                        continue
                    groups, step, tried = list(self._groups), self._step, self._changes
                try:
                    return self._planned(groups, step, which, plan, options)
                except InvalidRequest as error:
                    if time.monotonic() >= end or not _is_mended_by_more(which, error):
                        raise

    def _note_change(self) -> None:
        self._changes += 1
        self._changed.notify_all()

    def _planned(
        self,
        groups: list[_Group[Item]],
        step: int,
        which: Selection,
        plan: Callable[..., Plan],
        options: PlanOptions,
    ) -> PoolBatch[Item]:
        """A batch of these groups, which are the first of those that wait."""
        sizes = [len(group.items) for group in groups]
        ages = [min(step - group.step, _OLDEST) for group in groups]
        lengths = [group.lengths for group in groups]
        prompts = [group.prompt for group in groups]
        if any(prompts):
            options = {**options, "prompt_lengths": numpy.repeat(numpy.asarray(prompts, numpy.uint32), sizes)}
        loads = SequenceLoads.joined([group.loads for group in groups]).options() if groups else {}
        made = plan(
            numpy.concatenate(lengths) if lengths else (),
            group_ids=numpy.repeat(numpy.arange(len(groups), dtype=numpy.uint32), sizes),
            ages=numpy.repeat(numpy.asarray(ages, numpy.uint32), sizes),
            selection=which,
            **{**options, **loads},
        )
        _check_whole(made, sizes)
        waiting = _waiting(groups, made)
        batch = PoolBatch(made, [item for group in groups for item in group.items], step)
        with self._changed:
            # Others have added behind these meanwhile.
            self._groups[: len(groups)] = waiting
            self._step += 1
            self._note_change()
        return batch

    def discard(self, where: Callable[[Item], bool]) -> list[Item]:
        """Takes out what will not be trained: answers that no micro-batch holds, or that are no longer wanted.

        Args:
            where: of which items; it must not use the pool.

        Returns:
            those items.
        """
        discarded: list[Item] = []
        with self._taking, self._changed:
            left: list[_Group[Item]] = []
            for group in self._groups:
                stays = numpy.array([not where(item) for item in group.items])
                discarded += [item for item, kept in zip(group.items, stays) if not kept]
                items = [item for item, kept in zip(group.items, stays) if kept]
                if items:
                    loads = group.loads.of(stays)
                    left.append(_Group(items, group.lengths[stays], group.step, group.prompt, loads))
            self._groups = left
            self._note_change()
        return discarded

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
        return sum(group.tokens for group in young) >= selection.max_tokens

    def __getstate__(self) -> dict[str, Any]:
        with self._changed:
            return {"groups": list(self._groups), "step": self._step}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._groups, self._step = state["groups"], state["step"]
        self._make_locks()


def _is_mended_by_more(which: Selection, error: InvalidRequest) -> bool:
    """Whether whole groups do not add up to the sequences that are taken. First in, first out, they never will."""
    return which.max_overtaking > 0 and error.field == "selection.sequences"


def _check_whole(plan: Plan, sizes: Sequence[int]) -> None:
    """That a plan says of each sequence of groups of these sizes whether it is trained, waits, or is left out,
    and puts off whole groups.

    Raises:
        InvalidRequest: it does not.
    """
    if not isinstance(plan, Plan):
        raise InvalidRequest(f"plan gives {plan!r}; must be a batchplan.Plan of what waits")
    left_out = [one.index for one in plan.excluded if one.reason in _LEFT_OUT]
    named = numpy.concatenate(
        [plan.passes[0].sequence_index, plan.deferred, numpy.asarray(left_out, numpy.uint32)]
    )
    waiting = sum(sizes)
    if not numpy.array_equal(numpy.sort(named), numpy.arange(waiting)):
        raise InvalidRequest(
            f"plan gives one of {len(named)} sequences; must be of each of the {waiting} that wait, once"
        )
    group_of = numpy.repeat(numpy.arange(len(sizes)), sizes)
    puts_off = numpy.bincount(group_of[plan.deferred], minlength=len(sizes))
    torn = numpy.flatnonzero((puts_off > 0) & (puts_off < numpy.asarray(sizes)))
    if len(torn):
        raise InvalidRequest(f"plan puts off a part of group {torn[0]}; must be all of it or none")


def _waiting(groups: list[_Group[Item]], plan: Plan) -> list[_Group[Item]]:
    """What the plan puts off; groups are whole."""
    ends = numpy.cumsum([len(group.items) for group in groups])
    waits = numpy.isin(ends - 1, plan.deferred)
    return [group for group, stays in zip(groups, waits.tolist()) if stays]
