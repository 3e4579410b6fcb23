"""For prime-rl: which of its RL trainer's ranks gets which samples of a step, in which micro-batches.

    + import batchplan.integrations.prime_rl
    + batchplan.integrations.prime_rl.install()
      asyncio.run(run_orchestrator(config))

in prime_rl/entrypoints/orchestrator.py, since the orchestrator divides a step and the trainer takes what it gets.
The configuration stays as it is.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import batchplan
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
) -> None:
    """Has prime_rl.trainer.batch.prepare_batch plan ranks and micro-batches of a step at once.

    It reaches this process alone. Samples are cut to seq_len, packed and padded by prime-rl's own functions.
    A step is left to its own rule, with a warning the first time, where the step has

    - images: micro-batches with images may run beside such ones alone;
    - routed experts in some samples, not in all: those can't share a micro-batch;
    - too few samples for its ranks: prime-rl fills up with dummies.

    Args:
        cost: what balance is measured by; None: prime-rl's cost of the model.
        synchronization: "lockstep", the default, since FSDP gathers parameters at every micro-batch, or
            "accumulated".
        effort: "fast", "default" or "thorough".

    Raises:
        ImportError: prime-rl is not there.
        ValueError: an option is none that there is.
        FailedPrecondition: by the rl command, if this process runs that.
    """
    options_of(cost, synchronization, effort)
    batches: Any = importlib.import_module("prime_rl.trainer.batch")
    told: set[str] = set()

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
                request = options_of(cost or cost_of(bin_cost), synchronization, effort)
                request.update(dp=num_train_workers, passes=[batchplan.Pass(seq_len)])
                slots = slots_or_none([max(len(one.input_ids), 1) for one in samples], request)
                why = f"has too few samples for its {num_train_workers} ranks"
            if slots is None:
                if why not in told:
                    _log.warning("batchplan: a step %s, and is divided by prime-rl's own rule", why)
                told.add(why)
                return stock(rollouts, seq_len, num_train_workers, bin_cost, pad_to_multiple_of)

            def made(positions: Sequence[int]) -> Any:
                # One worker's, which fit in one bin.
                own = [samples[position] for position in positions]
                (micro_batch,) = batches.packed_samples_into_micro_bs(own, seq_len, 1, bin_cost)
                return batches.pad_micro_batch(micro_batch, pad_to_multiple_of)

            return [[made(slot[rank]) for slot in slots] for rank in range(num_train_workers)]

        return prepare_batch

    wrap(batches, "prepare_batch", planning)
    try:
        launcher = importlib.import_module("prime_rl.entrypoints.rl")
    except ImportError:
        return  # a version without it
    for name in ("rl_local", "rl_slurm"):
        wrap(launcher, name, _refused)


def _why_not(samples: Sequence[Any]) -> str | None:
    """What of these samples no plan keeps apart."""
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
