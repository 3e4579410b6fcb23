"""For axolotl: the batches of its sample packing, planned for all ranks.

    plugins:
      - batchplan.integrations.axolotl.BatchplanPlugin

in the configuration, beside sample_packing: true. axolotl's sampler packs an epoch into bins, and Accelerate
deals them to the ranks in turn. Planned, the bins that run at the same time are alike in cost, and the bins of
an epoch are a multiple of the ranks, so that no rest is left out. An optimizer step has the next sequences of
the sampler's random order, as many as fit; none is chosen for its length. The last step has the rest. If a step
has only a few bins they are less full than axolotl's, which take sequences from anywhere in the epoch.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
from numpy.typing import ArrayLike, NDArray

import batchplan
from batchplan._checks import whole
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import options_of, slots_or_none

__all__ = ["install", "plan_batches"]

Batches = list[list[list[int]]]
# [slots][bins that run at once] of positions.
Slots = list[list[list[int]]]
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
    batches: int | None = None,
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
        drop_last: leaves out sequences that can't fill a batch on every rank, as Accelerate does. There are
            some only if hardly any two sequences share a bin. An epoch too small to fill a batch on every
            rank keeps its full batches.
        batches: how many, a multiple of ranks, so that every epoch has as many: the last steps are then divided
            anew. An epoch that can't have so many has others.
        cost: of this model, for what ranks are balanced by.
        synchronization: "lockstep", the default, where ranks wait for each other at every micro-batch
            (FSDP, ZeRO-3), or "accumulated", where they do at the end of a step.

    Returns:
        [batches][bins] lists of positions in `lengths`.

    Raises:
        ValueError: a sequence is longer than a bin, or has no token; or ranks do not divide `batches`.
    """
    for name, number in (
        ("ranks", ranks),
        ("gradient_accumulation_steps", gradient_accumulation_steps),
        ("batch_size", batch_size),
    ):
        if whole(name, number) < 1:
            raise batchplan.InvalidRequest(f"{name} is {number}; must be at least 1")
    if batches is not None and whole("batches", batches) % ranks:
        raise batchplan.InvalidRequest(f"batches is {batches}; must be a multiple of ranks {ranks}")
    tokens = numpy.asarray(lengths)
    _check_lengths(tokens, batch_max_len, range(len(tokens)))
    # With more effort there may be more slots than a step has, where that makes them shorter.
    options = options_of(cost, synchronization, "fast")
    epoch = _Epoch(tokens, batchplan.Pass(batch_max_len, max_sequences=bin_size or None), options)
    # Bins that run at once.
    at_once = ranks * batch_size
    steps = epoch.steps(at_once, gradient_accumulation_steps)
    if batches is not None and steps:
        steps = epoch.merged(steps[:-1], steps[-1], at_once, batches // ranks) or steps
    planned: Batches = [
        slot[first : first + batch_size]
        for step in steps
        for slot in step.slots
        for first in range(0, at_once, batch_size)
    ]
    begin = steps[-1].end if steps else 0
    if begin < len(tokens) and not (drop_last and planned):
        bins = [one for slot in epoch.planned(begin, len(tokens), 1) or () for one in slot]
        planned += [bins[first : first + batch_size] for first in range(0, len(bins), batch_size)]
        if drop_last and len(planned[-1]) < batch_size:
            planned.pop()
    return planned


class _Step(NamedTuple):
    """Of the sequences from begin to end."""

    begin: int
    end: int
    slots: Slots


class _Epoch:
    """Sequences in the order in which they were drawn, to be cut into steps."""

    def __init__(
        self, tokens: NDArray[Any], bins: batchplan.Pass, options: batchplan.PlanOptions
    ) -> None:
        self._tokens = tokens
        self._bins = bins
        self._options = options

    def planned(self, begin: int, end: int, at_once: int, least: int = 1) -> Slots | None:
        """Slots of `at_once` bins, at least `least` of them. No bin is empty: None if the sequences are too few
        for that."""
        only = dataclasses.replace(self._bins, min_microbatches=least)
        options: batchplan.PlanOptions = {**self._options, "dp": at_once, "passes": [only]}
        found = slots_or_none(self._tokens[begin:end], options)
        return found and [[[begin + place for place in one] for one in slot] for slot in found]

    def steps(self, at_once: int, of_step: int) -> list[_Step]:
        """Cuts the epoch into steps of `of_step` slots. The last step takes the rest, in any number of slots.
        Sequences that are too few for one slot stay out."""
        sums = numpy.concatenate([[0], numpy.cumsum(self._tokens, dtype=numpy.int64)])
        room = _FULL * of_step * at_once * (self._bins.max_tokens or 0)
        steps: list[_Step] = []
        begin, count = 0, len(self._tokens)
        while count - begin >= at_once:
            most = int(numpy.searchsorted(sums, sums[begin] + room, "right")) - 1
            # As many sequences as a step has bins always fit.
            most = max(most, begin + at_once * of_step)
            if most + at_once > count:
                return self._with_rest(steps, begin, at_once)
            steps.append(self._longest(begin, most, at_once, of_step))
            begin = steps[-1].end
        return steps

    def _longest(self, begin: int, most: int, at_once: int, of_step: int) -> _Step:
        """The longest step, to one sequence in 128, that ends at `most` or before."""
        least = begin + at_once * of_step
        grain = max((most - begin) // 128, 1)
        fits, fails, end = least, most + 1, most
        while fails - fits > grain:
            if self._packed(begin, end) <= at_once * of_step:
                fits = end
            else:
                fails = end
            end = (fits + fails) // 2
        while True:
            slots = self.planned(begin, fits, at_once, of_step)
            if slots is not None and len(slots) == of_step:
                return _Step(begin, fits, slots)
            if fits == least:
                raise RuntimeError(f"{at_once * of_step} sequences were not planned in as many bins")
            fits = max(fits - grain, least)

    def _packed(self, begin: int, end: int) -> int:
        """How many bins hold the sequences, by a packer that takes a small part of a plan's time."""
        quickly = dataclasses.replace(self._bins, packer="best_fit_decreasing")
        return batchplan.plan(self._tokens[begin:end], passes=[quickly]).metrics.microbatches

    def _with_rest(self, steps: list[_Step], begin: int, at_once: int) -> list[_Step]:
        """Adds the last step: all sequences from `begin` on. If even the whole epoch is too small to fill slots,
        the last step leaves some of its own sequences out."""
        end = len(self._tokens)
        merged = self.merged(steps, _Step(begin, end, []), at_once)
        if merged is not None:
            return merged
        slots: Slots | None = None
        while slots is None:
            # Ends at the latest where there is one sequence for each bin.
            end -= 1
            slots = self.planned(begin, end, at_once)
        return [*steps, _Step(begin, end, slots)]

    def merged(
        self, steps: list[_Step], last: _Step, at_once: int, total: int | None = None
    ) -> list[_Step] | None:
        """The steps and the last one, planned anew. If its sequences are too few to fill slots, or to have what
        is missing to `total` slots, steps before it are merged into it, with twice as many sequences each time.
        None: it did not help."""
        kept, first, end = len(steps), last.begin, last.end
        while True:
            least = 1
            if total is not None:
                least = total - sum(len(step.slots) for step in steps[:kept])
            slots = self.planned(first, end, at_once, least) if least > 0 else None
            if slots is not None and (total is None or len(slots) == least):
                # They make several steps of the optimizer: in the order of sequences, not of costs.
                slots.sort(key=lambda slot: min(map(min, slot)))
                return [*steps[:kept], _Step(first, end, slots)]
            if kept == 0:
                return None
            twice = end - 2 * (end - first)
            while kept and first > twice:
                kept -= 1
                first = steps[kept].begin


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

    def generating(stock: Any) -> Any:
        @functools.wraps(stock)
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
                batches=_as_before(self, ranks or configured[0]),
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

        return generate_batches

    wrap(module.MultipackBatchSampler, "generate_batches", generating)


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


def _as_before(sampler: Any, ranks: int) -> int | None:
    """The batches of every epoch, once the sampler knows: it leaves out what is beyond them."""
    batches: int | None = getattr(sampler, "_len_across_ranks", None)
    return batches if batches and batches % ranks == 0 else None


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
