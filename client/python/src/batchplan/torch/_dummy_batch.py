"""Tensors for micro-batches without sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import torch

Batch = TypeVar("Batch")
# What torch's cross_entropy leaves out.
_IGNORED = -100


class DummyBatchCollator(Generic[Batch]):
    """Collates the micro-batches of a BatchSampler with allow_empty_microbatches, some of which have no
    sequences. For these it collates a dummy sequence whose loss is zero, so that the rank runs a forward and a
    backward as the others do, and meets them in the collectives of DDP and FSDP.

        collate = DummyBatchCollator(DataCollatorWithFlattening(), dummy=dataset[0])
        loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate)

    The loss is zero where it is a sum over the tokens that count, divided by their number in the global batch.
    A mean over the tokens of the micro-batch is NaN, as none of the dummy's count. A model that adds a loss of
    its own, such as the balance of a router, counts the dummy there.
    """

    def __init__(
        self,
        collate_fn: Callable[[Sequence[Any]], Batch],
        dummy: Any,
        mask: Callable[[Batch], Batch] | None = None,
    ) -> None:
        """
        Args:
            collate_fn: of micro-batches with sequences.
            dummy: an item of the dataset, the shorter the better; collated anew for each empty micro-batch.
            mask: makes the loss of a batch zero, that of [dummy]; None: its "labels" become -100 and its
                "loss_mask" 0, one of which it must have.

        Raises:
            ValueError: mask is None, and the collated dummy has neither.
        """
        self._collate_fn, self._dummy = collate_fn, dummy
        self._mask = mask
        if mask is None:
            self.dummy_batch()

    def __call__(self, items: Sequence[Any]) -> Batch:
        """What collate_fn makes of the items, or of the dummy where there are none."""
        return self._collate_fn(items) if len(items) else self.dummy_batch()

    def dummy_batch(self) -> Batch:
        """The batch of an empty micro-batch."""
        # Some take fields out of the items that they are given.
        batch = self._collate_fn([dict(self._dummy) if isinstance(self._dummy, dict) else self._dummy])
        return _masked(batch) if self._mask is None else self._mask(batch)


def _masked(batch: Any) -> Any:
    """The batch with all of its labels and loss masks such that no token counts."""
    fills = {"labels": _IGNORED, "loss_mask": 0}
    found = False
    if isinstance(batch, Mapping):
        for name, fill in fills.items():
            if isinstance(batch.get(name), torch.Tensor):
                batch[name] = torch.full_like(batch[name], fill)  # type: ignore[index]
                found = True
    if not found:
        names = f" with {', '.join(map(repr, batch))}" if isinstance(batch, Mapping) else ""
        raise ValueError(
            f'collate_fn gives a {type(batch).__name__}{names}; must be a mapping with a tensor "labels" or '
            '"loss_mask", unless `mask` says how its loss is made zero'
        )
    return batch
