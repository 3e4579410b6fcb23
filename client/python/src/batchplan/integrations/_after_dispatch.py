"""One plan for the micro-batches of all ranks, when every rank has its sequences already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

import batchplan
from batchplan._checks import whole
from batchplan.integrations._agreement import Lengths


def own_part(
    own: Lengths,
    everyone: Sequence[Lengths],
    one: batchplan.Pass,
    options: batchplan.PlanOptions,
    loads: Sequence[str] = (),
) -> list[list[int]]:
    """One rank's micro-batches of a plan that every rank makes from the same lengths. Planning lasts as long as
    for all sequences of all ranks.

    Args:
        own: tokens of each of the rank's sequences; with loads, shape [sequences, 1 + loads], then what it has of them.
        everyone: those of all ranks, its own among them. Ranks of equal lengths, as those of one
            tensor-parallel group, have equal micro-batches.
        one: budget, counts and limits of a rank's micro-batches.
        options: of the plan, beside the ranks.
        loads: the names of what sequences bring beside tokens.

    Returns:
        micro-batches of positions in `own`, as many as every rank has.

    Raises:
        ValueError: a sequence is longer than the budget, or above a limit, or a rank has fewer than micro-batches; of
            any rank, the same on all.
    """
    tables = [numbers.reshape(-1, 1 + len(loads)) for numbers in everyone]
    _check([table[:, 0] for table in tables], one)
    for place, name in enumerate(loads, 1):
        _check_load([table[:, place] for table in tables], name, (one.limits or {}).get(name))
    distinct = list({table.tobytes(): table for table in tables}.values())
    counts = [len(table) for table in distinct]
    own_table = own.reshape(-1, 1 + len(loads))
    place = next(place for place, table in enumerate(distinct) if numpy.array_equal(table, own_table))
    request: batchplan.PlanOptions = {
        **options,
        "dp": len(distinct),
        "ranks": numpy.repeat(numpy.arange(len(distinct)), counts),
        "passes": [one],
    }
    lengths, *values = numpy.concatenate(distinct).T
    if loads:
        request["loads"] = dict(zip(loads, values))
    plan = batchplan.plan(lengths, **request)
    first = sum(counts[:place])
    return [(row.indices.astype(numpy.int64) - first).tolist() for row in plan.rank(place)]


def _check(everyone: Sequence[Lengths], one: batchplan.Pass) -> None:
    """Refuses what the plan would refuse, but names sequences by the numbers that ranks know."""
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


def _check_load(everyone: Sequence[Lengths], name: str, limit: float | None) -> None:
    for rank, values in enumerate(everyone):
        least, most = int(values.argmin()), int(values.argmax())
        if values[least] < 0:
            raise batchplan.InvalidRequest(
                f"sequence {least} of rank {rank} has {values[least]} {name}; must have at least 0"
            )
        if limit is not None and values[most] > limit:
            raise batchplan.InvalidRequest(
                f"limits has {limit:.15g} {name}; sequence {most} of rank {rank} has {values[most]}"
            )
