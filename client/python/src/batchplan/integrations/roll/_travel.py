"""A plan that travels with the batch: of each row the place at which it runs.

The trainer's process writes one column for each way in which workers pack the batch, and in meta_info
what the column means: the places of each micro-batch, one after the other. Workers take the plan where it is
still whole: where their rows are exactly one rank's part of a mini-batch, each of them once. Where rows were
left out, repeated or exchanged since, they do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

import batchplan

_INFO = "batchplan"


def write(
    batch: Any,
    plans: Sequence[tuple[tuple[Any, ...], batchplan.PassPlan]],
    order: NDArray[numpy.int64],
    dp_size: int,
) -> None:
    """Gives the batch its columns, in place of those that it has.

    Args:
        batch: a DataProto, in that order.
        plans: of each use its key, which workers ask by, and its plan. All give a rank the same rows.
        order: of each row the position in what was planned.
        dp_size: data-parallel ranks.
    """
    import torch

    for old in batch.meta_info.pop(_INFO, ()):
        batch.batch.pop(old["column"], None)
    infos = []
    for number, (key, plan) in enumerate(plans):
        places = numpy.empty(len(order), numpy.int64)
        places[plan.sequence_index] = numpy.arange(len(order))
        column = f"{_INFO}_{number}"
        batch.batch[column] = torch.from_numpy(places[order])
        infos.append(
            {
                "column": column,
                "key": key,
                "ranks": dp_size,
                # Of a rank, in each mini-batch.
                "slots": plan.microbatches_per_rank.tolist(),
                # Where micro-batches begin, and the last one's end.
                "offsets": plan.microbatch_offsets.tolist(),
            }
        )
    if infos:
        batch.meta_info[_INFO] = infos


def rows_of_ranks(plan: batchplan.PassPlan, dp_size: int) -> NDArray[numpy.int64]:
    """Positions in the batch: the ranks' parts, one after the other, each in the order in which it runs
    them."""
    parts = [one.indices for rank in range(dp_size) for one in plan.rank(rank)]
    return numpy.concatenate(parts).astype(numpy.int64)


def rows_that_came_along(mini_batch: Any, key: tuple[Any, ...]) -> list[list[int]] | None:
    """This rank's micro-batches as planned, as positions in the mini-batch; None where no plan for this
    use came along, or its part of it is not whole."""
    info = next((one for one in _infos(mini_batch) if tuple(one["key"]) == key), None)
    return None if info is None else _microbatches(_places(mini_batch, info), info)


def mini_batches_that_came_along(batch: Any, mini_batch_size: int) -> list[slice] | None:
    """Where the planned mini-batches of so many rows stand in a rank's batch; None where there are none,
    or one alone."""
    for info in _infos(batch):
        count = len(info["slots"])
        if count == 1 or count * mini_batch_size != len(batch):
            continue
        places = _places(batch, info)
        bounds = [slice(begin, begin + mini_batch_size) for begin in range(0, len(places), mini_batch_size)]
        if all(_microbatches(places[one], info) is not None for one in bounds):
            return bounds
    return None


def _infos(batch: Any) -> Iterable[dict[str, Any]]:
    for info in batch.meta_info.get(_INFO, ()):
        if info["column"] in batch.batch.keys():
            yield info


def _places(batch: Any, info: dict[str, Any]) -> NDArray[numpy.int64]:
    places: NDArray[numpy.int64] = batch.batch[info["column"]].cpu().numpy()
    return places


def _microbatches(places: NDArray[numpy.int64], info: dict[str, Any]) -> list[list[int]] | None:
    """Of exactly one rank's part of one mini-batch; None of anything else."""
    offsets = numpy.asarray(info["offsets"])
    if len(places) == 0 or not 0 <= places.min() < offsets[-1]:
        return None
    # The first micro-batch of each part, and the last one's end.
    parts = numpy.cumsum([0, *numpy.repeat(info["slots"], info["ranks"])])
    part = int(numpy.searchsorted(offsets[parts], places.min(), "right")) - 1
    bounds = offsets[parts[part] : parts[part + 1] + 1]
    by_place = numpy.argsort(places)
    if not numpy.array_equal(places[by_place], numpy.arange(bounds[0], bounds[-1])):
        return None
    return [sorted(row.tolist()) for row in numpy.split(by_place, bounds[1:-1] - bounds[0])]
