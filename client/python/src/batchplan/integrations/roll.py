"""For ROLL: its dynamic batching, and the load balance of its sequence packing, over lengths.

    - batch, metrics = dynamic_batching_shard(batch, dp_size, max_tokens, round_to, pp, vpp)
    + sharded = dynamic_batching_shard(lengths, dp_size, max_tokens, round_to, pp, vpp)
    + batch.reorder(torch.tensor(sharded.order))
    + batch.meta_info.update(sharded.meta_info())
"""

from __future__ import annotations

import dataclasses
from typing import Any

from numpy.typing import ArrayLike

import batchplan
from batchplan._checks import whole
from batchplan.integrations._partitions import Agree, by_all_reduce, divide

__all__ = ["DynamicBatching", "by_all_reduce", "dynamic_batching_shard", "load_balance"]


@dataclasses.dataclass(frozen=True)
class DynamicBatching:
    """Micro-batches that stand at the same places of every rank's shard, and are as wide."""

    # Positions in the batch: the ranks' shards, one after the other, of the same size each.
    order: list[int]
    # Where each micro-batch begins and ends in a shard.
    micro_batch_indices: list[list[int]]
    # The padded width of each, in tokens.
    micro_batch_lengths: list[int]

    def meta_info(self) -> dict[str, Any]:
        """By the names that ROLL's workers read."""
        return {
            "global_micro_batch_indices": self.micro_batch_indices,
            "global_micro_batch_lengths": self.micro_batch_lengths,
            "micro_batch_indices": self.micro_batch_indices,
            "micro_batch_lengths": self.micro_batch_lengths,
            "num_micro_batchs": len(self.micro_batch_indices),
        }


def dynamic_batching_shard(
    seq_lens: ArrayLike,
    dp_size: int,
    max_tokens_per_microbatch: int,
    sequence_length_round: int = 1,
    pipeline_model_parallel_size: int = 1,
    virtual_pipeline_model_parallel_size: int | None = None,
) -> DynamicBatching:
    """Sorts the batch, deals it to the ranks in turn, and cuts it into padded micro-batches.

    Args:
        seq_lens: tokens of each sequence; dp_size divides their number.
        dp_size: data-parallel ranks.
        max_tokens_per_microbatch: sequences times width, at most.
        sequence_length_round: widths are multiples of it.
        pipeline_model_parallel_size, virtual_pipeline_model_parallel_size: with both above 1, the
            number of micro-batches is a multiple of the first.

    Raises:
        ValueError: a sequence is longer than the budget, dp_size does not divide their number, or they
            are too few for the pipeline.
    """
    if whole("dp_size", dp_size) < 1:
        raise batchplan.InvalidRequest(f"dp_size is {dp_size}; must be at least 1")
    plan = batchplan.plan(
        seq_lens,
        preset="roll_dynamic",
        dp=dp_size,
        pp=pipeline_model_parallel_size,
        vpp=virtual_pipeline_model_parallel_size or 1,
        passes=[
            batchplan.Pass(
                max_tokens_per_microbatch,
                length_multiple=sequence_length_round,
                equal_sequence_counts=True,
            )
        ],
    )
    shards = [list(plan.rank(rank)) for rank in range(dp_size)]
    indices: list[list[int]] = []
    for one in shards[0]:
        begin = indices[-1][1] if indices else 0
        indices.append([begin, begin + len(one)])
    return DynamicBatching(
        order=[index for shard in shards for one in shard for index in one.indices.tolist()],
        micro_batch_indices=indices,
        micro_batch_lengths=[one.width for one in shards[0]],
    )


def load_balance(
    seq_lens: ArrayLike,
    max_packed_sequence_length: int,
    *,
    cp_size: int = 1,
    tp_size: int = 1,
    min_num_micro_batches: int | None = None,
    num_batches_divided_by: int | None = None,
    agree: Agree | None = None,
) -> list[list[int]]:
    """Packs one rank's batch as `load_balance` does, within the capacity also after the ranks have
    agreed on a number.

    Args:
        seq_lens: tokens of each of this rank's sequences.
        max_packed_sequence_length: tokens of a packed row, at most, after alignment.
        cp_size, tp_size: every sequence is aligned to 2 * cp * tp.
        min_num_micro_batches: rows, at least.
        num_batches_divided_by: their number is a multiple of it, for virtual pipelines.
        agree: by_all_reduce(dp_group), so that all ranks have as many rows. Called once.

    Returns:
        rows of positions in seq_lens, small ones at both ends.

    Raises:
        ValueError: a sequence is longer than a row, or there are fewer than rows.
    """
    return divide(
        seq_lens,
        max_packed_sequence_length,
        {"preset": "roll_packing", "cp": cp_size, "tp": tp_size},
        at_least=min_num_micro_batches,
        multiple=num_batches_divided_by,
        agree=agree,
        length_multiple=2 * cp_size * tp_size,
    )
