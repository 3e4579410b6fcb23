"""Planned micro-batches on the hook of transformers' Trainer for samplers that know their rank."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from transformers.trainer_pt_utils import BatchRebalanceSampler

from batchplan.torch._global_batches import GlobalBatches


# What GlobalBatches is told by the trainer's arguments.
_ARGUMENTS = {
    "microbatches_per_step": "gradient_accumulation_steps",
    "batch_size": "per_device_train_batch_size",
    "drop_last": "dataloader_drop_last",
}


@contextlib.contextmanager
def in_trainers_words() -> Iterator[None]:
    """Raises a ValueError of global batches with the names of the trainer's arguments."""
    try:
        yield
    except ValueError as error:
        named = re.sub(r"\b\w+\b", lambda word: _ARGUMENTS.get(word[0], word[0]), str(error))
        if named == str(error):
            raise
        raise type(error)(named) from error


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
            with in_trainers_words():
                microbatches = self.batches.microbatches(epoch, step)
            for microbatch in microbatches:
                yield microbatch.tolist()

    def __len__(self) -> int:
        return self.batches.count(self.epoch)
