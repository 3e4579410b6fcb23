"""For MindSpeed-RL: the functions of mindspeed_rl.utils.seqlen_balancing.

A line at the beginning of initialize_megatron, in the script that trains, has every worker use them:

      def initialize_megatron(...):
    +     batchplan.integrations.mindspeed_rl.install()
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy
from numpy.typing import ArrayLike

import batchplan
from batchplan._checks import whole
from batchplan.integrations._after_dispatch import own_part
from batchplan.integrations._agreement import Lengths, by_all_reduce, gathering_in
from batchplan.integrations._partitions import balanced_partitions, divide
from batchplan.integrations._replace import replace

__all__ = ["by_all_reduce", "get_seqlen_balanced_partitions", "install", "rearrange_micro_batches"]


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
    dp_group: Any = None,
    *,
    length_multiple: int = 1,
    cost: batchplan.CostModel | None = None,
) -> list[list[int]]:
    """Divides one rank's batch, within the budget, so that the micro-batches that ranks run at the same
    time are alike: ranks tell each other their lengths, and make one plan of them all.

    Args:
        seqlen_list: tokens of each of this rank's sequences.
        max_token_len: tokens of a micro-batch, at most.
        dynamic_max_batch_size: sequences of a micro-batch, at most.
        dp_group: whose ranks have as many micro-batches, where torch.distributed is initialized; None:
            all ranks.
        length_multiple: what the trainer pads each sequence of a packed row to a multiple of.
        cost: what micro-batches are balanced by; that of a model of 7B parameters unless given.

    Returns:
        micro-batches of positions in seqlen_list.

    Raises:
        ValueError: a sequence is longer than max_token_len, there are fewer than micro-batches, or lengths
            are no whole numbers, of any rank; or max_token_len is a list, of a budget for each modality.
    """
    if isinstance(max_token_len, (list, tuple)):
        raise batchplan.InvalidRequest(
            f"max_token_len is {max_token_len}; must be a whole number: a budget for each modality is not "
            "supported"
        )

    def lengths() -> Lengths:
        given = numpy.asarray(seqlen_list)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise batchplan.InvalidRequest(
                f"seqlen_list has {given.ndim} dimensions of {given.dtype}; must be one, of whole numbers"
            )
        return given.astype(numpy.int64)

    options: batchplan.PlanOptions = {} if cost is None else {"cost": cost}
    one = batchplan.Pass(
        whole("max_token_len", max_token_len),
        length_multiple=length_multiple,
        max_sequences=dynamic_max_batch_size,
    )
    gather = gathering_in(dp_group)
    if gather is not None:
        return own_part(*gather(lengths), one, options)
    return divide(
        lengths(),
        one.max_tokens,
        {**options, "preset": "mindspeed_rl"},
        at_least=None,
        multiple=None,
        agree=None,
        length_multiple=one.length_multiple,
        max_sequences=one.max_sequences,
        balance_on="cost",
    )


def install(*, length_multiple: int | None = None, cost: batchplan.CostModel | None = None) -> None:
    """Puts the functions in the place of MindSpeed-RL's, in this process.

    Args:
        length_multiple: what each sequence of a packed row is padded to a multiple of; 2 * tp * cp of the
            process, the most that MindSpeed-RL pads to, unless given.
        cost: what micro-batches are balanced by; that of a model of 7B parameters unless given.

    Raises:
        ImportError: there is no MindSpeed-RL.
    """

    @functools.wraps(rearrange_micro_batches)
    def rearrange(*args: Any, **kwargs: Any) -> list[list[int]]:
        multiple = _padding() if length_multiple is None else length_multiple
        return rearrange_micro_batches(*args, length_multiple=multiple, cost=cost, **kwargs)

    balancing = importlib.import_module("mindspeed_rl.utils.seqlen_balancing")
    replace(balancing, "rearrange_micro_batches", rearrange)
    # The transfer queue has a copy of its own.
    queue = importlib.import_module("mindspeed_rl.utils.transfer_queue.tq_utils")
    for module in (balancing, queue):
        replace(module, "get_seqlen_balanced_partitions", get_seqlen_balanced_partitions)


def _padding() -> int:
    state = importlib.import_module("mindspeed_rl.utils.compute").get_parallel_state()
    tensor, context = state.get_tensor_model_parallel_world_size(), state.get_context_parallel_world_size()
    return 2 * int(tensor) * int(context)
