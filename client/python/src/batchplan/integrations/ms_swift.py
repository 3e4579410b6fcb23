"""For ms-swift: rows that its packing=True made, dealt by what the sequences in them cost.

    + from batchplan.integrations import ms_swift
    + ms_swift.install()
      sft_main(SftArguments(..., packing=True))

in the script that trains. Every row is as long as the others, but attention is over the sequences within it, so
that rows that come to the ranks at random have them wait for each other. A micro-batch keeps its
per_device_train_batch_size rows, and each row comes once an epoch; ms-swift itself leaves out what does not divide
by the ranks.

ms-swift encodes each sample with its images before it packs, and keeps nothing of that but "lengths". With `limits`, or
a cost of them, the samples' patches are kept too, in a column of that name: ms_swift.install(limits={"patches": 8192})
then packs rows of at most so many, where ms-swift's own are by tokens alone. A cached_dataset has the column if it was
exported after install(). It is of models whose templates give image_grid_thw or video_grid_thw, as Qwen's and GLM's do;
others' patches are not known, and refused. Streams, and padding_free without packing, stay as they are.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

import numpy

import batchplan
from batchplan.integrations._images import PATCHES, patches_of
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import options_of

__all__ = ["install"]

# In the column of patches: pixels that no grid is of.
_UNKNOWN = -1


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
    limits: Mapping[str, float] | None = None,
) -> None:
    """Has ms-swift's trainers deal their packed rows by plan. From then on a training by other batches raises
    ValueError when it begins: of a dataset that is not packed, or a stream; with sequence parallelism; with
    group_by_length; and where the last rows don't fill micro-batches and the loss is a mean of each.

    Args:
        cost: of this model, for what rows are dealt by; also of "patches", as
            CostModel(1, 1 / 24576, loads={"patches": 0.2}), or LoadCost("patches", 0.2, separate=True) where ranks wait
            for each other after the encoder too.
        synchronization: "lockstep", the default, where ranks wait for each other at every micro-batch (FSDP,
            ZeRO-3), or "accumulated", where they do at the end of a step (DDP).
        effort: of each plan.
        limits: {"patches": n}, and ms-swift's packing makes rows of at most so many patches, within packing_length. Its
            packing_strategy "sequential" is refused then, and a sample that has more.

    Raises:
        ImportError: ms-swift is not there.
        ValueError: an option is none that there is.
    """
    loads = (PATCHES,) if limits is not None or (cost is not None and cost.loads) else ()
    options = options_of(cost, synchronization, effort, loads=loads)
    batchplan.plan([1], max_tokens=1, loads={name: [0] for name in loads}, limits=limits or {})
    if loads:
        _keep_patches()
    if limits:
        _pack_within(limits[PATCHES])
    module: Any = importlib.import_module("swift.trainers.mixin")

    def loading(stock: Any) -> Any:
        @functools.wraps(stock)
        def get_train_dataloader(self: Any, skip_batches: int = 0) -> Any:
            from batchplan.integrations._planned_sampler import fill_empty

            lengths = _row_lengths(self)
            asked = options.copy()
            if cost is not None and cost.loads:
                asked["loads"] = {PATCHES: _row_patches(self.train_dataset)}
            samplers: list[Any] = []

            def planned(total_samples: int, **given: Any) -> Any:
                samplers.append(_planned_sampler(self, lengths, shard(total_samples, **given), asked))
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


def _keep_patches() -> None:
    """Has the dataset keep how many patches each sample has, when its length is found."""
    utils: Any = importlib.import_module("swift.dataset.utils")

    def preprocessing(stock: Any) -> Any:
        @functools.wraps(stock)
        def preprocess(self: Any, row: dict[str, Any]) -> dict[str, Any]:
            encoded = super(utils.AddLengthPreprocessor, self).preprocess(row)
            patches = patches_of(encoded)
            row["lengths"], row[PATCHES] = encoded["lengths"], _UNKNOWN if patches is None else patches
            return row

        return preprocess

    def making(stock: Any) -> Any:
        @functools.wraps(stock)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            stock(self, *args, **kwargs)
            # Part of what a cache of the dataset is found by, one way or the other.
            self.kept_columns = [PATCHES]
            self.cache_format_version = f"{getattr(self, 'cache_format_version', '')}_{PATCHES}"

        return __init__

    wrap(utils.AddLengthPreprocessor, "preprocess", preprocessing)
    wrap(utils.AddLengthPreprocessor, "__init__", making)


def _pack_within(limit: float) -> None:
    packing: Any = importlib.import_module("swift.dataset.packing")

    def making(stock: Any) -> Any:
        @functools.wraps(stock)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            stock(self, *args, **kwargs)
            if getattr(self, "packing_strategy", "binpack") != "binpack":
                raise ValueError(
                    f'packing_strategy is "{self.packing_strategy}"; must be "binpack": samples in their order are not '
                    "packed within a limit of patches here"
                )
            # Every rank makes the same plan.
            self.packed_idx, self.packed_length = _packed(self.dataset, self.packing_length, limit)

        return __init__

    wrap(packing.PackingDataset, "__init__", making)


def _packed(dataset: Any, width: int, limit: float) -> tuple[list[list[int]], list[int]]:
    """The samples of each row, and its tokens. As in ms-swift, one that is longer than a row has one by itself."""
    lengths, patches = _lengths(dataset), _patches(dataset)
    if len(patches) and patches.max() > limit:
        sample = int(patches.argmax())
        raise batchplan.InvalidRequest(
            f"limits has {limit:.15g} patches; sample {sample} has {patches[sample]}: raise it, or lower MAX_PIXELS"
        )
    plan = batchplan.plan(
        lengths, max_tokens=width, overlong="alone", loads={PATCHES: patches}, limits={PATCHES: limit}
    )
    rows = [one.indices.tolist() for one in plan.rank(0)]
    return rows, [sum(lengths[place] for place in row) for row in rows]


def _lengths(dataset: Any) -> list[int]:
    # Of multi-turn samples, each turn's.
    return [sum(one) if isinstance(one, list) else one for one in dataset["lengths"]]


def _patches(dataset: Any) -> Any:
    """Of each sample. Shape [samples]."""
    try:
        column = dataset[PATCHES]
    except KeyError:
        raise ValueError(
            f"the dataset has no column {PATCHES}: it was encoded before ms_swift.install(), which keeps them. Set "
            "load_from_cache_file=False, or export cached_dataset anew"
        ) from None
    patches = numpy.asarray(column, numpy.int64)
    if (patches == _UNKNOWN).any():
        raise ValueError(
            f"sample {int((patches == _UNKNOWN).argmax())} has pixels without image_grid_thw or video_grid_thw, so "
            "that this model's patches are not known: leave out limits, and patches from cost.loads"
        )
    return patches


def _row_patches(dataset: Any) -> Any:
    """Of each packed row. Shape [rows]."""
    patches = _patches(dataset.dataset)
    return numpy.array([patches[row].sum() for row in dataset.packed_idx])


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
    lengths = _lengths(dataset.dataset)
    return [[lengths[place] for place in row] for row in dataset.packed_idx]


def _planned_sampler(
    trainer: Any, lengths: list[list[int]], shard: Any, options: batchplan.PlanOptions
) -> Any:
    """In place of a BatchSamplerShard: of its ranks, order, and rows of a micro-batch."""
    from batchplan.integrations._planned_sampler import PlannedSampler, in_trainers_words
    from batchplan.torch._global_batches import GlobalBatches
    from batchplan.torch._row_costs import PackedRows

    counts = numpy.array([len(row) for row in lengths], numpy.int64)
    rows = PackedRows(numpy.concatenate([numpy.asarray(row, numpy.int64) for row in lengths]), counts)
    steps, of_device, drop_last = trainer.args.gradient_accumulation_steps, shard.batch_size, shard.drop_last
    batch_size = of_device * shard.world_size * steps
    of_rows = rows.of_trainer(options, of_device, batch_size, drop_last=drop_last)
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
    sampler = PlannedSampler(batches)
    if batches.stand_in is not None and not divides:
        raise ValueError(
            "the last global batch of an epoch has fewer rows than micro-batches, and the loss is the mean of each, "
            f"which is NaN of none. {sampler.way_out}"
        )
    # A training that goes on amid an epoch asks for another loader, and tells the epoch to the first.
    before = getattr(trainer, "_batchplan_sampler", None)
    sampler.set_epoch(before.epoch if before is not None else 0)
    trainer._batchplan_sampler = sampler
    return sampler
