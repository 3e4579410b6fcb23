"""What the functions that divide one rank's batch have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

import batchplan
from batchplan._checks import whole
from batchplan.integrations._agreement import Agree, on_all_ranks

# Of all sequences; what rounding adds leaves it below 2^32.
_MOST_UNITS = 2.0**31


def divide(
    lengths: Any,
    budget: int,
    options: batchplan.PlanOptions,
    *,
    at_least: int | None,
    multiple: int | None,
    agree: Agree | None,
    length_multiple: int | None = None,
    max_sequences: int | None = None,
    balance_on: str | None = None,
    order: str | None = None,
    group_size: int = 1,
    limits: Mapping[str, float] | None = None,
) -> list[list[int]]:
    """One rank's micro-batches, as many as on the one of `agree` with the most; where a rank can't, all
    raise. It is called until none needs more, at least twice. Runs of group_size stay in one."""

    def plan(least: int | None) -> list[list[int]]:
        only = batchplan.Pass(
            budget,
            length_multiple=length_multiple,
            min_microbatches=least,
            microbatch_count_multiple=multiple,
            max_sequences=max_sequences,
            balance_on=balance_on,  # type: ignore[arg-type]
            order=order,  # type: ignore[arg-type]
            limits=limits,
        )
        given = numpy.asarray(lengths)
        request: batchplan.PlanOptions = {**options, "passes": [only]}
        if group_size > 1:
            request["group_ids"] = numpy.arange(len(given)) // group_size
            request["groups"] = "same_microbatch"
        return [one.indices.tolist() for one in batchplan.plan(given, **request).rank(0)]

    if agree is None:
        return plan(at_least)
    own, most = on_all_ranks(agree, lambda: plan(at_least))
    least: int | None = None
    while most != least:
        # Planned again, every rank has so many at least, and some maybe more.
        least = most
        own, most = on_all_ranks(agree, lambda: own if len(own) == least else plan(least))
    return own


def balanced_partitions(
    workloads: Any, count: int, equal_size: bool, sharding: str | None = None
) -> list[list[int]]:
    """`count` parts that are alike in the sum of what is given, each ascending; by another rule than the
    balanced one where `sharding` names it."""
    if whole("k_partitions", count) < 1:
        raise batchplan.InvalidRequest(f"k_partitions is {count}; must be at least 1")
    units = _in_units(numpy.asarray(workloads))
    if len(units) < count:
        raise batchplan.InvalidRequest(
            f"k_partitions is {count}; there are {len(units)} sequences, one a part at least"
        )
    plan = batchplan.plan(
        units,
        dp=count,
        cost=batchplan.CostModel(1.0),
        synchronization="accumulated",
        passes=[
            batchplan.Pass(
                max(int(units.sum(dtype=numpy.int64)), 1),
                equal_sequence_counts=bool(equal_size) or None,
                sharding=sharding,  # type: ignore[arg-type]
            )
        ],
    )
    return [
        sorted(index for one in plan.rank(rank) for index in one.indices.tolist())
        for rank in range(count)
    ]


def _in_units(workloads: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers from 1 with a sum that lengths may have: the same ones where they are that, else to
    nine digits."""
    if workloads.ndim != 1 or workloads.dtype.kind not in "iuf":
        raise batchplan.InvalidRequest(
            f"seqlen_list has {workloads.ndim} dimensions of {workloads.dtype}; must be one, of numbers"
        )
    wrong = ~(numpy.isfinite(workloads) & (workloads >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        raise batchplan.InvalidRequest(
            f"seqlen_list[{place}] is {workloads[place]}; must be a number of at least 0"
        )
    total = float(workloads.sum(dtype=numpy.float64))
    if total > _MOST_UNITS or (workloads.dtype.kind == "f" and total > 0):
        workloads = numpy.rint(workloads * (_MOST_UNITS / total))
    return numpy.maximum(workloads.astype(numpy.int64), 1)
