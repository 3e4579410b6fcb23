"""What a job's micro-batches cost, measured before it trains."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy
import torch
from torch import distributed

from batchplan._calls import fit_costs
from batchplan._checks import number, whole
from batchplan._errors import Error
from batchplan._measured import MicroBatchTiming
from batchplan._options import CostModel
from batchplan._micro_batch import MicroBatch
from batchplan.torch._packed_batch import PackedBatch

# Micro-batches are full to these parts of the budget, with sequences of so many lengths.
_FILLS = (1, 2, 4, 16)
_LENGTHS = 5


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What micro-batches took, and the costs that follow from it."""

    # In milliseconds, for the cost of plans.
    cost: CostModel
    # Root mean square of the residuals over the mean measured time: 0.03 is three percent.
    error: float
    # One of each kind of micro-batch, with the least of its times.
    timings: tuple[MicroBatchTiming, ...]


def calibrate(
    model_step: Callable[[PackedBatch], Any],
    max_tokens: int,
    *,
    vocabulary: int,
    device: torch.device | str | None = None,
    shortest: int = 64,
    longest: int | None = None,
    length_multiple: int = 1,
    repeats: int = 3,
    cp: int = 1,
    cp_rank: int = 0,
    model_share: float = 1.0,
    group: Any = None,
) -> Calibration:
    """The cost model of this model on this device: runs some dozen micro-batches that differ in how
    full they are and in how long their sequences are, and fits what they took. Costs of another model
    mislead: attention that is as dear as the rest at 4,900 tokens on one is so at 24,576 on another.

        def step(packed):  # forward and backward, as in training
            model(**packed.transformers(model)).logits.logsumexp(-1).mean().backward()

        calibration = calibrate(step, max_tokens=16384, vocabulary=model.config.vocab_size)
        model.zero_grad()
        plan = batchplan.plan(lengths, dp=8, max_tokens=16384, cost=calibration.cost)

    Of groups of one size, what their ranks exchange can't be told from what they compute: it is part of
    cost.per_token, which is then good for this cp. For plans with dynamic_cp, or to compare sizes, measure
    several, each with a step of such groups, and fit the timings of all:

        timings = []
        for cp in (1, 2, 8):
            timings += calibrate(step_of(cp), 2048 * cp, vocabulary=vocabulary, cp=cp, cp_rank=rank % cp).timings
        cost = batchplan.fit_costs(timings).cost

    An exchange that runs behind attention is fitted by what is left to wait for, not as exchange_overlaps.

    Each micro-batch runs once to warm up and `repeats` times with the clock, in turns, of which the
    fastest counts: what else runs on the machine only adds to it. The device is waited for before the
    clock is read. In all that takes as long as some 8 * (repeats + 1) full
    micro-batches. The step leaves gradients behind, as any other.

    Where torch.distributed is initialised every rank has to call it, with the same arguments, also
    because steps of FSDP meet; all ranks then return what the group's first one measured, since they
    plan alike only by the same costs, or raise what it raised where those can't be fitted.

    Args:
        model_step: runs one micro-batch, a PackedBatch with the field "input_ids" of random tokens. All
            its sequences have one length: for padded layouts,
            packed["input_ids"].view(len(packed.row), -1).
        max_tokens: of a micro-batch, over all ranks that share it, as in plans.
        vocabulary: token ids are below it.
        device: of the tokens; None: CUDA's current one if there is any, else the host.
        shortest, longest: lengths of sequences, best those of the data; longest is max_tokens unless
            given, and shortest no longer than it.
        length_multiple: lengths are rounded up to a multiple of it, with cp also of 2 * cp, as in plans.
        repeats: with the clock.
        cp, cp_rank: context-parallel ranks that run a micro-batch together, and which of them this is: the
            step gets its shards.
        model_share: the part of the model that the step runs, 1 / pp of one of pp equal stages. The costs
            are those of the whole model, and of whole sequences on one rank, whatever cp was.
        group: of torch.distributed; None: all ranks.

    Raises:
        ValueError: an argument is below 1, longest above max_tokens, which no micro-batch holds, or
            model_share not above 0 and at most 1; or there is no such cp_rank.
        InvalidRequest: a micro-batch took less than a microsecond, or more than a day, on the group's first
            rank.
    """
    named = {
        "max_tokens": max_tokens,
        "vocabulary": vocabulary,
        "shortest": shortest,
        "longest": max_tokens if longest is None else longest,
        "length_multiple": length_multiple,
        "repeats": repeats,
        "cp": cp,
    }
    given = {name: whole(name, value) for name, value in named.items()}
    for name, value in given.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; must be at least 1")
    share = number("model_share", model_share)
    if not 0 < share <= 1:
        raise ValueError(f"model_share is {share}; must be above 0 and at most 1")
    if given["cp"] > 1:
        given["length_multiple"] = math.lcm(given["length_multiple"], 2 * given["cp"])
    multiple = given["length_multiple"]
    for name in ("length_multiple", "longest"):
        if given[name] > given["max_tokens"]:
            raise ValueError(f"{name} is {given[name]}; must be at most max_tokens, {max_tokens}")
    kinds = _kinds(given["max_tokens"], given["shortest"], given["longest"], multiple)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    batches = [
        _batch(count, length, multiple, vocabulary, place, given["cp"], cp_rank)
        for count, length in kinds
    ]
    taken = _times(model_step, batches, given["repeats"], place)
    timings = tuple(
        MicroBatchTiming(
            count * length,
            count * length**2,
            min(times),
            sequences=count,
            context_parallel=given["cp"],
            model_share=share,
        )
        for (count, length), times in zip(kinds, taken)
    )
    if distributed.is_available() and distributed.is_initialized():
        return _fitted_by_first(timings, group)
    return _fitted(timings)


def _kinds(max_tokens: int, shortest: int, longest: int, multiple: int) -> list[tuple[int, int]]:
    """(sequences, tokens of each), the most tokens first: from one long sequence to many short ones, in
    micro-batches that are full and in some that are not."""
    most = longest // multiple * multiple or multiple
    least = min(shortest, most)
    lengths = {
        min(-(-round(length) // multiple) * multiple, most)
        for length in numpy.geomspace(most, least, _LENGTHS)
    }
    kinds = {
        (max_tokens // fill // length, length)
        for fill in _FILLS
        for length in lengths
        if length <= max_tokens // fill
    }
    return sorted(kinds, key=lambda kind: (-kind[0] * kind[1], kind))


def _batch(
    count: int,
    length: int,
    multiple: int,
    vocabulary: int,
    device: torch.device,
    cp: int,
    cp_rank: int,
) -> PackedBatch:
    microbatch = MicroBatch(
        mini_batch=0,
        rank=0,
        slot=0,
        indices=numpy.arange(count, dtype=numpy.uint32),
        lengths=numpy.full(count, length, dtype=numpy.uint32),
        width=count * length,
        length_multiple=multiple,
        context_parallel=cp,
    )
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(vocabulary, (count, length), generator=random)
    return PackedBatch(microbatch, {"input_ids": tokens.to(device)}, cp=cp, cp_rank=cp_rank)


def _times(
    model_step: Callable[[PackedBatch], Any],
    batches: list[PackedBatch],
    repeats: int,
    device: torch.device,
) -> list[list[float]]:
    """Milliseconds, by micro-batch and repeat. In turns, so that no kind has the slower half of the
    time to itself."""
    taken: list[list[float]] = [[] for _ in batches]
    for repeat in range(repeats + 1):
        for batch, times in zip(batches, taken):
            _wait_for(device)
            begin = perf_counter()
            model_step(batch)
            _wait_for(device)
            if repeat:
                times.append(1000 * (perf_counter() - begin))
    return taken


def _fitted(timings: tuple[MicroBatchTiming, ...]) -> Calibration:
    fit = fit_costs(timings)
    assert fit.cost is not None
    return Calibration(fit.cost, fit.error, timings)


def _fitted_by_first(timings: tuple[MicroBatchTiming, ...], group: Any) -> Calibration:
    """What the group's first rank makes of its own timings, or the error that it meets, on every rank."""
    made: list[Any] = [None]
    if distributed.get_rank(group) == 0:
        try:
            made = [_fitted(timings)]
        except Error as error:
            made = [error]
    first = 0 if group is None else distributed.get_global_rank(group, 0)
    distributed.broadcast_object_list(made, src=first, group=group)
    result: Calibration | Error = made[0]
    if isinstance(result, Error):
        raise result
    return result


def _wait_for(device: torch.device) -> None:
    # torch.cuda, torch.xpu, torch.npu.
    if device.type != "cpu":
        getattr(torch, device.type).synchronize(device)
