"""What micro-batches took, and what a step of them took beside what its plan predicted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._checks import members, number, whole

Float64s = NDArray[numpy.float64]
Int64s = NDArray[numpy.int64]


@dataclasses.dataclass(frozen=True)
class MicroBatchTiming:
    """What one micro-batch took. MicroBatch.timing() fills all but the time."""

    # Sum of its aligned lengths, and of their squares, of whole sequences; where s of the L tokens of a
    # sequence stand in the row already, the sums of L - s and L**2 - s**2. Both 0 of an empty
    # micro-batch, which counts for what the step took, not for the fit.
    tokens: int
    tokens_squared: int
    # Forward and backward, without waiting for other ranks; with a pipeline those of one stage.
    milliseconds: float
    # Peak device memory, the allocator's counter reset before it; 0: not measured.
    peak_bytes: int = 0
    # How many sequences it has; 0: not said. Where all timings say it, what a sequence costs is fitted.
    sequences: int = 0
    _: dataclasses.KW_ONLY
    # Where it ran, as in a plan; None: not known. Of a step with one mini-batch that may be None too.
    rank: int | None = None
    slot: int | None = None
    mini_batch: int | None = None
    # The ranks that shared its tokens, and the part of the model that milliseconds are of: 1 / pp of one
    # of pp equal stages. 0: those of the plan that report_step is given, where all groups and all stages of
    # it are alike, else 1.
    context_parallel: int = 0
    model_share: float = 0.0
    # Sums of what it computed of each load of the plan, by name: of all timings of a report the same names. What a
    # unit of each costs is then fitted too.
    loads: Mapping[str, float] = dataclasses.field(default_factory=dict, hash=False)

    def to_dict(self, place: int = 0) -> dict[str, Any]:
        """The timing as the wire contract has it; errors name it by its place among others."""
        own = f"microbatches[{place}]"
        places = {"rank": self.rank, "slot": self.slot, "mini_batch": self.mini_batch}
        context_parallel = whole(f"{own}.context_parallel", self.context_parallel)
        model_share = number(f"{own}.model_share", self.model_share)
        loads = [number(f"{own}.loads[{at}]", one) for at, one in enumerate(self.loads.values())]
        return {
            "tokens": whole(f"{own}.tokens", self.tokens),
            "tokens_squared": whole(f"{own}.tokens_squared", self.tokens_squared),
            "milliseconds": number(f"{own}.milliseconds", self.milliseconds),
            "peak_bytes": whole(f"{own}.peak_bytes", self.peak_bytes),
            "sequences": whole(f"{own}.sequences", self.sequences),
            **{name: whole(f"{own}.{name}", one) for name, one in places.items() if one is not None},
            # 1 is what missing ones are read as, also by servers that know neither.
            **({} if context_parallel == 1 else {"context_parallel": context_parallel}),
            **({} if model_share == 1 else {"model_share": model_share}),
            **({"loads": loads} if loads else {}),
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """A step as it was measured, beside what its plan predicted."""

    # Of the slowest ranks, as they wait for each other: in lockstep the sum over slots, accumulated the
    # sum over mini-batches.
    step_milliseconds: float
    # None where the plan's costs are not known to be in milliseconds.
    predicted_milliseconds: float | None
    # Of each micro-batch. Shape [slots, ranks], the slots of all mini-batches one after the other.
    milliseconds: Float64s
    # The part of the step in which each rank waited for slower ones, 0 to 1. Shape [ranks].
    waited: Float64s
    # The first of those that took longest. Shape [slots].
    slowest_ranks: Int64s

    @property
    def waited_share(self) -> float:
        """The share of the step in which ranks waited for slower ones, averaged over ranks."""
        return float(self.waited.mean())

    @property
    def error(self) -> float | None:
        """Predicted over measured step time, less 1: at -0.1 the step took longer than predicted. None
        without a prediction, or if the measured time is 0."""
        if self.predicted_milliseconds is None or self.step_milliseconds == 0:
            return None
        return self.predicted_milliseconds / self.step_milliseconds - 1

    def __repr__(self) -> str:
        predicted = ""
        if self.error is not None:
            predicted = f", predicted {self.predicted_milliseconds:.1f} ms ({self.error:+.1%})"
        return (
            f"<Comparison: {self.step_milliseconds:.1f} ms{predicted}, "
            f"ranks waited {self.waited_share:.1%}>"
        )


def compare(
    timings: Iterable[MicroBatchTiming],
    *,
    slots: list[int],
    ranks: int,
    filled: NDArray[numpy.bool_],
    groups: Int64s | None = None,
    accumulated: bool,
    predicted_milliseconds: float | None,
) -> Comparison:
    """The measured times of a step whose micro-batches were all timed.

    Args:
        timings: in any order. A micro-batch without sequences may be missing; it counts as 0 ms.
        slots: micro-batches a rank in each mini-batch.
        filled: whether each micro-batch has sequences, by mini-batch, rank and slot.
        groups: a number for each micro-batch in that order, which is equal for ranks that run one
            together; None: each rank runs its own.

    Raises:
        ValueError: a micro-batch is missing, given twice or not in the plan, or its time is no time.
    """
    order = _Order(slots, ranks)
    given = [-1] * len(filled)
    taken = numpy.zeros(len(filled))
    for number_of, timing in enumerate(members("timings", timings, MicroBatchTiming)):
        place = order.place(number_of, timing)
        if given[place] >= 0:
            raise ValueError(
                f"timings[{number_of}] is of {order.describe(place)}, as timings[{given[place]}] is"
            )
        given[place] = number_of
        taken[place] = milliseconds(f"timings[{number_of}].milliseconds", timing.milliseconds)
    missing = [place for place, one in enumerate(given) if one < 0 and filled[place]]
    if missing:
        others = f" and of {len(missing) - 1} others" if len(missing) > 1 else ""
        raise ValueError(f"timings has none of {order.describe(missing[0])}{others}")
    by_mini_batch = order.divide(taken)
    if not accumulated:
        step = float(sum(one.max(axis=1).sum() for one in by_mini_batch))
    elif groups is None:
        step = float(sum(one.sum(axis=0).max() for one in by_mini_batch))
    else:
        step = sum(map(_end_of_groups, by_mini_batch, order.divide(groups)))
    by_slot = numpy.concatenate([numpy.zeros((0, ranks)), *by_mini_batch])
    busy = by_slot.sum(axis=0)
    return Comparison(
        step_milliseconds=step,
        predicted_milliseconds=predicted_milliseconds,
        milliseconds=by_slot,
        # Rounding could make it slightly negative.
        waited=numpy.maximum(0, 1 - busy / step) if step > 0 else numpy.zeros(ranks),
        slowest_ranks=by_slot.argmax(axis=1).astype(numpy.int64),
    )


def _end_of_groups(taken: Float64s, groups: Int64s) -> float:
    """When the last rank is done. A group begins when all its ranks are free, and its ranks end together
    with the slowest. Both arrays have the shape [slots, ranks]."""
    free = numpy.zeros(taken.shape[1])
    for of_slot, numbers in zip(taken, groups):
        _, group = numpy.unique(numbers, return_inverse=True)
        begins, lasts = numpy.zeros(len(free)), numpy.zeros(len(free))
        numpy.maximum.at(begins, group, free)
        numpy.maximum.at(lasts, group, of_slot)
        free = (begins + lasts)[group]
    return float(free.max(initial=0))


class _Order:
    """The places of micro-batches in a plan: by mini-batch, rank and slot."""

    def __init__(self, slots: list[int], ranks: int) -> None:
        self._slots = slots
        self._ranks = ranks
        self._begins = [0]
        for one in slots:
            self._begins.append(self._begins[-1] + one * ranks)

    def place(self, number_of: int, timing: MicroBatchTiming) -> int:
        """The place of the timing's micro-batch in the plan."""

        def index(name: str, value: Any, limit: int, of: str) -> int:
            own = f"timings[{number_of}].{name}"
            if value is None:
                raise ValueError(f"{own} is None; it must be known where each micro-batch ran")
            found = whole(own, value)
            if not 0 <= found < limit:
                raise ValueError(f"{own} is {found}; {of} has {limit}")
            return found

        mini_batch = 0 if timing.mini_batch is None else timing.mini_batch
        mini_batch = index("mini_batch", mini_batch, len(self._slots), "the plan")
        rank = index("rank", timing.rank, self._ranks, "the plan")
        slots = self._slots[mini_batch]
        slot = index("slot", timing.slot, slots, f"each rank of mini-batch {mini_batch}")
        return self._begins[mini_batch] + rank * slots + slot

    def describe(self, place: int) -> str:
        mini_batch = max(i for i, begin in enumerate(self._begins[:-1]) if begin <= place)
        rank, slot = divmod(place - self._begins[mini_batch], self._slots[mini_batch])
        return f"mini-batch {mini_batch}, rank {rank}, slot {slot}"

    def divide(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """The values of each mini-batch, by slot and rank."""
        return [
            values[begin : begin + slots * self._ranks].reshape(self._ranks, slots).T
            for begin, slots in zip(self._begins, self._slots)
        ]


def milliseconds(name: str, value: Any) -> float:
    """A measured or predicted time.

    Raises:
        ValueError: it is no time.
    """
    found = number(name, value)
    if not (found >= 0 and math.isfinite(found)):
        raise ValueError(f"{name} is {found}; it must be finite and not negative")
    return found
