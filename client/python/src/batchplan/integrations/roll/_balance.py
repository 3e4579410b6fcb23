"""ROLL's batch_balance: sequences to ranks, and with them the micro-batches of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

import batchplan
from batchplan._checks import whole
from batchplan.integrations._partitions import balanced_partitions
from batchplan.integrations.roll import _travel
from batchplan.integrations.roll._batch import lengths_of
from batchplan.integrations.roll._packing import Packing


def batch_balance(
    batch: Any,
    dp_size: int,
    minibatch_size: int,
    logging_prefix: str = "global_seqlen",
    keep_minibatch: bool = False,
    *,
    packings: Sequence[Packing] = (),
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """roll.utils.functionals.batch_balance. With `packings` it plans ranks, mini-batches and micro-batches
    at once, and the plan travels with the batch to the workers.

    Args:
        batch: a DataProto with "attention_mask", put into the order of the ranks' parts. Rows without a
            token count as one token, with a warning.
        dp_size: data-parallel ranks; divides minibatch_size.
        minibatch_size: sequences of a gradient update over all ranks; divides the batch.
        logging_prefix: what the metrics' names begin with.
        keep_minibatch: mini-batches are runs of the batch as it is, in place of random ones.
        packings: how workers pack the batch, in each way that they do. Those for forward passes matter
            where the batch is one mini-batch. Without any, ranks alone are balanced, by
            sequences of equal number.
        cost: what balance is measured by; that of a model of 7B parameters unless given.
        synchronization: "lockstep", the default, or "accumulated".
        effort: how hard the planner tries: "fast", "default" or "thorough".
        seed: of random mini-batches, with the "global_step" of meta_info.

    Returns:
        tokens of the ranks before and after, by ROLL's names.

    Raises:
        ValueError: the sizes do not divide each other, or no plan can be made: a sequence is longer than
            a row after alignment, or they are too few.
    """
    lengths, _ = lengths_of(batch)
    _check_sizes(len(lengths), dp_size, minibatch_size)
    one_mini_batch = minibatch_size == len(lengths)
    # Those of the training first: the first pass decides who has a sequence.
    uses = sorted(
        {one: None for one in packings if one.is_train or one_mini_batch},
        key=lambda one: not one.is_train,
    )
    plans: list[tuple[tuple[Any, ...], batchplan.PassPlan]] = []
    if uses:
        options: batchplan.PlanOptions = {
            "dp": dp_size,
            "mini_batch_size": 0 if one_mini_batch else minibatch_size,
            "shuffle": not (keep_minibatch or one_mini_batch),
            "seed": _seed(seed, batch),
            "cost": cost or batchplan.DEFAULT_COST,
            # The first decides who has a sequence, as many everywhere.
            "passes": [
                one.to_pass(
                    str(place),
                    equal_sequence_counts=None if place else True,
                    ignore_mini_batches=not one.is_train,
                )
                for place, one in enumerate(uses)
            ],
        }
        if synchronization is not None:
            options["synchronization"] = synchronization  # type: ignore[typeddict-item]
        if effort is not None:
            options["effort"] = effort  # type: ignore[typeddict-item]
        plan = batchplan.plan(lengths, **options)
        plans = [(one.key(), of_pass) for one, of_pass in zip(uses, plan.passes)]
        order = _travel.rows_of_ranks(plan.passes[0], dp_size)
    else:
        order = _order_of_ranks(
            lengths, dp_size, minibatch_size if keep_minibatch else len(lengths), cost or batchplan.DEFAULT_COST
        )
    import torch

    batch.reorder(torch.from_numpy(order))
    _travel.write(batch, plans, order, dp_size)
    return _metrics(lengths, order, dp_size, logging_prefix)


def _check_sizes(sequences: int, dp_size: int, minibatch_size: int) -> None:
    if whole("dp_size", dp_size) < 1:
        raise batchplan.InvalidRequest(f"dp_size is {dp_size}; must be at least 1")
    if whole("minibatch_size", minibatch_size) < 1 or sequences % minibatch_size:
        raise batchplan.InvalidRequest(
            f"minibatch_size is {minibatch_size}; must divide the batch, of {sequences} sequences"
        )
    if minibatch_size % dp_size:
        raise batchplan.InvalidRequest(
            f"dp_size is {dp_size}; must divide minibatch_size, {minibatch_size}"
        )


def _seed(seed: int, batch: Any) -> int:
    """Another one at every step, the same at a repeated one."""
    step = batch.meta_info.get("global_step", 0)
    mixed = numpy.random.SeedSequence([whole("seed", seed), whole("global_step", step)])
    return int(mixed.generate_state(1, numpy.uint64)[0])


def _order_of_ranks(
    lengths: NDArray[numpy.int64], dp_size: int, minibatch_size: int, cost: batchplan.CostModel
) -> NDArray[numpy.int64]:
    """Ranks alike in cost, and the cheap sequences at both ends of each: what pipelines begin and end
    with."""
    costs = cost.of_sequences(lengths)
    parts: list[list[int]] = [[] for _ in range(dp_size)]
    for begin in range(0, len(lengths), minibatch_size):
        of_ranks = balanced_partitions(costs[begin : begin + minibatch_size], dp_size, True)
        for part, more in zip(parts, of_ranks):
            part += (begin + index for index in more)
    ascending = (sorted(part, key=lambda index: (costs[index], index)) for part in parts)
    return numpy.array([index for part in ascending for index in part[::2] + part[1::2][::-1]], numpy.int64)


def _metrics(
    lengths: NDArray[numpy.int64], order: NDArray[numpy.int64], dp_size: int, prefix: str
) -> dict[str, Any]:
    before = lengths.reshape(dp_size, -1).sum(1)
    after = lengths[order].reshape(dp_size, -1).sum(1)
    return {
        f"{prefix}/min": int(before.min()),
        f"{prefix}/max": int(before.max()),
        f"{prefix}/minmax_diff": int(before.max() - before.min()),
        f"{prefix}/balanced_min": int(after.min()),
        f"{prefix}/balanced_max": int(after.max()),
        f"{prefix}/mean": int(before.sum()) / dp_size,
    }
