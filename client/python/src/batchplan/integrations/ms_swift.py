"""For ms-swift: rows that its packing=True made, dealt by what the sequences in them cost.

    + from batchplan.integrations import ms_swift
    + ms_swift.install()
      sft_main(SftArguments(..., packing=True))

in the script that trains. Every row is as long as the others, but attention is over the sequences within it, so
that rows that come to the ranks at random have them wait for each other. A micro-batch keeps its
per_device_train_batch_size rows, and each row comes once an epoch; ms-swift itself leaves out what does not divide
by the ranks.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import batchplan
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import options_of

__all__ = ["install"]


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Has ms-swift's trainers deal their packed rows by plan. From then on a training by other batches raises
    ValueError when it begins: of a dataset that is not packed, or a stream; with sequence parallelism; with
    group_by_length; and where the last rows don't fill micro-batches and the loss is a mean of each.

    Args:
        cost: of this model, for what rows are dealt by.
        synchronization: "lockstep", the default, where ranks wait for each other at every micro-batch (FSDP,
            ZeRO-3), or "accumulated", where they do at the end of a step (DDP).
        effort: of each plan.

    Raises:
        ImportError: ms-swift is not there.
        ValueError: an option is none that there is.
    """
    options = options_of(cost, synchronization, effort)
    module: Any = importlib.import_module("swift.trainers.mixin")

    def loading(stock: Any) -> Any:
        @functools.wraps(stock)
        def get_train_dataloader(self: Any, skip_batches: int = 0) -> Any:
            from batchplan.integrations._planned_sampler import fill_empty

            lengths = _row_lengths(self)
            samplers: list[Any] = []

            def planned(total_samples: int, **given: Any) -> Any:
                samplers.append(_planned_sampler(self, lengths, shard(total_samples, **given), options))
                return samplers[0]

            shard, module.BatchSamplerShard = module.BatchSamplerShard, planned
            try:
                loader = stock(self, skip_batches)
            finally:
                module.BatchSamplerShard = shard
            used = loader.batch_sampler
            if not samplers or samplers[0] not in (used, getattr(used, "batch_sampler", None)):
                raise RuntimeError(f"{type(self).__name__} draws its batches elsewhere: this ms-swift is not known")
            fill_empty(loader, samplers[0])
            return loader

        return get_train_dataloader

    wrap(module.DataLoaderMixin, "get_train_dataloader", loading)


def _row_lengths(trainer: Any) -> list[list[int]]:
    """Of each packed row, the tokens of its sequences."""
    dataset, args = trainer.train_dataset, trainer.args
    if not hasattr(dataset, "packed_idx"):
        raise ValueError(
            f"train_dataset is a {type(dataset).__name__}, whose rows are not packed beforehand: set packing=True "
            "and streaming=False, or leave out ms_swift.install()"
        )
    if trainer.template.sequence_parallel_size > 1:
        raise ValueError(
            f"sequence_parallel_size is {trainer.template.sequence_parallel_size}; must be 1: ranks that share "
            "rows are not planned for here"
        )
    if getattr(args, "group_by_length", False):
        raise ValueError("group_by_length is True, which a plan does not keep to; must be False")
    # Of multi-turn samples, each turn's.
    lengths = [sum(one) if isinstance(one, list) else one for one in dataset.dataset["lengths"]]
    return [[lengths[place] for place in row] for row in dataset.packed_idx]


def _planned_sampler(
    trainer: Any, lengths: list[list[int]], shard: Any, options: batchplan.PlanOptions
) -> Any:
    """In place of a BatchSamplerShard: of its ranks, order, and rows of a micro-batch."""
    from batchplan.integrations._planned_sampler import PlannedSampler, in_trainers_words
    from batchplan.torch._global_batches import GlobalBatches
    from batchplan.torch._row_costs import packed_rows

    rows = packed_rows(lengths)
    assert rows is not None
    steps, of_device, drop_last = trainer.args.gradient_accumulation_steps, shard.batch_size, shard.drop_last
    batch_size = of_device * shard.world_size * steps
    of_rows, dummy = rows.of_trainer(options, of_device, batch_size, drop_last=drop_last)
    of_rows["dp"], of_rows["seed"], of_rows["shuffle"] = shard.world_size, shard.base_seed, shard.shuffle
    with in_trainers_words():
        batches = GlobalBatches(
            rows,
            batch_size,
            rank=shard.rank,
            drop_last=drop_last,
            microbatches_per_step=steps,
            **of_rows,
        )
    divides = trainer.model_accepts_loss_kwargs or trainer.compute_loss_func is not None
    if dummy is not None and not divides:
        raise ValueError(
            "the last global batch of an epoch has fewer rows than micro-batches, and the loss is the mean of each, "
            "which is NaN of none: set dataloader_drop_last=True"
        )
    sampler = PlannedSampler(batches, dummy)
    # A training that goes on amid an epoch asks for another loader, and tells the epoch to the first.
    before = getattr(trainer, "_batchplan_sampler", None)
    sampler.set_epoch(before.epoch if before is not None else 0)
    trainer._batchplan_sampler = sampler
    return sampler
