"""Which sequences of a dataset are too long for any micro-batch, or bring too much."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._local import plan as make_plan
from batchplan._options import Pass, PlanOptions
from batchplan.torch._dataset import Dataset

# By which the planner tells, beside what is limited.
_DECIDING = ("preset", "cp", "tp", "sequence_parallel", "groups")
# Those of a global batch.
_OF_BATCH = ("min_microbatches", "microbatch_count_multiple", "sequence_count_multiple", "kinds_per_slot")


def kept_of(dataset: Dataset, options: PlanOptions, ranks: int) -> NDArray[Any]:
    """Positions of the sequences that overlong="drop" leaves.

    Args:
        options: of a plan, with passes.
    """
    every = numpy.arange(len(dataset.lengths))
    if not len(every):
        return every
    used: Any = {name: value for name, value in options.items() if name in _DECIDING}
    each_alone: Any = dict.fromkeys(_OF_BATCH)
    passes = [dataclasses.replace(one, **each_alone) for one in options["passes"]]
    unlimited = [dataclasses.replace(one, limits=None) for one in passes]
    dropped = _dropped(dataset, every, ("group_ids",), {**used, "passes": unlimited})
    # Of all others, no load can be above a limit.
    above = _above_limits(dataset, passes)
    if above.any():
        # A plan has something in it.
        above[numpy.flatnonzero(~above)[:1]] = True
        used.update(passes=passes, dp=ranks, cost=options.get("cost"), allow_empty_microbatches=True)
        own = _dropped(dataset, numpy.flatnonzero(above), ("group_ids", "loads", "items"), used)
        dropped = numpy.append(dropped, own)
    return numpy.delete(every, dropped)


def _dropped(dataset: Dataset, positions: NDArray[Any], names: tuple[str, ...], options: Any) -> NDArray[Any]:
    """Which of these a plan by these options of theirs leaves out."""
    given = {name: values for name, values in dataset.of(positions).items() if name in names}
    plan = make_plan(dataset.lengths[positions], **options, **given, overlong="drop", effort="fast")
    return positions[[one.index for one in plan.excluded]]


def _above_limits(dataset: Dataset, passes: list[Pass]) -> NDArray[numpy.bool_]:
    """Which sequences have more of a load than a limit, or are of such a group."""
    sums, above = dataset.loads.sums(), numpy.zeros(len(dataset.lengths), bool)
    for one in passes:
        for name, most in (one.limits or {}).items():
            if name in sums:
                above |= sums[name] > most
    if len(dataset.group_ids):
        above = numpy.isin(dataset.group_ids, dataset.group_ids[above])
    return above
