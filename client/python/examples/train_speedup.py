#!/usr/bin/env python3
"""What a training step takes under four planners, measured on one GPU.

    python train_speedup.py                                # 1 B parameters, bf16, 512 sequences on 8 ranks
    python train_speedup.py --tiny                         # on a CPU, in seconds
    python train_speedup.py --server localhost:50051       # and the costs that a server fits to the run

A transformer with random weights runs forward and backward over a long-tailed global batch. Every rank's
micro-batches run in turn on the one device, and what the ranks would take together is composed of them: they
wait for each other at every micro-batch, so that a step takes the sum of the slots' maxima.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Sequence

import batchplan
import numpy
import torch
from batchplan.torch import PackedBatch
from torch.nn import functional
from transformer import ONE_BILLION, TINY, Transformer

# By rank and slot.
Step = Sequence[Sequence[batchplan.MicroBatch]]


@dataclasses.dataclass
class Measured:
    planner: str
    milliseconds: list[list[float]]
    # Aligned tokens of each micro-batch, and the sum of the squares of their lengths.
    tokens: list[list[int]]
    squares: list[list[int]]
    peak_bytes: list[list[int]]
    true_tokens: int

    @property
    def step_milliseconds(self) -> float:
        return lockstep(self.milliseconds)

    def predicted_milliseconds(self, cost: batchplan.CostModel) -> float:
        of_ranks = [
            [
                cost.per_microbatch + cost.per_token * tokens + cost.per_token_squared * squares
                for tokens, squares in zip(*rank)
            ]
            for rank in zip(self.tokens, self.squares)
        ]
        return lockstep(of_ranks)

    def timings(self) -> list[batchplan.MicroBatchTiming]:
        return [
            batchplan.MicroBatchTiming(*one)
            for rank in zip(self.tokens, self.squares, self.milliseconds, self.peak_bytes)
            for one in zip(*rank)
        ]


def lockstep(of_ranks: Sequence[Sequence[float]]) -> float:
    """What ranks take that wait for each other at every slot; one that has run out of work waits too."""
    return sum(max(slot) for slot in itertools.zip_longest(*of_ranks, fillvalue=0.0))


def planned(plan: batchplan.Plan, ranks: int) -> Step:
    return [list(plan.rank(rank)) for rank in range(ranks)]


def padded_to_longest(lengths: numpy.ndarray, ranks: int, budget: int) -> Step:
    """Without a planner: as the batch comes, as many rows of the longest sequence's width as fit."""
    longest = int(lengths.max())
    at_once = max(1, budget // longest)
    step = []
    for rank in range(ranks):
        own = numpy.arange(len(lengths), dtype=numpy.uint32)[rank::ranks]
        chunks = [own[begin : begin + at_once] for begin in range(0, len(own), at_once)]
        step.append(
            [
                batchplan.MicroBatch(0, rank, slot, index, lengths[index], longest, 1, padded=True)
                for slot, index in enumerate(chunks)
            ]
        )
    return step


def as_computed(microbatch: batchplan.MicroBatch) -> batchplan.MicroBatch:
    """Padding is computed like any token: rows that are padded to a width are sequences of it."""
    if not microbatch.padded:
        return microbatch
    width = microbatch.width
    return dataclasses.replace(
        microbatch,
        lengths=numpy.full(len(microbatch), width, numpy.uint32),
        width=width * len(microbatch),
        length_multiple=1,
        padded=False,
    )


def run(model: Transformer, microbatch: batchplan.MicroBatch, tokens: torch.Tensor, batch_tokens: int) -> None:
    packed = PackedBatch(
        microbatch, {"ids": tokens, "labels": tokens}, shifts={"labels": 1}, pad_values={"labels": -100}
    )
    logits = model(packed["ids"], packed.position_ids, **packed.flash_attention())
    loss = functional.cross_entropy(logits.float(), packed["labels"], ignore_index=-100, reduction="sum")
    (loss / batch_tokens).backward()


def measure(name: str, step: Step, model: Transformer, tokens: torch.Tensor, lengths: numpy.ndarray) -> Measured:
    device = tokens.device
    wait: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    true_tokens = int(lengths.sum())
    found = Measured(name, [], [], [], [], true_tokens)
    # The first of a shape pays for what is kept afterwards.
    run(model, as_computed(step[0][0]), tokens, true_tokens)
    for rank in step:
        times, sums, squares, peaks = [], [], [], []
        model.zero_grad(set_to_none=True)
        for microbatch in map(as_computed, rank):
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            wait()
            begin = time.perf_counter()
            run(model, microbatch, tokens, true_tokens)
            wait()
            times.append(1e3 * (time.perf_counter() - begin))
            aligned = numpy.diff(microbatch.cu_seqlens_padded).astype(numpy.int64)
            sums.append(int(aligned.sum()))
            squares.append(int((aligned**2).sum()))
            peaks.append(torch.cuda.max_memory_allocated() if device.type == "cuda" else 0)
        found.milliseconds.append(times)
        found.tokens.append(sums)
        found.squares.append(squares)
        found.peak_bytes.append(peaks)
    return found


def fitted(server: str, job: str, measured: Sequence[Measured]) -> batchplan.Fit:
    with batchplan.Client(server) as client:
        for step, one in enumerate(measured):
            fit = client.report_step(one.timings(), job_id=job, step=step)
    return fit


def print_table(measured: Sequence[Measured], cost: batchplan.CostModel | None, steps: dict[str, int]) -> None:
    slowest = measured[0].step_milliseconds
    print(f"{'planner':20} {'micro-batches':>13} {'step, ms':>10} {'speed-up':>9} {'tokens/s':>10} {'peak, GB':>9} "
          f"{'predicted, ms':>14} {'off by':>7}")
    for one in measured:
        took = one.step_milliseconds
        peak = max(max(rank) for rank in one.peak_bytes) / 1e9
        predicted = one.predicted_milliseconds(cost) if cost else None
        print(
            f"{one.planner:20} {steps[one.planner]:13,} {took:10,.1f} {slowest / took:8.2f}x "
            f"{1e3 * one.true_tokens / took:10,.0f} {f'{peak:9.1f}' if peak else '-':>9} "
            + (f"{predicted:14,.1f} {abs(predicted / took - 1):7.1%}" if predicted else f"{'-':>14} {'-':>7}")
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a tiny model on short sequences")
    parser.add_argument("--sequences", type=int, help="of the global batch; 512, or 48 with --tiny")
    parser.add_argument("--ranks", type=int, help="data-parallel; 8, or 2 with --tiny")
    parser.add_argument("--budget", type=int, help="tokens of a micro-batch; 16384, or 1024 with --tiny")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each planner; the median counts")
    parser.add_argument("--server", help="host:port that fits costs to the run")
    arguments = parser.parse_args()
    tiny = arguments.tiny
    sequences = arguments.sequences or (48 if tiny else 512)
    ranks = arguments.ranks or (2 if tiny else 8)
    budget = arguments.budget or (1024 if tiny else 16_384)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not tiny:
        parser.error("no GPU was found; --tiny runs on a CPU")

    generator = numpy.random.default_rng(1)
    median, longest = (60, 512) if tiny else (900, 16_384)
    lengths = numpy.clip(generator.lognormal(numpy.log(median), 0.9, sequences), 8, longest).astype(numpy.uint32)
    torch.manual_seed(1)
    shape = TINY if tiny else ONE_BILLION
    model = Transformer(shape).to(device, torch.float32 if tiny else torch.bfloat16)
    parameters = sum(one.numel() for one in model.parameters())
    print(f"{parameters / 1e6:,.1f} M parameters on {torch.cuda.get_device_name() if device.type == 'cuda' else 'CPU'}, "
          f"{sequences} sequences, {int(lengths.sum()):,} tokens, the longest {int(lengths.max()):,}, {ranks} ranks, "
          f"{budget:,} tokens a micro-batch")

    steps: dict[str, Step] = {"pad to longest": padded_to_longest(lengths, ranks, budget)}
    for name, preset in (("dynamic batching", "nemo_rl_dynamic"), ("NeMo-RL packing", "nemo_rl_packing"),
                         ("balanced", "balanced")):
        steps[name] = planned(batchplan.plan(lengths, dp=ranks, max_tokens=budget, preset=preset), ranks)
    # Padded rows may be wider than the longest sequence.
    widest = max(one.width for step in steps.values() for rank in step for one in rank if one.padded)
    tokens = torch.randint(0, shape.vocabulary, (sequences, widest), device=device)
    measured = []
    for name, step in steps.items():
        runs = [measure(name, step, model, tokens, lengths) for _ in range(arguments.repeats)]
        median_step = statistics.median_low(one.step_milliseconds for one in runs)
        measured.append(next(one for one in runs if one.step_milliseconds == median_step))
    fit = fitted(arguments.server, f"train-speedup-{time.time_ns()}", measured) if arguments.server else None
    print_table(measured, fit and fit.cost, {name: sum(map(len, step)) for name, step in steps.items()})
    if fit and fit.cost:
        print(f"fitted: {fit.cost.per_token:.3g} ms a token, {fit.cost.per_token_squared:.3g} ms a token squared, "
              f"{fit.cost.per_microbatch:.3g} ms a micro-batch; error {fit.error:.1%}")


if __name__ == "__main__":
    main()
