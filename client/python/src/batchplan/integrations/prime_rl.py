"""For prime-rl: the ranks and micro-batches of a step of its RL trainer, and the rows that its SFT packs.

    + import batchplan.integrations.prime_rl
    + batchplan.integrations.prime_rl.install()
      asyncio.run(run_orchestrator(config))

in prime_rl/entrypoints/orchestrator.py, since the orchestrator divides a step and the trainer takes what it
gets; for SFT in main of prime_rl/trainer/sft/train.py, before train(...). The configuration stays as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import batchplan
from batchplan._checks import whole
from batchplan.integrations._images import Images, pixel_rows
from batchplan.integrations._packed_stream import Window, pack
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import options_of, slots_or_none

__all__ = ["cost_of", "install"]

_log = logging.getLogger("batchplan")
BinCost = Callable[[Sequence[int]], int]


def cost_of(bin_cost: BinCost) -> batchplan.CostModel:
    """prime-rl's cost of a micro-batch, which is linear in tokens and in the squares of lengths; by
    build_bin_cost what its model's shape computes, or tokens where the shape is not known."""
    one, two = bin_cost([1]), bin_cost([2])
    squared = (two - 2 * one) / 2
    return batchplan.CostModel(one - squared, squared)


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
    rows: int = 8,
    patch_cost: float = 0.0,
    max_patches: int | None = None,
) -> None:
    """Has prime_rl.trainer.batch.prepare_batch plan ranks and micro-batches of a step at once, and SFT's
    CatDataset plan its rows; in this process alone.

    Samples are cut to seq_len, packed and padded by prime-rl's own functions. As by its own rule, ranks run their
    encoders at the same time or not at all: where one has an image, all have one, and text fills their rows. Samples
    that prime-rl lets no micro-batch share, such as those with routed experts and those without, run in slots of
    their own. Where there are too few of a kind for the ranks, dummies of the shortest fill up, whose loss is zero.

    SFT's ranks pack their own streams as before, each sample once an epoch and never split; the rows are
    fuller, so that a step has more samples. A checkpoint resumes amid a window of rows, one of prime-rl's own
    too. A window with images that can't share rows is packed in the order in which samples come, as prime-rl does.

    Args:
        cost: what balance is measured by; None: prime-rl's cost of the model.
        synchronization: "lockstep", the default, since FSDP gathers parameters at every micro-batch, or
            "accumulated".
        effort: "fast", "default" or "thorough".
        rows: how many of SFT's rows are planned together. The more, the fuller they are, and the more alike on all
            ranks. But where a step has one micro-batch on each rank, the costliest rows of all ranks make up one
            step, whose gradient is that of the longest samples.
        patch_cost: what the encoder takes for a patch, as a part of what the model takes for a token: about the
            encoder's parameters over the model's, and a third of it where the encoder is not trained.
        max_patches: of a micro-batch, or of a row of SFT; a sample that has more alone is alone in it. None: any
            number. Of models without a grid of each image both are of whole images.

    Raises:
        ImportError: prime-rl is not there.
        ValueError: an option is none that there is.
        FailedPrecondition: by the rl command, if this process runs that.
    """
    of_rows = options_of(cost, synchronization, effort)
    images = Images(patch_cost, max_patches)
    if whole("rows", rows) < 1:
        raise batchplan.InvalidRequest(f"rows is {rows}; must be at least 1")
    batches: Any = importlib.import_module("prime_rl.trainer.batch")
    told: set[str] = set()
    # prime-rl's own check of what it trains on, in versions that have one.
    aligned = getattr(batches, "_assert_token_arrays_aligned", None)

    def planning(stock: Any) -> Any:
        @functools.wraps(stock)
        def prepare_batch(
            rollouts: Sequence[Any],
            seq_len: int,
            num_train_workers: int,
            bin_cost: BinCost,
            pad_to_multiple_of: int = 1,
        ) -> Any:
            samples = [batches.prepare_sample(rollout, seq_len) for rollout in rollouts]
            request: batchplan.PlanOptions = {
                **options_of(cost or cost_of(bin_cost), synchronization, effort),
                "dp": num_train_workers,
                "passes": [batchplan.Pass(seq_len)],
            }
            slots = _slots(samples, images, request) if samples else None
            # Text fills the rows of images before it needs dummies of its own.
            for least in (1, 0):
                if samples and slots is None:
                    samples += _dummies(samples, least, num_train_workers, batches._make_dummy_batch)
                    slots = _slots(samples, images, request)
            if slots is None:
                why = "images that no micro-batch can share" if samples else "no samples"
                if why not in told:
                    _log.warning("batchplan: a step has %s, and is divided by prime-rl's own rule", why)
                told.add(why)
                return stock(rollouts, seq_len, num_train_workers, bin_cost, pad_to_multiple_of)

            def made(positions: Sequence[int]) -> Any:
                # For one worker prime-rl packs first fit, and these fit in one bin.
                own = [samples[position] for position in positions]
                (micro_batch,) = batches.packed_samples_into_micro_bs(own, seq_len, 1, bin_cost)
                padded = batches.pad_micro_batch(micro_batch, pad_to_multiple_of)
                if aligned is not None:
                    aligned(padded)
                return padded

            return [[made(slot[rank]) for slot in slots] for rank in range(num_train_workers)]

        return prepare_batch

    wrap(batches, "prepare_batch", planning)
    try:
        data = importlib.import_module("prime_rl.trainer.sft.data")
    except ImportError:
        pass  # where no SFT can run
    else:
        _install_rows(data.CatDataset, rows, of_rows, images)
    try:
        launcher = importlib.import_module("prime_rl.entrypoints.rl")
    except ImportError:
        return  # a version without it
    for name in ("rl_local", "rl_slurm"):
        wrap(launcher, name, _refused)


def _install_rows(kind: Any, rows: int, options: batchplan.PlanOptions, images: Images) -> None:
    """CatDataset's iterator, and its state."""

    def window(dataset: Any) -> Window:
        return Window(
            dataset.seq_len,
            rows,
            options,
            tokens=lambda sample: len(sample["input_ids"]),
            padded=_padded,
            longest_first=True,
            # prime-rl decides which samples share rows where images are of several kinds.
            in_order=lambda samples: len({_row_kind(one) for one in samples} - {None}) > 1,
            images=images,
            patches=lambda sample: pixel_rows(sample.get("mm_kwargs")),
        )

    def stream(dataset: Any) -> Iterator[Any]:
        pending, dataset.pending_sample = dataset.pending_sample, None
        if pending is not None:
            yield pending
        yield from dataset.dataset

    def made(stock: Any, dataset: Any, samples: list[Any]) -> Iterator[Any]:
        own: Iterator[Any] = stock(kind(samples, dataset.seq_len))
        return own

    pack(kind, window=window, stream=stream, made=made)


def _row_kind(sample: Any) -> Any:
    """What images of a row must have in common; None of text."""
    shapes = _shapes(sample.get("mm_kwargs"), 0)
    return None if shapes is None else (shapes, sample.get("mm_token_type_ids") is None)


def _padded(lengths: Any, padding: int) -> Any:
    """What pads a row is attended to as part of its last sample, the shortest."""
    seen = lengths.copy()
    seen[-1] += padding
    return seen


def _slots(
    samples: Sequence[Any], images: Images, options: batchplan.PlanOptions
) -> list[list[list[int]]] | None:
    """[slots][ranks] micro-batches of positions; None where there are too few of a kind for the ranks."""
    kinds, per_slot = _kinds(samples)
    if len(set(kinds)) > 1:
        options = {
            **options,
            "kinds": kinds,
            "passes": [dataclasses.replace(one, kinds_per_slot=per_slot) for one in options["passes"]],  # type: ignore[arg-type]
        }
    patches = [pixel_rows(one.mm_kwargs) for one in samples]
    if images.are_planned and any(patches):
        cost, (only,) = options["cost"], options["passes"]
        assert isinstance(cost, batchplan.CostModel)
        options = {**options, **images.options(patches, cost, only)}
    return slots_or_none([max(len(one.input_ids), 1) for one in samples], options)


def _kinds(samples: Sequence[Any]) -> tuple[list[int], str]:
    """What must run at the same time on all ranks, by sample, and how: images of one shape "together", since text
    shares their micro-batches; where micro-batches can't be shared otherwise, "alike"."""
    shapes = [_shapes(one.mm_kwargs, place) for place, one in enumerate(samples)]
    routed = [one.routed_experts is not None for one in samples]
    if len({one for one in shapes if one is not None}) <= 1 and len(set(routed)) <= 1:
        return [int(one is not None) for one in shapes], "together"
    parts = list(zip(shapes, routed))
    numbers = {part: number for number, part in enumerate(dict.fromkeys(parts))}
    return [numbers[part] for part in parts], "alike"


def _shapes(tensors: Any, place: int) -> Any:
    """What images of a micro-batch must have in common; None of text."""
    if tensors is None:
        return None
    found = [(name, str(one.dtype), len(one.shape), *one.shape[1:]) for name, one in sorted(tensors.items())]
    # What is no list of images is shared with none.
    return (*found, None if all(len(one.shape) for one in tensors.values()) else place)


def _dummies(samples: Sequence[Any], least: int, ranks: int, dummy_of: Callable[[Any], Any]) -> list[Any]:
    """As many as kinds from `least` on lack to divide by the ranks."""
    of_kind: dict[int, list[Any]] = {}
    for sample, kind in zip(samples, _kinds(samples)[0]):
        of_kind.setdefault(kind, []).append(sample)
    made = []
    for kind, own in of_kind.items():
        if kind >= least:
            shortest = min(own, key=lambda one: (len(one.input_ids), pixel_rows(one.mm_kwargs)))
            made += [dummy_of(shortest) for _ in range(-len(own) % ranks)]
    return made


def _refused(launch: Any) -> Any:
    @functools.wraps(launch)
    def refuse(*_: Any, **__: Any) -> None:
        raise batchplan.FailedPrecondition(
            "prime_rl.install() was called in the process that starts the orchestrator, which divides steps "
            "in one of its own: call it in main() of prime_rl/entrypoints/orchestrator.py"
        )

    return refuse
