"""Planned micro-batches on the hook of transformers' Trainer for samplers that know their rank."""

from __future__ import annotations

from collections.abc import Iterator

from transformers.trainer_pt_utils import BatchRebalanceSampler

from batchplan.torch._global_batches import GlobalBatches


class PlannedSampler(BatchRebalanceSampler):
    """What Trainer takes for its own: it hands this to the DataLoader as its batch_sampler, tells it the
    epoch, and keeps Accelerate from dividing its batches. Every iterator begins its epoch."""

    def __init__(self, batches: GlobalBatches) -> None:
        self.batches = batches
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        epoch = self.epoch
        for step in range(self.batches.steps):
            for microbatch in self.batches.microbatches(epoch, step):
                yield microbatch.tolist()

    def __len__(self) -> int:
        return self.batches.count(self.epoch)
