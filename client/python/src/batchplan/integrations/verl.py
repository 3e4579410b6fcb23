"""For verl: the functions of verl.utils.seqlen_balancing that divide a batch.

    - from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions
    + from batchplan.integrations.verl import get_seqlen_balanced_partitions
"""

from __future__ import annotations

from collections.abc import Callable

import numpy
from numpy.typing import ArrayLike

import batchplan


def get_seqlen_balanced_partitions(
    seqlen_list: ArrayLike, k_partitions: int, equal_size: bool
) -> list[list[int]]:
    """Divides sequences into parts that are alike in what they cost.

    Args:
        seqlen_list: tokens of each sequence.
        k_partitions: how many parts.
        equal_size: all parts have the same number of sequences, which k_partitions then divides.

    Returns:
        k_partitions parts of positions in seqlen_list, ascending in each.

    Raises:
        ValueError: there are fewer sequences than parts, or equal parts can't be had.
    """
    tokens = int(numpy.sum(seqlen_list, dtype=numpy.int64))
    plan = batchplan.plan(
        seqlen_list,
        dp=k_partitions,
        synchronization="accumulated",
        passes=[
            batchplan.Pass(min(max(tokens, 1), 2**32 - 1), equal_sequence_counts=equal_size or None)
        ],
    )
    return [
        sorted(index for one in plan.rank(rank) for index in one.indices.tolist())
        for rank in range(k_partitions)
    ]


def get_micro_batches(
    seqlen_list: ArrayLike,
    max_token_len: int,
    *,
    min_num_micro_batch: int | None = None,
    num_batches_divided_by: int | None = None,
    force_group_size: int = 1,
    agree: Callable[[int], int] | None = None,
) -> list[list[int]]:
    """What rearrange_micro_batches divides one rank's batch into, within the budget always.

    Args:
        seqlen_list: tokens of each of this rank's sequences.
        max_token_len: tokens of a micro-batch, at most.
        min_num_micro_batch: micro-batches, at least.
        num_batches_divided_by: their number is a multiple of it.
        force_group_size: so many sequences in a row stay in one micro-batch.
        agree: makes the largest of all ranks' numbers of this rank's, such as an all-reduce with MAX,
            so that all have as many micro-batches. Called once. A plan for all ranks at once
            (batchplan.plan with dp) needs none, and is better balanced.

    Returns:
        micro-batches of positions in seqlen_list, small ones at both ends.

    Raises:
        ValueError: a sequence, or a group, is longer than max_token_len, or there are too few.
    """

    def divide(at_least: int | None) -> list[list[int]]:
        options: batchplan.PlanOptions = {
            "preset": "verl",
            "passes": [
                batchplan.Pass(
                    max_token_len,
                    min_microbatches=at_least,
                    microbatch_count_multiple=num_batches_divided_by,
                )
            ],
        }
        if force_group_size > 1:
            options["group_ids"] = numpy.arange(len(lengths)) // force_group_size
            options["groups"] = "same_microbatch"
        return [one.indices.tolist() for one in batchplan.plan(lengths, **options).rank(0)]

    lengths = numpy.asarray(seqlen_list)
    own = divide(min_num_micro_batch)
    if agree is None:
        return own
    number = agree(len(own))
    return own if number == len(own) else divide(number)
