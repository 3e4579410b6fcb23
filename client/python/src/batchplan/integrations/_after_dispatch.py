"""Micro-batches of all ranks in one plan, where each rank has its sequences already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

import batchplan
from batchplan._checks import whole
from batchplan.integrations._agreement import Lengths


def own_part(
    own: Lengths, everyone: Sequence[Lengths], one: batchplan.Pass, options: batchplan.PlanOptions
) -> list[list[int]]:
    """One rank's micro-batches of the plan that every rank makes of the same lengths. It takes as long as
    a plan of all their sequences.

    Args:
        own: tokens of each of the rank's sequences.
        everyone: those of all ranks, its own among them. Ranks of equal lengths, as those of one
            tensor-parallel group, have equal micro-batches.
        one: budget and counts of a rank's micro-batches.
        options: of the plan, beside the ranks.

    Returns:
        micro-batches of positions in `own`, as many as every rank has.

    Raises:
        ValueError: a sequence is longer than the budget, or a rank has fewer than micro-batches; of any
            rank, the same on all.
    """
    _check(everyone, one)
    distinct = list({lengths.tobytes(): lengths for lengths in everyone}.values())
    counts = [len(lengths) for lengths in distinct]
    place = next(place for place, lengths in enumerate(distinct) if numpy.array_equal(lengths, own))
    request: batchplan.PlanOptions = {
        **options,
        "dp": len(distinct),
        "ranks": numpy.repeat(numpy.arange(len(distinct)), counts),
        "passes": [one],
    }
    plan = batchplan.plan(numpy.concatenate(distinct), **request)
    first = sum(counts[:place])
    return [(row.indices.astype(numpy.int64) - first).tolist() for row in plan.rank(place)]


def _check(everyone: Sequence[Lengths], one: batchplan.Pass) -> None:
    """Refuses what the plan would by its own numbers of sequences, by those that ranks know."""
    budget, multiple = whole("max_tokens_per_microbatch", one.max_tokens), one.length_multiple or 1
    for rank, lengths in enumerate(everyone):
        if len(lengths) == 0:
            raise batchplan.InvalidRequest(
                f"rank {rank} of the process group has no sequences; must have at least one"
            )
        shortest, longest = int(lengths.argmin()), int(lengths.argmax())
        if lengths[shortest] < 1:
            raise batchplan.InvalidRequest(
                f"sequence {shortest} of rank {rank} has {lengths[shortest]} tokens; must have at least 1"
            )
        if lengths[longest] > budget // multiple * multiple:
            raise batchplan.InvalidRequest(
                f"max_tokens_per_microbatch is {budget}, of sequences padded to multiples of {multiple}; "
                f"sequence {longest} of rank {rank} has {lengths[longest]} tokens"
            )
