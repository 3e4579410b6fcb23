"""ROLL's dynamic batching: padded micro-batches at the same places of every rank's shard."""

from __future__ import annotations

import dataclasses
from typing import Any

from numpy.typing import ArrayLike

import batchplan
from batchplan._checks import whole
from batchplan.integrations.roll._batch import lengths_of


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

    def scheduled_tokens(self) -> int:
        """Of one rank, padding included."""
        return sum(
            (end - begin) * width
            for (begin, end), width in zip(self.micro_batch_indices, self.micro_batch_lengths)
        )


def plan_dynamic_batching(
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


def dynamic_batching_shard(
    origin_batch: Any,
    dp_size: int,
    max_tokens_per_microbatch: int,
    sequence_length_round: int,
    pipeline_model_parallel_size: int = 1,
    virtual_pipeline_model_parallel_size: int | None = None,
    log_prefix: str | None = None,
) -> tuple[Any, dict[str, Any]]:
    """roll.utils.dynamic_batching.dynamic_batching_shard. Its plans are ROLL's own; with virtual
    pipelines there are some more of them, and none is wider.

    Args:
        origin_batch: a DataProto with "attention_mask". It stays as it is. Rows without a token count
            as one token, with a warning.
        log_prefix: what the metrics' names have in the middle. The others: see plan_dynamic_batching.

    Returns:
        the batch in the order of the ranks' shards, with the micro-batches in its meta_info; and the
        metrics, by ROLL's names.

    Raises:
        ValueError: see plan_dynamic_batching.
    """
    import torch

    lengths, empty = lengths_of(origin_batch, log_prefix)
    sharded = plan_dynamic_batching(
        lengths,
        dp_size,
        max_tokens_per_microbatch,
        sequence_length_round,
        pipeline_model_parallel_size,
        virtual_pipeline_model_parallel_size,
    )
    batch = origin_batch.slice()
    batch.reorder(torch.tensor(sharded.order))
    batch.meta_info = {**batch.meta_info, **sharded.meta_info()}
    before = len(lengths) * int(origin_batch.batch["attention_mask"].shape[-1])
    after = sharded.scheduled_tokens() * dp_size
    prefix = f"dynamic_batching/{log_prefix}" if log_prefix else "dynamic_batching"
    metrics = {
        "valid_tokens": int(lengths.sum()) - empty,
        "actual_tokens_origin": before,
        "actual_tokens": after,
        "removed_padding_tokens": before - after,
        "removed_padding_ratio": (before - after) / before,
    }
    return batch, {f"{prefix}/{name}": value for name, value in metrics.items()}
