"""Planned micro-batches on the hook of transformers' Trainer for samplers that know their rank."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from typing import Any

from torch.utils.data import DataLoader, Sampler

from batchplan.torch._dummy_batch import DummyBatchCollator
from batchplan.torch._global_batches import GlobalBatches

try:
    from transformers.trainer_pt_utils import BatchRebalanceSampler as _Hook
except ImportError:  # before 5.17
    _Hook = Sampler
# What a DataLoader is made of, beside its dataset and sampler.
_LOADER = (
    "collate_fn", "multiprocessing_context", "num_workers", "persistent_workers", "pin_memory",
    "prefetch_factor", "timeout", "worker_init_fn",
)  # fmt: skip


# What GlobalBatches is told by the trainer's arguments.
_ARGUMENTS = {
    "microbatches_per_step": "gradient_accumulation_steps",
    "batch_size": "per_device_train_batch_size",
    "drop_last": "dataloader_drop_last",
}
_GLOBAL_BATCH = "per_device_train_batch_size, times gradient_accumulation_steps and ranks,"
# A way out that is the trainer's to take.
_EMPTY = re.compile(r"(?:, and|:) allow_empty_microbatches=True gives ranks [\w -]+$")


@contextlib.contextmanager
def in_trainers_words() -> Iterator[None]:
    """Raises a ValueError of global batches with the names of the trainer's arguments."""
    try:
        yield
    except ValueError as error:
        named = re.sub(r"\bbatch_size(?= is\b)", _GLOBAL_BATCH, _EMPTY.sub("", str(error)))
        named = re.sub(r"\b\w+\b", lambda word: _ARGUMENTS.get(word[0], word[0]), named)
        if named == str(error):
            raise
        raise type(error)(named) from error


class PlannedSampler(_Hook):
    """What Trainer takes for its own: it hands this to the DataLoader as its batch_sampler, tells it the
    epoch, and keeps Accelerate from dividing its batches. Every iterator begins its epoch."""

    def __init__(self, batches: GlobalBatches) -> None:
        self.batches = batches
        self.epoch = 0
        # Whom Accelerate tells the epoch, in a sampler of batches.
        self.sampler = self

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        epoch = self.epoch
        for step in range(self.batches.steps_of(epoch)):
            with in_trainers_words():
                microbatches = self.batches.microbatches(epoch, step)
            for microbatch in microbatches:
                yield microbatch.tolist()

    def __len__(self) -> int:
        return self.batches.count(self.epoch)

    @property
    def way_out(self) -> str:
        """How no micro-batch is empty."""
        if self.batches.steps_of(0) > 1:
            return "Set dataloader_drop_last=True"
        # It would leave out all there is.
        return "Lower gradient_accumulation_steps, or give more of them"


def fill_empty(loader: Any, sampler: PlannedSampler) -> None:
    """Has a DataLoader make the sampler's empty micro-batches of one of its sequences, with a loss of zero.

    Raises:
        ValueError: the collator makes nothing by which a loss becomes zero.
    """
    dummy = sampler.batches.stand_in
    if dummy is None:
        return
    # Of Accelerate's, which wraps another one.
    loader = getattr(loader, "base_dataloader", loader)
    try:
        loader.collate_fn = DummyBatchCollator(loader.collate_fn, loader.dataset[dummy])
    except ValueError as error:
        raise ValueError(
            f"the last global batch of an epoch has fewer sequences, or rows, than micro-batches, and none can take "
            f"their place: {error}. {sampler.way_out}"
        ) from error


def of_batches(trainer: Any, loader: Any) -> Any:
    """A DataLoader of planned batches. Trainer of transformers before 5.17 does not know such samplers, and takes
    them for samplers of sequences: its loader is replaced. Any other loader is returned as it is."""
    divided = loader.batch_sampler
    sampler = getattr(getattr(divided, "batch_sampler", divided), "sampler", None)
    if not isinstance(sampler, PlannedSampler) or sampler in (divided, getattr(divided, "batch_sampler", None)):
        return loader
    trainer.accelerator._dataloaders.remove(loader)
    options = {name: getattr(loader, name) for name in _LOADER}
    planned = trainer.accelerator.prepare(DataLoader(loader.dataset, batch_sampler=sampler, **options))
    shard = planned.batch_sampler
    if hasattr(shard, "num_processes"):
        # It has each rank's own batches.
        shard.num_processes, shard.process_index, shard.sampler = 1, 0, sampler
    return planned
