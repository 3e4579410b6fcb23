"""For MindSpeed-RL: the functions of mindspeed_rl.utils.seqlen_balancing.

    - from mindspeed_rl.utils.seqlen_balancing import rearrange_micro_batches
    + from batchplan.integrations.mindspeed_rl import by_all_reduce, rearrange_micro_batches
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from batchplan.integrations._partitions import Agree, balanced_partitions, by_all_reduce, divide

__all__ = ["by_all_reduce", "get_seqlen_balanced_partitions", "rearrange_micro_batches"]


def get_seqlen_balanced_partitions(
    seqlen_list: ArrayLike, k_partitions: int, equal_size: bool
) -> list[list[int]]:
    """Divides sequences among data-parallel ranks, alike in the sum of what is given of each.

    Args:
        seqlen_list: of each sequence its tokens, or what it costs. None is below 0.
        k_partitions: how many ranks.
        equal_size: all have the same number of sequences, which k_partitions then divides.

    Returns:
        k_partitions parts of positions in seqlen_list, ascending in each.

    Raises:
        ValueError: there are fewer sequences than ranks, or equal parts can't be had.
    """
    return balanced_partitions(seqlen_list, k_partitions, equal_size)


def rearrange_micro_batches(
    seqlen_list: ArrayLike,
    max_token_len: int,
    dynamic_max_batch_size: int | None = None,
    *,
    agree: Agree | None = None,
) -> list[list[int]]:
    """Divides one rank's batch, within the budget also after the ranks have agreed on a number.

    Args:
        seqlen_list: tokens of each of this rank's sequences.
        max_token_len: tokens of a micro-batch, at most.
        dynamic_max_batch_size: sequences of a micro-batch, at most.
        agree: in place of dp_group: by_all_reduce(dp_group, "npu"), so that all ranks have as many
            micro-batches. Called once.

    Returns:
        micro-batches of positions in seqlen_list.

    Raises:
        ValueError: a sequence is longer than max_token_len, or there are fewer than micro-batches.
    """
    return divide(
        seqlen_list,
        max_token_len,
        {"preset": "mindspeed_rl"},
        at_least=None,
        multiple=None,
        agree=agree,
        max_sequences=dynamic_max_batch_size,
    )
