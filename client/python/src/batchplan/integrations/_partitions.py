"""What the functions that divide one rank's batch have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import batchplan

Agree = Callable[[int], int]


def by_all_reduce(group: Any = None, device: Any = None) -> Agree:
    """Agrees on the largest number of the ranks of a torch.distributed group.

    Args:
        group: as all_reduce takes it; None: all ranks.
        device: what the backend reduces on, such as "cuda" or "npu"; None: the host.
    """

    def agree(number: int) -> int:
        import torch
        import torch.distributed

        largest = torch.tensor([number], device=device)
        torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX, group=group)
        return int(largest.item())

    return agree


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
) -> list[list[int]]:
    """One rank's micro-batches, as many as `agree` says."""

    def plan(least: int | None) -> list[list[int]]:
        only = batchplan.Pass(
            budget,
            length_multiple=length_multiple,
            min_microbatches=least,
            microbatch_count_multiple=multiple,
            max_sequences=max_sequences,
        )
        options["passes"] = [only]
        return [one.indices.tolist() for one in batchplan.plan(lengths, **options).rank(0)]

    own = plan(at_least)
    if agree is None:
        return own
    number = agree(len(own))
    return own if number == len(own) else plan(number)


def balanced_partitions(lengths: Any, count: int, equal_size: bool) -> list[list[int]]:
    """`count` parts of a batch that are alike in cost, each ascending."""
    if count < 1:
        raise batchplan.InvalidRequest(f"k_partitions is {count}; must be at least 1")
    lengths = numpy.asarray(lengths)
    tokens = int(lengths.sum(dtype=numpy.int64))
    plan = batchplan.plan(
        lengths,
        dp=count,
        synchronization="accumulated",
        passes=[batchplan.Pass(min(max(tokens, 1), 2**32 - 1), equal_sequence_counts=equal_size or None)],
    )
    return [
        sorted(index for one in plan.rank(rank) for index in one.indices.tolist())
        for rank in range(count)
    ]
