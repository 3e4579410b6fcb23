"""Micro-batches of all ranks in one plan, where each rank has its sequences already."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy

import batchplan
from batchplan.integrations._agreement import Lengths


def own_part(
    own: Lengths, everyone: Sequence[Lengths], one: batchplan.Pass, options: batchplan.PlanOptions
) -> list[list[int]] | None:
    """One rank's micro-batches of the plan that every rank makes of the same lengths. It takes as long as
    a plan of all their sequences.

    Args:
        own: tokens of each of the rank's sequences.
        everyone: those of all ranks, its own among them. Ranks of equal lengths, as those of one
            tensor-parallel group, have equal micro-batches.
        one: budget and counts of a rank's micro-batches.
        options: of the plan, beside the ranks.

    Returns:
        micro-batches of positions in `own`, as many as every rank has; None where ranks have different
        numbers of sequences.

    Raises:
        ValueError: no plan can be made; of all ranks, or of none.
    """
    distinct = list({lengths.tobytes(): lengths for lengths in everyone}.values())
    if len({len(lengths) for lengths in distinct}) != 1:
        return None
    count = len(own)
    place = next(place for place, lengths in enumerate(distinct) if numpy.array_equal(lengths, own))
    request: batchplan.PlanOptions = {
        **options,
        "dp": len(distinct),
        # A group has as many sequences as a rank, so that each rank has one.
        "group_ids": numpy.repeat(numpy.arange(len(distinct)), count),
        "groups": "same_rank",
        "passes": [dataclasses.replace(one, equal_sequence_counts=True)],
    }
    plan = batchplan.plan(numpy.concatenate(distinct), **request)
    for rank in range(len(distinct)):
        rows = [row.indices.astype(numpy.int64) - place * count for row in plan.rank(rank)]
        if 0 <= rows[0][0] < count:
            return [row.tolist() for row in rows]
    raise AssertionError("a plan has every sequence")
