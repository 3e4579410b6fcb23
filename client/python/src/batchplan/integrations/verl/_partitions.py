"""Lengths divided: among ranks, and on one of them."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

import batchplan
from batchplan.integrations._agreement import Agree
from batchplan.integrations._partitions import balanced_partitions, divide


def get_seqlen_balanced_partitions(
    seqlen_list: ArrayLike, k_partitions: int, equal_size: bool
) -> list[list[int]]:
    """Divides sequences into parts that are alike in the sum of what is given of each.

    Args:
        seqlen_list: of each sequence its tokens, or what it costs, as verl's trainers pass it:
            calculate_workload's 24576 * L + L ** 2. Numbers of any size; none is below 0.
        k_partitions: how many parts.
        equal_size: all parts have the same number of sequences, which k_partitions then divides.

    Returns:
        k_partitions parts of positions in seqlen_list, ascending in each.

    Raises:
        ValueError: there are fewer sequences than parts, or equal parts can't be had.
    """
    return balanced_partitions(seqlen_list, k_partitions, equal_size)


def get_micro_batches(
    seqlen_list: ArrayLike,
    max_token_len: int,
    *,
    min_num_micro_batch: int | None = None,
    num_batches_divided_by: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    force_group_size: int = 1,
    agree: Agree | None = None,
    cost: batchplan.CostModel | None = None,
    loads: Mapping[str, ArrayLike] | None = None,
    limits: Mapping[str, float] | None = None,
) -> list[list[int]]:
    """What rearrange_micro_batches divides one rank's batch into, over lengths.

    Args:
        seqlen_list: tokens of each of this rank's sequences.
        max_token_len: tokens of a micro-batch, at most.
        min_num_micro_batch: micro-batches, at least.
        num_batches_divided_by: their number is a multiple of it.
        use_dynamic_bsz_balance: small ones stand at both ends; else they stand as they are found.
        force_group_size: so many sequences in a row stay in one micro-batch.
        agree: makes the largest of all ranks' numbers of this rank's, so that all have as many
            micro-batches: by_all_reduce(dp_group). Called as often on every rank, twice or more. A plan
            for all ranks at once (batchplan.plan with dp) needs none, and is better balanced.
        cost: what sequences cost; None: verl's 24576 * L + L ** 2.
        loads: what sequences bring beside tokens, by name: one number a sequence.
        limits: by name of a load the most that a micro-batch may have of it.

    Returns:
        micro-batches of positions in seqlen_list.

    Raises:
        ValueError: a sequence, or a group, is longer than max_token_len or above a limit, or there are too few; with
            `agree`, on any rank.
    """
    options: batchplan.PlanOptions = {"preset": "verl"}
    if loads is not None:
        options["loads"] = loads
    if cost is not None:
        options["cost"] = cost
    return divide(
        seqlen_list,
        max_token_len,
        options,
        at_least=min_num_micro_batch,
        multiple=num_batches_divided_by,
        agree=agree,
        order=None if use_dynamic_bsz_balance else "as_assigned",
        group_size=force_group_size,
        limits=limits,
    )
