"""For NeMo AutoModel: rows that its packed_sequence made, dealt by what the sequences in them cost.

    + from batchplan.integrations import automodel
    + automodel.install()
      recipe = TrainFinetuneRecipeForNextTokenPrediction(cfg)

in the script that trains. Every row is as long as the others, but attention is over the sequences within it, so
that rows that come to the ranks at random have them wait for each other. A micro-batch keeps its local_batch_size
rows, a step its global_batch_size, and each row comes once an epoch; AutoModel itself leaves out what does not divide
by the ranks. The dataloader's checkpoint has the place in the epoch. Recipes with loaders of their own, as
EAGLE's, are not reached.

Recipes of vision and language models, with packing and pretokenization, are dealt their rows too, by what AutoModel
estimates before it reads an image; and no row has more patches than max_patches.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import batchplan
from batchplan.integrations._images import Images
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import options_of

__all__ = ["install"]


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
    patch_cost: float = 0.0,
    max_patches: int | None = None,
) -> None:
    """Has ParallelAwareDataloader deal packed rows by plan, those of validation too. From then on a training by
    other batches raises ValueError when its StepScheduler is made: of a dataset that is not packed, a stream, or one
    with a sampler of its own; and group_by_length is refused.

    Args:
        cost: of this model, for what rows are dealt by.
        synchronization: "lockstep", the default, where ranks wait for each other at every micro-batch (FSDP2), or
            "accumulated", where they do at the end of a step (DDP).
        effort: of each plan.
        patch_cost: what the encoder takes for a patch, as a part of what the model takes for a token: about the
            encoder's parameters over the model's, and a third of it where the encoder is not trained. In lockstep
            ranks wait for each other after the encoder too.
        max_patches: of a row of text and images, by AutoModel's estimate; a sample that has more alone is alone in its
            row. None: rows are AutoModel's own.

    Raises:
        ImportError: AutoModel is not there.
        ValueError: an option is none that there is.
    """
    options = options_of(cost, synchronization, effort)
    images = Images(patch_cost, max_patches)
    loader: Any = importlib.import_module("nemo_automodel.components.datasets.loader").ParallelAwareDataloader
    scheduler: Any = importlib.import_module("nemo_automodel.components.training.step_scheduler").StepScheduler

    def dealing(stock: Any) -> Any:
        @functools.wraps(stock)
        def __init__(self: Any, dataset: Any, **given: Any) -> None:
            if given.get("batch_sampler") is None:
                given = _dealt(dataset, given, options)
            stock(self, dataset, **given)

        return __init__

    from batchplan.integrations import _automodel_images

    _automodel_images.install(options, images)
    wrap(loader, "__init__", dealing)
    wrap(scheduler, "__init__", _accumulating)


def _accumulating(stock: Any) -> Any:
    """A scheduler that tells the sampler after how many micro-batches it steps."""

    @functools.wraps(stock)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(stock).bind(self, *args, **kwargs).arguments
        sampler: Any = getattr(given["dataloader"], "batch_sampler", None)
        if not hasattr(sampler, "accumulate"):
            dataset = getattr(given["dataloader"], "dataset", None)
            raise ValueError(
                f"the rows of the training dataset, a {type(dataset).__name__}, are not packed beforehand, or have "
                "a sampler of their own: set packed_sequence, or leave out automodel.install()"
            )
        of_slot = given["local_batch_size"] * given["dp_size"]
        # What does not divide is refused by AutoModel.
        if of_slot > 0 and given["global_batch_size"] > 0 and given["global_batch_size"] % of_slot == 0:
            sampler.accumulate(given["global_batch_size"] // of_slot)
        stock(self, *args, **kwargs)

    return __init__


def _dealt(dataset: Any, given: dict[str, Any], options: batchplan.PlanOptions) -> dict[str, Any]:
    """What a loader is made of, with a sampler that deals the dataset's packed rows, if they are."""
    from batchplan.integrations._packed_rows import rows_of
    from batchplan.integrations._row_sampler import RowSampler
    from batchplan.torch._dummy_batch import DummyBatchCollator
    from torch.utils.data import default_collate

    rows = rows_of(dataset) if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__") else None
    if rows is None:
        return given
    if given.get("group_by_length"):
        raise ValueError("group_by_length is True, which a plan does not keep to; must be False")
    shuffle, drop_last = given.get("shuffle"), bool(given.get("pp_enabled") or given.get("drop_last"))
    sampler = RowSampler(
        rows,
        given.get("batch_size", 1),
        rank=given["dp_rank"],
        dp=given["dp_world_size"],
        seed=given.get("seed", 42),
        shuffle=True if shuffle is None else shuffle,
        drop_last=drop_last,
        **options,
    )
    dealt = {**given, "batch_sampler": sampler}
    if not drop_last:
        # Whether the last micro-batches have rows depends on the steps that the scheduler will have.
        narrowest = int(rows.widths.argmin())
        dealt["collate_fn"] = DummyBatchCollator(given.get("collate_fn") or default_collate, dataset[narrowest])
    return dealt
