"""For torchtitan: the rows that its RL packs, planned for all ranks, and those that its SFT packs of each
rank's stream.

    + import batchplan.integrations.torchtitan
    + batchplan.integrations.torchtitan.install()

at the beginning of main of torchtitan/experiments/rl/train.py, whose process packs for all ranks. The Batcher
fills rows of seq_len tokens with a step's samples in their order, each until the next one does not fit.
Planned, there are fewer rows, so that a step has fewer micro-batches, and rows that run at the same time are
alike in what their attention costs. A step has its samples, and the loss its denominator.

    + import batchplan.integrations.torchtitan
    + batchplan.integrations.torchtitan.install_sft()

at the beginning of main of torchtitan/train.py, which every rank runs. The rows of ChatDataset (0.3.0) and of
FirstFitPackingConfig (main) are fuller, so that a step has more samples, and those that ranks run at the same
time are alike in cost, though no rank knows of another's samples.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

import batchplan
from batchplan._checks import whole
from batchplan.integrations._packed_stream import Window, pack
from batchplan.integrations._partitions import balanced_partitions
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import options_of, slots_or_none

__all__ = ["assign_rows", "install", "install_sft"]


def assign_rows(
    lengths: Sequence[int],
    *,
    seq_len: int,
    dp_degree: int,
    local_batch_size: int,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> list[list[int]]:
    """Rows of positions in `lengths`, in the order in which the Batcher deals them to micro-batches and ranks.

    Args:
        lengths: tokens of each sample as it is packed.
        seq_len: tokens of a row, at most. Rows are padded to it.
        dp_degree: data-parallel ranks.
        local_batch_size: rows of a micro-batch on one rank.
        cost: what samples cost; that of a model of 7B parameters unless given. What it costs by the token, rows
            cost by seq_len, whatever they hold.
        synchronization: "lockstep", the default, where ranks wait for each other at every micro-batch (FSDP), or
            "accumulated", where they do at the end of a step.
        effort: "fast", "default" or "thorough".

    Returns:
        dp_degree * local_batch_size rows for each micro-batch, none of them empty. Of fewer samples than rows
        fewer ones, which the Batcher pads up.

    Raises:
        ValueError: a sample is longer than a row.
    """
    for name, value in (("seq_len", seq_len), ("dp_degree", dp_degree), ("local_batch_size", local_batch_size)):
        if whole(name, value) < 1:
            raise batchplan.InvalidRequest(f"{name} is {value}; must be at least 1")
    if len(lengths) == 0:
        return []
    # A sample of one token trains none, and takes no room.
    lengths = [max(length, 1) for length in lengths]
    model = cost or batchplan.DEFAULT_COST
    by_row = batchplan.CostModel(
        0.0, model.per_token_squared, model.per_microbatch + model.per_token * seq_len, model.per_sequence
    )

    def cost_of(row: list[int]) -> float:
        return float(by_row.of_sequences([lengths[place] for place in row]).sum())

    at_once = dp_degree * local_batch_size
    options: batchplan.PlanOptions = {
        **options_of(by_row, synchronization, effort),
        "dp": at_once,
        "passes": [batchplan.Pass(seq_len)],
    }
    slots = slots_or_none(lengths, options)
    if slots is None:
        slots = slots_or_none(lengths, {**options, "allow_empty_microbatches": True}) or []
        # Dealt as they come, like rows run at the same time, and as few cells as can be are padding alone.
        rows = [row for slot in slots for row in slot if row]
        return sorted(rows, key=cost_of, reverse=True)
    if local_batch_size > 1:
        slots = [_with_ranks_alike(slot, [cost_of(row) for row in slot], dp_degree) for slot in slots]
    # The Batcher deals the rows to the ranks of all micro-batches in turn, local_batch_size times.
    return [
        slot[rank * local_batch_size + turn]
        for turn in range(local_batch_size)
        for slot in slots
        for rank in range(dp_degree)
    ]


def _with_ranks_alike(slot: list[list[int]], costs: Sequence[float], ranks: int) -> list[list[int]]:
    """A slot's rows, those of one rank after those of another."""
    return [slot[place] for part in balanced_partitions(costs, ranks, True) for place in part]


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Has every Batcher of this process fill its rows by assign_rows.

    Args:
        cost, synchronization, effort: those of assign_rows.

    Raises:
        ImportError: torchtitan's RL is not there.
        ValueError: a cost, synchronization or effort is none that there is; or a subclass of Batcher fills rows
            itself, which would go on to.
    """
    options_of(cost, synchronization, effort)
    kind = importlib.import_module("torchtitan.experiments.rl.components.batcher").Batcher
    name = "_assign_training_samples_to_rows"
    stock = getattr(kind, name)
    _refuse_own(kind, name)

    @functools.wraps(stock)
    def assign(self: Any, training_samples: list[Any]) -> list[list[Any]]:
        rows = assign_rows(
            [self.num_tokens_to_pack(sample) for sample in training_samples],
            seq_len=self.seq_len,
            dp_degree=self._dp_degree,
            local_batch_size=self.local_batch_size,
            cost=cost,
            synchronization=synchronization,
            effort=effort,
        )
        return [[training_samples[place] for place in row] for row in rows]

    setattr(kind, name, assign)


def _refuse_own(kind: type, name: str) -> None:
    """Raises InvalidRequest where a subclass has a method of its own in place of the one that is planned."""
    for own in _subclasses(kind):
        if name in vars(own):
            raise batchplan.InvalidRequest(
                f"{own.__name__} is a {kind.__name__} with a {name} of its own, which is not reached: leave one of "
                "them out"
            )


def _subclasses(kind: type) -> list[type]:
    of_kind: list[type] = kind.__subclasses__()
    return [one for own in of_kind for one in (own, *_subclasses(own))]


def install_sft(
    *,
    cost: batchplan.CostModel | None = None,
    effort: str | None = None,
    rows: int = 8,
) -> None:
    """Has ChatDataset of torchtitan 0.3.0, or FirstFitPackingConfig of its main branch, plan the rows that it
    packs; in this process and in those that are forked of it.

    A rank has its own samples as before, each once an epoch and never split, in rows that torchtitan's own
    code makes; samples longer than a row are left out, as it does. The stream is packed window by window, and
    one window may have samples of the end of an epoch and of the beginning of the next. Checkpoints resume
    amid a window, and should be resumed with planned rows. Those of 0.3.0's own resume too. Those of main hold
    rows that only its own packer can finish, and are refused.

    What is packed otherwise goes on to be: text that is cut into rows, which are full, and samples with images.

    Args:
        cost: what samples cost; that of a model of 7B parameters unless given.
        effort: "fast", "default" or "thorough".
        rows: of a window, in place of num_packing_bins. More rows are fuller and more alike on all ranks. But
            with less than two rows a step and rank the costliest rows meet in one step, and its gradient is
            theirs.

    Raises:
        ImportError: torchtitan is not there.
        ValueError: an option is none that there is; this torchtitan packs in neither of these ways, as versions
            before 0.3.0; or a subclass packs itself, and would go on to.
    """
    options = options_of(cost, None, effort)
    if whole("rows", rows) < 1:
        raise batchplan.InvalidRequest(f"rows is {rows}; must be at least 1")
    importlib.import_module("torchtitan")
    chat = _member("torchtitan.hf_datasets.text_datasets", "ChatDataset")
    packer = _member("torchtitan.components.data.packing", "FirstFitPackingConfig")
    if chat is None and packer is None:
        raise batchplan.InvalidRequest(
            "this torchtitan has neither a ChatDataset nor a FirstFitPackingConfig, whose rows install_sft() "
            "plans: take 0.3.0 or the main branch of August 2026"
        )
    for kind, name in ((chat, "__iter__"), (packer, "build")):
        if kind is not None:
            _refuse_own(kind, name)
    if chat is not None:
        _plan_chat(chat, rows, options)
    if packer is not None:
        _plan_first_fit(packer, rows, options)


def _member(module: str, name: str) -> Any:
    """A class of torchtitan; None where this version has no such module or class."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        # Of a dependency that is missing there, the user must know.
        if not (error.name and module.startswith(error.name)):
            raise
        return None


def _plan_chat(kind: Any, rows: int, options: batchplan.PlanOptions) -> None:
    """Samples are pairs of input_ids and labels."""

    def window(dataset: Any) -> Window:
        return Window(
            dataset.seq_len, rows, options, tokens=lambda pair: len(pair[0]), padded=_padded_by_a_sequence
        )

    def stream(dataset: Any) -> Iterator[Any]:
        if dataset._pending_input_ids:
            pending = dataset._pending_input_ids, dataset._pending_label_ids
            dataset._pending_input_ids, dataset._pending_label_ids = [], []
            dataset._sample_idx += 1
            yield pending
        while True:
            for sample in dataset._get_data_iter():
                pair = dataset._tokenize_sample(sample)
                dataset._sample_idx += 1
                if pair is not None:
                    yield pair
            if not dataset.infinite:
                return
            dataset.reloop()

    def made(stock: Any, dataset: Any, pairs: list[Any]) -> Iterator[Any]:
        of_row = copy.copy(dataset)
        # Gives the copy buffers of its own.
        of_row._flush_buffers()
        of_row._get_data_iter = lambda: iter(pairs)
        of_row._tokenize_sample = lambda pair: pair
        # Iterated on, it would warn that it has run out of data.
        return itertools.islice(stock(of_row), 1)

    pack(kind, window=window, stream=stream, made=made)


def _plan_first_fit(kind: Any, rows: int, options: batchplan.PlanOptions) -> None:
    """Samples are TextSequences."""
    grain: Any = importlib.import_module("grain.python")
    of_grain = importlib.import_module("batchplan.integrations._grain_rows")

    def planning(stock: Any) -> Any:
        @functools.wraps(stock)
        def build(self: Any, *, context: Any, dataset_iteration_policy: Any) -> Any:
            longest, width = context.max_context_length, context.num_tokens_per_batch
            samples = self.dataset.build(context=context, dataset_iteration_policy=dataset_iteration_policy)
            samples = samples.filter(lambda sample: len(sample.input_ids) <= longest)
            if isinstance(samples, grain.MapDataset):
                samples = samples.to_iter_dataset(read_options=context.read_options)
            in_order = dataclasses.replace(dataset_iteration_policy, shuffle=False)

            def window() -> Window:
                return Window(
                    width,
                    rows,
                    options,
                    tokens=lambda sample: len(sample.input_ids),
                    padded=_padded_by_tokens,
                )

            def made(of_row: list[Any]) -> Any:
                packer = dataclasses.replace(self, dataset=of_grain.Samples(of_row), num_packing_bins=1)
                return next(iter(stock(packer, context=context, dataset_iteration_policy=in_order)))

            return of_grain.Rows(samples, window, made)

        return build

    wrap(kind, "build", planning)


def _padded_by_a_sequence(lengths: Any, padding: int) -> Any:
    """What pads a row is a sequence of its own, by its positions."""
    return numpy.append(lengths, padding) if padding else lengths


def _padded_by_tokens(lengths: Any, padding: int) -> Any:
    """What pads a row are sequences of one token, by their positions."""
    return numpy.append(lengths, numpy.ones(padding, lengths.dtype))
