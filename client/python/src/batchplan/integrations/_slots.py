"""What the integrations that plan a whole batch for all ranks have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from numpy.typing import ArrayLike

import batchplan


def options_of(
    cost: batchplan.CostModel | None,
    synchronization: str | None,
    effort: str | None,
    *,
    loads: Sequence[str] = (),
) -> batchplan.PlanOptions:
    """Those that are not None, tried, so that what is wrong is told before the first batch.

    Args:
        loads: the names of what batches will bring beside tokens, which the cost may be of.

    Raises:
        InvalidRequest: one is none that there is.
    """
    options: batchplan.PlanOptions = {}
    if cost is not None:
        options["cost"] = cost
    if synchronization is not None:
        options["synchronization"] = synchronization  # type: ignore[typeddict-item]
    if effort is not None:
        options["effort"] = effort  # type: ignore[typeddict-item]
    tried: batchplan.PlanOptions = {**options, "max_tokens": 1, "loads": {name: [0] for name in loads}}
    batchplan.plan([1], **tried)
    return options


def slots_of(plan: batchplan.Plan, ranks: int) -> list[list[list[int]]]:
    """[slots][ranks] micro-batches of positions in the batch."""
    of_ranks = [plan.rank(rank) for rank in range(ranks)]
    return [[one.indices.tolist() for one in slot] for slot in zip(*of_ranks)]


def slots_or_none(lengths: ArrayLike, options: batchplan.PlanOptions) -> list[list[list[int]]] | None:
    """slots_of a plan of these lengths; None where there are too few for micro-batches of which none is empty.

    Raises:
        InvalidRequest: something else is wrong.
    """
    try:
        plan = batchplan.plan(lengths, **options)
    except batchplan.InvalidRequest as error:
        # What is wrong with lengths and options has the name of a field within the pass or beside it.
        if error.field != "passes[0]":
            raise
        return None
    return slots_of(plan, options.get("dp") or 1)


def slots_of_count(
    lengths: ArrayLike, count: int, one: batchplan.Pass, options: batchplan.PlanOptions
) -> list[list[list[int]]] | None:
    """slots_of a plan with `one` as its pass and exactly `count` slots; None where none is found.

    Raises:
        InvalidRequest: something else is wrong.
    """
    # In multiples of the count a plan has no few slots more, but may take twice as many.
    for multiple in (count, 1):
        counted = dataclasses.replace(one, min_microbatches=count, microbatch_count_multiple=multiple)
        slots = slots_or_none(lengths, {**options, "passes": [counted]})
        if slots is None or len(slots) == count:
            return slots
    return None
