"""For MindSpeed-RL: the functions of mindspeed_rl.utils.seqlen_balancing.

A line at the beginning of initialize_megatron, in the script that trains, has every worker use them:

      def initialize_megatron(...):
    +     batchplan.integrations.mindspeed_rl.install()

Of models with images, actor_max_packing_token_size, update_max_packing_token_size and ref_max_packing_token_size may be
lists of two budgets: the tokens of a micro-batch, and the patches of its images or videos. MindSpeed-RL (22 April 2026)
documents a list for each modality, but its own packer compares it with a number, a TypeError; where it is one number,
its packer sees tokens alone.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import ArrayLike

import batchplan
from batchplan._checks import number, whole
from batchplan.integrations._after_dispatch import own_part
from batchplan.integrations._agreement import Lengths, by_all_reduce, gathering_in
from batchplan.integrations._image_patches import PATCHES, grid_patches
from batchplan.integrations._partitions import balanced_partitions, divide
from batchplan.integrations._replace import replace, stock_of

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
    max_token_len: int | Sequence[float],
    dynamic_max_batch_size: int | None = None,
    dp_group: Any = None,
    *,
    length_multiple: int = 1,
    cost: batchplan.CostModel | None = None,
    loads: Sequence[str] = (PATCHES,),
) -> list[list[int]]:
    """Divides one rank's batch, within the budget, so that the micro-batches that ranks run at the same
    time are alike: ranks tell each other their lengths, and make one plan of them all.

    Args:
        seqlen_list: tokens of each of this rank's sequences; with a list of budgets as many numbers of each, shape
            [sequences, budgets].
        max_token_len: tokens of a micro-batch, at most; or a list, then of each load. As many on all ranks.
        dynamic_max_batch_size: sequences of a micro-batch, at most.
        dp_group: whose ranks have as many micro-batches, where torch.distributed is initialized; None:
            all ranks.
        length_multiple: what the trainer pads each sequence of a packed row to a multiple of.
        cost: what micro-batches are balanced by; that of a model of 7B parameters unless given. With a list of
            budgets it may be of the loads too.
        loads: the names of what the budgets after the first are of.

    Returns:
        micro-batches of positions in seqlen_list.

    Raises:
        ValueError: a sequence is above a budget, there are fewer than micro-batches, or numbers are no whole ones, or
            not as many as budgets, of any rank.
    """
    budgets = list(max_token_len) if isinstance(max_token_len, (list, tuple)) else [max_token_len]
    if len(budgets) not in (1, 1 + len(loads)):
        raise batchplan.InvalidRequest(
            f"max_token_len has {len(budgets)} budgets; must be one of tokens, or then one of each of "
            f"{', '.join(loads)}"
        )
    names = list(loads[: len(budgets) - 1])

    def sequences() -> Lengths:
        given = numpy.asarray(seqlen_list)
        if given.ndim != 1 + bool(names) or (given.size and given.dtype.kind not in "iu"):
            raise batchplan.InvalidRequest(
                f"seqlen_list has {given.ndim} dimensions of {given.dtype}; must be {'two' if names else 'one'}, of "
                "whole numbers"
            )
        if names and given.shape[1] != len(budgets):
            raise batchplan.InvalidRequest(
                f"seqlen_list has {given.shape[1]} numbers a sequence; max_token_len has {len(budgets)} budgets"
            )
        return given.astype(numpy.int64)

    options: batchplan.PlanOptions = {} if cost is None else {"cost": cost}
    one = batchplan.Pass(
        whole("max_token_len", budgets[0]),
        length_multiple=length_multiple,
        max_sequences=dynamic_max_batch_size,
        limits={name: number("max_token_len", limit) for name, limit in zip(names, budgets[1:])} or None,
    )
    gather = gathering_in(dp_group)
    if gather is not None:
        return own_part(*gather(sequences), one, options, names)
    lengths, *values = sequences().reshape(-1, len(budgets)).T
    return divide(
        lengths,
        one.max_tokens,
        {**options, "preset": "mindspeed_rl", "loads": dict(zip(names, values))},
        at_least=None,
        multiple=None,
        agree=None,
        length_multiple=one.length_multiple,
        max_sequences=one.max_sequences,
        balance_on="cost",
        limits=one.limits,
    )


def install(*, length_multiple: int | None = None, cost: batchplan.CostModel | None = None) -> None:
    """Puts the functions in the place of MindSpeed-RL's, in this process.

    Args:
        length_multiple: what each sequence of a packed row is padded to a multiple of; 2 * tp * cp of the
            process, the most that MindSpeed-RL pads to, unless given.
        cost: what micro-batches are balanced by; that of a model of 7B parameters unless given. Of patches it may be
            too, a load of this name, where all budgets are lists.

    Raises:
        ImportError: there is no MindSpeed-RL.
    """

    @functools.wraps(rearrange_micro_batches)
    def rearrange(seqlen_list: Any, max_token_len: Any, *args: Any, **kwargs: Any) -> list[list[int]]:
        if isinstance(max_token_len, _OfBatch) and len(max_token_len) > 1:
            seqlen_list = numpy.stack([numpy.asarray(seqlen_list), max_token_len.patches], axis=1)
        multiple = _padding() if length_multiple is None else length_multiple
        return rearrange_micro_batches(
            seqlen_list, max_token_len, *args, length_multiple=multiple, cost=cost, **kwargs
        )

    balancing = importlib.import_module("mindspeed_rl.utils.seqlen_balancing")
    replace(balancing, "rearrange_micro_batches", rearrange)
    engine = importlib.import_module("mindspeed_rl.models.base.base_training_engine").BaseTrainingEngine
    split = stock_of(engine._split_batches_with_dynamic_bsz)

    @functools.wraps(split)
    def split_batches(batch: Any, max_packing_token: Any, dynamic_max_batch_size: Any) -> Any:
        if isinstance(max_packing_token, (list, tuple)):
            max_packing_token = _OfBatch(max_packing_token, batch)
        return split(batch, max_packing_token, dynamic_max_batch_size)

    split_batches._batchplan_replaces = split  # type: ignore[attr-defined]
    engine._split_batches_with_dynamic_bsz = staticmethod(split_batches)
    # The transfer queue has a copy of its own.
    queue = importlib.import_module("mindspeed_rl.utils.transfer_queue.tq_utils")
    for module in (balancing, queue):
        replace(module, "get_seqlen_balanced_partitions", get_seqlen_balanced_partitions)


class _OfBatch(list[float]):
    """Budgets on their way from the engine, which has the batch, to rearrange_micro_batches, which it gives tokens."""

    def __init__(self, budgets: Sequence[float], batch: Any) -> None:
        super().__init__(budgets)
        count = len(batch["prompt_length"])
        # Of images and of videos; without either a batch has none.
        grids = batch.get("image_grid_thw")
        if grids is not None and len(grids) != count:
            raise batchplan.InvalidRequest(f"image_grid_thw has {len(grids)} entries; prompt_length has {count}")
        found = [0] * count if grids is None else [grid_patches(grid) for grid in grids]
        self.patches = numpy.array(found, numpy.int64)


def _padding() -> int:
    state = importlib.import_module("mindspeed_rl.utils.compute").get_parallel_state()
    tensor, context = state.get_tensor_model_parallel_world_size(), state.get_context_parallel_world_size()
    return 2 * int(tensor) * int(context)
