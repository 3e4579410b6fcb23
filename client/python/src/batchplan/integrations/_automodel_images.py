"""NeMo AutoModel's packed rows of text and images: which samples share a row, and which rank has it."""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import numpy

import batchplan
from batchplan._options import PlanOptions
from batchplan.integrations._images import PATCHES, Images
from batchplan.integrations._replace import wrap
from batchplan.integrations._row_sampler import RowSampler
from batchplan.torch._dummy_batch import DummyBatchCollator
from batchplan.torch._row_costs import PackedRows

__all__ = ["install"]

# Samples that are packed together: a plan's time grows faster than its samples.
_AT_ONCE = 4096


def install(options: PlanOptions, images: Images) -> None:
    """See automodel.install."""
    try:
        packing: Any = importlib.import_module("nemo_automodel.components.datasets.vlm.neat_packing_vlm")
        loading: Any = importlib.import_module("nemo_automodel.components.datasets.vlm.loader")
    except ImportError:
        return  # a version without, or what it needs is not there
    rows = _Rows(options, images)
    wrap(packing, "_estimate_sample_length", rows.estimating, everywhere=False)
    wrap(packing, "neat_pack_dataset_vlm", rows.packing)
    wrap(loading, "StatefulDataLoader", rows.loading, everywhere=False)
    wrap(loading.VlmDataloaderConfig, "build", rows.building)


class _Rows:
    """What stands in the place of AutoModel's functions."""

    def __init__(self, options: PlanOptions, images: Images) -> None:
        self._options, self._images = options, images
        # Tokens and media tokens of the dataset that is being packed.
        self._estimates: list[tuple[int, int]] = []
        self._drops_last = False

    def estimating(self, stock: Any) -> Any:
        @functools.wraps(stock)
        def _estimate_sample_length(*args: Any, **kwargs: Any) -> Any:
            estimate = stock(*args, **kwargs)
            if isinstance(estimate, tuple):
                self._estimates.append(estimate)
            return estimate

        return _estimate_sample_length

    def packing(self, stock: Any) -> Any:
        @functools.wraps(stock)
        def neat_pack_dataset_vlm(*args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(stock).bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments
            self._estimates = []
            packed = stock(*args, **kwargs)
            if not self._estimates:
                return packed  # no raw dataset, whose samples have lengths
            tokens, media = numpy.array(self._estimates, numpy.int64).T
            self._estimates = []
            # As AutoModel counts: without the last token, aligned, and in a row of its own if too long.
            alignment = given.get("sequence_alignment", 1)
            lengths = -(-numpy.maximum(tokens - 1, 0) // alignment) * alignment
            kept = numpy.arange(len(lengths))
            if given["drop_long_samples"]:
                kept = numpy.flatnonzero(lengths <= given["pack_size"])
            capacity = int(given["pack_size"] * given["packing_ratio"])
            lengths = numpy.minimum(lengths, capacity)
            merge = getattr(getattr(given["processor"], "image_processor", None), "merge_size", 2)
            patches = media * merge**2
            most = self._images.max_patches
            if most is not None and patches.any():
                packed.bins = _planned(kept, lengths, patches, capacity, most)[: given["max_packs"]]
            if packed.bins:
                counts = numpy.array([len(row) for row in packed.bins], numpy.int64)
                rows = PackedRows(numpy.maximum(lengths[numpy.concatenate(packed.bins)], 1), counts)
                packed.batchplan_rows = rows, numpy.array([patches[row].sum() for row in packed.bins])
            return packed

        return neat_pack_dataset_vlm

    def building(self, stock: Any) -> Any:
        @functools.wraps(stock)
        def build(config: Any, **given: Any) -> Any:
            if hasattr(config.dataset_config, "builds_with_data_parallel_rank"):
                raise ValueError(
                    f"dataset_config is a {type(config.dataset_config).__name__}, of which each rank reads a part of "
                    "its own; must be one that all read, or leave out automodel.install()"
                )
            self._drops_last = given.get("pp_n_microbatches") is not None
            return stock(config, **given)

        return build

    def loading(self, stock: Any) -> Any:
        def made(*args: Any, **given: Any) -> Any:
            dataset: Any = given.get("dataset")
            drawn: Any = given.get("sampler")
            found = getattr(dataset, "batchplan_rows", None)
            if found is None or not hasattr(drawn, "num_replicas"):
                return stock(*args, **given)
            rows, patches = found
            options = self._options.copy()
            if self._images.patch_cost:
                cost = options.get("cost")
                model = cost if isinstance(cost, batchplan.CostModel) else batchplan.DEFAULT_COST
                options.update(self._images.costing(patches, model))
            given = {name: value for name, value in given.items() if name != "sampler"}
            drop_last = given.pop("drop_last", False) or self._drops_last
            sampler = RowSampler(
                rows,
                given.pop("batch_size", 1),
                rank=drawn.rank,
                dp=drawn.num_replicas,
                seed=drawn.seed,
                shuffle=drawn.shuffle,
                drop_last=drop_last,
                **options,
            )
            if not drop_last:
                given["collate_fn"] = DummyBatchCollator(given["collate_fn"], dataset[int(rows.widths.argmin())])
            return stock(*args, **given, batch_sampler=sampler)

        return made


def _planned(kept: Any, lengths: Any, patches: Any, capacity: int, most: int) -> list[list[int]]:
    """The samples of each row, of which none has more patches than `most`."""
    rows = []
    for begin in range(0, len(kept), _AT_ONCE):
        own = kept[begin : begin + _AT_ONCE]
        plan = batchplan.plan(
            numpy.maximum(lengths[own], 1),
            passes=[batchplan.Pass(capacity, limits={PATCHES: most})],
            loads={PATCHES: patches[own]},
            overlong="alone",
            effort="fast",
        )
        rows += [own[one.indices].tolist() for one in plan.rank(0)]
    return rows
