"""For prime-rl: the ranks and micro-batches of a step of its RL trainer, and the rows that its SFT packs.

    + import batchplan.integrations.prime_rl
    + batchplan.integrations.prime_rl.install()
      asyncio.run(run_orchestrator(config))

in prime_rl/entrypoints/orchestrator.py, since the orchestrator divides a step and the trainer takes what it
gets; for SFT in main of prime_rl/trainer/sft/train.py, before train(...). The configuration stays as it is.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import batchplan
from batchplan._checks import whole
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
) -> None:
    """Has prime_rl.trainer.batch.prepare_batch plan ranks and micro-batches of a step at once, and SFT's
    CatDataset plan its rows; in this process alone.

    Samples are cut to seq_len, packed and padded by prime-rl's own functions. A step of RL is left to its own
    rule, with a warning the first time, where the step has

    - images: micro-batches with images may run beside such ones alone;
    - routed experts in some samples, not in all: those can't share a micro-batch;
    - too few samples that share micro-batches for its ranks: prime-rl fills up with dummies.

    SFT's ranks pack their own streams as before, each sample once an epoch and never split; the rows are
    fuller, so that a step has more samples. A checkpoint resumes amid a window of rows, one of prime-rl's own
    too. A window with images is packed in the order in which samples come, as prime-rl does.

    Args:
        cost: what balance is measured by; None: prime-rl's cost of the model.
        synchronization: "lockstep", the default, since FSDP gathers parameters at every micro-batch, or
            "accumulated".
        effort: "fast", "default" or "thorough".
        rows: how many of SFT's rows are planned together. The more, the fuller they are, and the more alike on all
            ranks. But where a step has one micro-batch on each rank, the costliest rows of all ranks make up one
            step, whose gradient is that of the longest samples.

    Raises:
        ImportError: prime-rl is not there.
        ValueError: an option is none that there is.
        FailedPrecondition: by the rl command, if this process runs that.
    """
    of_rows = options_of(cost, synchronization, effort)
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
            why = _why_not(samples)
            slots = None
            if why is None:
                request: batchplan.PlanOptions = {
                    **options_of(cost or cost_of(bin_cost), synchronization, effort),
                    "dp": num_train_workers,
                    "passes": [batchplan.Pass(seq_len)],
                }
                slots = slots_or_none([max(len(one.input_ids), 1) for one in samples], request)
                why = f"has too few samples that share micro-batches for its {num_train_workers} ranks"
            if slots is None:
                if why not in told:
                    _log.warning("batchplan: a step %s, and is divided by prime-rl's own rule", why)
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
        _install_rows(data.CatDataset, rows, of_rows)
    try:
        launcher = importlib.import_module("prime_rl.entrypoints.rl")
    except ImportError:
        return  # a version without it
    for name in ("rl_local", "rl_slurm"):
        wrap(launcher, name, _refused)


def _install_rows(kind: Any, rows: int, options: batchplan.PlanOptions) -> None:
    """CatDataset's iterator, and its state."""

    def window(dataset: Any) -> Window:
        return Window(
            dataset.seq_len,
            rows,
            options,
            tokens=lambda sample: len(sample["input_ids"]),
            padded=_padded,
            longest_first=True,
            # prime-rl decides which samples share a row with images.
            in_order=lambda sample: sample.get("mm_kwargs") is not None,
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


def _padded(lengths: Any, padding: int) -> Any:
    """What pads a row is attended to as part of its last sample, the shortest."""
    seen = lengths.copy()
    seen[-1] += padding
    return seen


def _why_not(samples: Sequence[Any]) -> str | None:
    """Why these samples are left to prime-rl's rule; None where they are not."""
    if not samples:
        return "has no samples"
    if any(sample.mm_kwargs is not None for sample in samples):
        return "has images"
    if len({sample.routed_experts is None for sample in samples}) > 1:
        return "has routed experts in some samples alone"
    return None


def _refused(launch: Any) -> Any:
    @functools.wraps(launch)
    def refuse(*_: Any, **__: Any) -> None:
        raise batchplan.FailedPrecondition(
            "prime_rl.install() was called in the process that starts the orchestrator, which divides steps "
            "in one of its own: call it in main() of prime_rl/entrypoints/orchestrator.py"
        )

    return refuse
