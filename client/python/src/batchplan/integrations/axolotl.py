"""For axolotl: the batches of its sample packing, planned for all ranks.

    plugins:
      - batchplan.integrations.axolotl.BatchplanPlugin

in the configuration, beside sample_packing: true. axolotl's sampler packs an epoch into bins, and Accelerate
deals them to the ranks in turn. Planned, the bins that run at the same time are alike in cost, and the bins of
an epoch are a multiple of the ranks, so that no rest is left out. An optimizer step has the next sequences of
the sampler's random order, as many as fit; none is chosen for its length.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import ArrayLike, NDArray

import batchplan
from batchplan._checks import whole
from batchplan.integrations._slots import options_of, slots_of

__all__ = ["install", "plan_batches"]

Batches = list[list[list[int]]]
# Of what a step's bins hold, what is tried first.
_FULL = 0.995


def plan_batches(
    lengths: ArrayLike,
    batch_max_len: int,
    *,
    ranks: int,
    gradient_accumulation_steps: int = 1,
    batch_size: int = 1,
    bin_size: int | None = None,
    drop_last: bool = True,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
) -> Batches:
    """An epoch in bins, of which batch_size are a batch, and ranks batches run at the same time.

    Args:
        lengths: tokens of each sequence, in the order in which they were drawn.
        batch_max_len: tokens of a bin, at most.
        ranks: data-parallel; batch i is for rank i mod ranks.
        gradient_accumulation_steps: batches of a rank in an optimizer step. The step's sequences
            are the next ones of the order.
        batch_size: bins of a batch.
        bin_size: sequences of a bin, at most.
        drop_last: leaves the last batch out if it has fewer bins, as can only be where there are fewer
            sequences than bins that run at once.
        cost: of this model, for what ranks are balanced by.
        synchronization: "lockstep", the default, where ranks wait for each other at every micro-batch
            (FSDP, ZeRO-3), or "accumulated", where they do at the end of a step.

    Returns:
        [batches][bins] lists of positions in `lengths`.

    Raises:
        ValueError: a sequence is longer than a bin, or has no token.
    """
    for name, number in (
        ("ranks", ranks),
        ("gradient_accumulation_steps", gradient_accumulation_steps),
        ("batch_size", batch_size),
    ):
        if whole(name, number) < 1:
            raise batchplan.InvalidRequest(f"{name} is {number}; must be at least 1")
    tokens = numpy.asarray(lengths)
    _check_lengths(tokens, batch_max_len, range(len(tokens)))
    sums = numpy.concatenate([[0], numpy.cumsum(tokens, dtype=numpy.int64)])
    # With more effort there may be more slots than a step has, where that makes them shorter.
    options = options_of(cost, synchronization, "fast")

    def planned(begin: int, end: int, bins: int, slots: int) -> list[list[list[int]]]:
        only = batchplan.Pass(batch_max_len, min_microbatches=slots, max_sequences=bin_size or None)
        of_step: batchplan.PlanOptions = {**options, "dp": bins, "passes": [only]}
        plan = batchplan.plan(tokens[begin:end], **of_step)
        return [[[begin + place for place in one] for one in slot] for slot in slots_of(plan, bins)]

    # Bins that run at once, and bins of a step.
    at_once = ranks * batch_size
    of_step = at_once * gradient_accumulation_steps
    batches: Batches = []
    begin = 0
    while len(tokens) - begin >= at_once:
        room = _FULL * of_step * batch_max_len
        # As many as there are bins fit, whatever they are.
        least = begin + of_step
        end = max(int(numpy.searchsorted(sums, sums[begin] + room, "right")) - 1, least)
        if end + at_once > len(tokens):
            # The last step takes the rest, in more bins if need be.
            slots = planned(begin, len(tokens), at_once, 1)
            end = len(tokens)
        else:
            slots = planned(begin, end, at_once, gradient_accumulation_steps)
            while len(slots) > gradient_accumulation_steps and end > least:
                end = max(end - max((end - begin) // 128, 1), least)
                slots = planned(begin, end, at_once, gradient_accumulation_steps)
        for slot in slots:
            batches += [slot[first : first + batch_size] for first in range(0, at_once, batch_size)]
        begin = end
    if begin < len(tokens):
        bins = [one for slot in planned(begin, len(tokens), 1, 1) for one in slot]
        batches += [bins[first : first + batch_size] for first in range(0, len(bins), batch_size)]
        if drop_last and len(batches[-1]) < batch_size:
            batches.pop()
    return batches


def install(
    *,
    ranks: int | None = None,
    gradient_accumulation_steps: int | None = None,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
) -> None:
    """Makes axolotl's MultipackBatchSampler plan its batches. One that keeps the order, for
    sample_packing_sequentially, stays as it is.

    Args:
        ranks, gradient_accumulation_steps: plan_batches'; None: those of axolotl's configuration, and of
            WORLD_SIZE, when an epoch begins.
        cost, synchronization: plan_batches'.

    Raises:
        ImportError: axolotl is not there.
        ValueError: an option is none that there is.
    """
    options_of(cost, synchronization, None)
    module: Any = importlib.import_module("axolotl.utils.samplers.multipack")
    stock = module.MultipackBatchSampler.generate_batches
    stock = getattr(stock, "replaces", stock)

    def generate_batches(self: Any, set_stats: bool = False) -> Any:
        if self.sequential or self._batches is not None:
            return stock(self, set_stats)
        drawn = list(self.sampler)
        lengths = self.lengths[drawn]
        _check_lengths(lengths, self.batch_max_len, drawn)
        configured = _configured() if None in (ranks, gradient_accumulation_steps) else (1, 1)
        batches = plan_batches(
            lengths,
            self.batch_max_len,
            ranks=ranks or configured[0],
            gradient_accumulation_steps=gradient_accumulation_steps or configured[1],
            batch_size=self.batch_size,
            bin_size=self.bin_size,
            drop_last=self.drop_last,
            cost=cost,
            synchronization=synchronization,
        )
        if set_stats:
            self.total_tokens_used += sum(
                int(lengths[one].sum()) for batch in batches for one in batch
            )
            self.total_token_slots += sum(map(len, batches)) * self.batch_max_len
        self._batches = [[[drawn[place] for place in one] for one in batch] for batch in batches]
        return self._batches

    generate_batches.replaces = stock  # type: ignore[attr-defined]
    module.MultipackBatchSampler.generate_batches = generate_batches


def _check_lengths(lengths: NDArray[Any], batch_max_len: int, positions: Sequence[int]) -> None:
    """By the positions that the caller knows them by; a plan has those in its step."""
    for wrong, limit in (
        (lengths > whole("batch_max_len", batch_max_len), f"batch_max_len is {batch_max_len}"),
        (lengths < 1, "must have at least 1"),
    ):
        if wrong.any():
            place = int(wrong.argmax())
            raise batchplan.InvalidRequest(
                f"sequence {positions[place]} has {lengths[place]} tokens; {limit}"
            )


def _configured() -> tuple[int, int]:
    """Data-parallel ranks, and batches of a rank in an optimizer step, of the run that is configured."""
    base: Any = importlib.import_module("axolotl.integrations.base")
    configuration = base.PluginManager.get_instance().cfg or {}

    def of(name: str) -> int:
        return int(configuration.get(name) or 1)

    world = int(os.environ.get("WORLD_SIZE", "1"))
    ranks = world // of("context_parallel_size") // of("tensor_parallel_size")
    return max(ranks, 1), of("gradient_accumulation_steps")


def __getattr__(name: str) -> Any:
    # Of a class of axolotl's, which is imported when axolotl asks for the plugin.
    if name != "BatchplanPlugin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    base: Any = importlib.import_module("axolotl.integrations.base")

    def register(self: Any, cfg: Any) -> None:
        install()

    return type(name, (base.BasePlugin,), {"register": register, "__module__": __name__})
