#!/usr/bin/env python3
"""What a training step takes under the planners in use, measured on one device.

    python train_speedup.py                # 1 B parameters, bf16, 512 sequences on 8 ranks; on a GPU
    python train_speedup.py --small        # 4 M parameters, 64 sequences on 4 ranks; on a CPU, in minutes
    python train_speedup.py --tiny         # shows that it runs: 0.1 M parameters, short sequences; in half a minute

A transformer with random weights runs forward and backward over long-tailed global batches, planned by costs
that are measured first. Every rank's micro-batches run in turn on the one device, and what the ranks would take
together is composed of them: they wait for each other at every micro-batch, so that a step takes the sum of the
slots' maxima. Planners take turns, run after run, but for padding, which runs once. Of each micro-batch the fastest
run counts, and the spread is how much longer the slowest run of a step took than the fastest. On a CPU one thread
runs. The clock is the wall's, for the costs as for the steps: the machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import itertools
import time
from collections.abc import Sequence

import batchplan
import numpy
import torch
from batchplan.torch import PackedBatch, calibrate
from planners_in_use import Step, batch_rebalance, in_order, packed_rows, padded_to_longest, slime
from torch.nn import functional
from transformer import ONE_BILLION, SMALL, TINY, Shape, Transformer

Times = list[list[float]]

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

BALANCED = "balanced"
PADDED = "pad to longest"


@dataclasses.dataclass
class Machine:
    """What runs the steps."""

    model: Transformer
    device: torch.device
    ranks: int
    budget: int

    def clock(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def run(self, packed: PackedBatch, batch_tokens: int = 1) -> None:
        logits = self.model(packed["input_ids"], packed.position_ids, **packed.flash_attention())
        labels = packed["labels"] if "labels" in packed else packed["input_ids"]
        loss = functional.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum")
        (loss / batch_tokens).backward()

    def measure(self, step: Step, tokens: torch.Tensor) -> Times:
        """Milliseconds, by rank and slot."""
        taken: Times = []
        for rank in step:
            self.model.zero_grad(set_to_none=True)
            taken.append([])
            for microbatch in map(as_computed, rank):
                begin = self.clock()
                self.run(
                    PackedBatch(
                        microbatch,
                        {"input_ids": tokens, "labels": tokens},
                        shifts={"labels": 1},
                        pad_values={"labels": -100},
                    ),
                    tokens.numel(),
                )
                taken[-1].append(1e3 * (self.clock() - begin))
        return taken


@dataclasses.dataclass
class Planned:
    """One planner's step of one batch, and what its runs took."""

    planner: str
    step: Step
    runs: list[Times] = dataclasses.field(default_factory=list)
    # A micro-batch was too large for the device, which planners without a budget come to.
    out_of_memory: bool = False

    def run(self, machine: Machine, tokens: torch.Tensor) -> None:
        if self.out_of_memory:
            return
        try:
            self.runs.append(machine.measure(self.step, tokens))
        except torch.cuda.OutOfMemoryError:
            self.out_of_memory = True
        if self.out_of_memory:
            # Here the exception, which holds what was computed, is gone.
            machine.model.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()

    @property
    def microbatches(self) -> int:
        return sum(map(len, self.step))

    def over(self, budget: int) -> int:
        """Micro-batches of more tokens than the budget."""
        return sum(as_computed(one).width > budget for rank in self.step for one in rank)

    @property
    def milliseconds(self) -> float:
        return lockstep([[min(times) for times in zip(*rank)] for rank in zip(*self.runs)])

    @property
    def spread(self) -> float:
        steps = [lockstep(run) for run in self.runs]
        return max(steps) / min(steps) - 1

    def predicted(self, cost: batchplan.CostModel) -> float:
        return lockstep([[predicted(as_computed(one), cost) for one in rank] for rank in self.step])


def predicted(microbatch: batchplan.MicroBatch, cost: batchplan.CostModel) -> float:
    aligned = numpy.diff(microbatch.cu_seqlens_padded).astype(numpy.float64)
    return (
        cost.per_microbatch
        + cost.per_sequence * len(aligned)
        + cost.per_token * aligned.sum()
        + cost.per_token_squared * (aligned**2).sum()
    )


def lockstep(of_ranks: Sequence[Sequence[float]]) -> float:
    """What ranks take that wait for each other at every slot; one that has run out of work waits too."""
    return sum(max(slot) for slot in itertools.zip_longest(*of_ranks, fillvalue=0.0))


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


def plans_of(lengths: numpy.ndarray, machine: Machine, cost: batchplan.CostModel) -> list[Planned]:
    """verl's is the rule of verl 0.9.1, which keeps the budget."""
    ranks, budget = machine.ranks, machine.budget
    common = {"dp": ranks, "cost": cost}
    even = batchplan.Pass(budget, equal_sequence_counts=True)
    plans = {
        "NeMo-RL packing": batchplan.plan(lengths, max_tokens=budget, preset="nemo_rl_packing", **common),
        "verl": batchplan.plan(lengths, max_tokens=budget, preset="verl", **common),
        BALANCED: batchplan.plan(lengths, max_tokens=budget, **common),
        "balanced, equal counts": batchplan.plan(lengths, passes=[even], **common),
    }
    slots = plans["NeMo-RL packing"].metrics.microbatches // ranks
    steps: dict[str, Step | None] = {
        PADDED: padded_to_longest(lengths, ranks, budget),
        "Hugging Face, in order": in_order(lengths, ranks, slots),
        "Hugging Face": batch_rebalance(lengths, ranks, slots),
        "TRL packing": packed_rows(lengths, ranks, budget),
        "slime": slime(lengths, ranks, budget),
    }
    for name, plan in plans.items():
        steps[name] = [list(plan.rank(rank)) for rank in range(ranks)]
    return [Planned(name, step) for name, step in steps.items() if step is not None]


def print_table(batches: Sequence[Sequence[Planned]], budget: int, cost: batchplan.CostModel) -> None:
    print(f"{'planner':24} {'micro-batches':>13} {'over budget':>12} {'steps, ms':>10} {'spread':>7} "
          f"{'over balanced':>14} {'per batch':>16} {'predicted, ms':>14} {'off by':>7}")
    by_planner = list(zip(*batches))
    reference = next(each for each in by_planner if each[0].planner == BALANCED)
    if any(one.out_of_memory for one in reference):
        raise SystemExit(f"{BALANCED}: out of memory; give a smaller --budget")
    for each in by_planner:
        if any(one.out_of_memory for one in each):
            print(
                f"{each[0].planner:24} {sum(one.microbatches for one in each):13,} "
                f"{sum(one.over(budget) for one in each):12,} out of memory"
            )
            continue
        took = [one.milliseconds for one in each]
        told = [one.predicted(cost) for one in each]
        against = [mine / other.milliseconds - 1 for mine, other in zip(took, reference)]
        total = sum(took) / sum(other.milliseconds for other in reference) - 1
        off = sum(abs(a / b - 1) for a, b in zip(told, took)) / len(took)
        print(
            f"{each[0].planner:24} {sum(one.microbatches for one in each):13,} "
            f"{sum(one.over(budget) for one in each):12,} {sum(took):10,.1f} "
            f"{max(one.spread for one in each):7.1%} {total:+14.1%} "
            f"{f'{min(against):+.1%} to {max(against):+.1%}':>16} {sum(told):14,.1f} {off:7.1%}"
        )


def print_order(batches: Sequence[Sequence[Planned]], cost: batchplan.CostModel) -> None:
    """How far predictions are off, and how often they tell the faster of two plans that are well apart."""
    right = apart = 0
    for batch in batches:
        measured = [one for one in batch if not one.out_of_memory]
        for one, other in itertools.combinations(measured, 2):
            told = one.predicted(cost) / other.predicted(cost)
            if max(told, 1 / told) > 1.05:
                apart += 1
                right += (told > 1) == (one.milliseconds > other.milliseconds)
    ran = [one for batch in batches for one in batch if not one.out_of_memory]
    off = [abs(one.predicted(cost) / one.milliseconds - 1) for one in ran]
    print(f"predictions were off by {sum(off) / len(off):.1%} on the mean, {max(off):.1%} at most")
    print(f"of {apart} pairs of plans that the costs put more than 5% apart, {right} were measured in that order")


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is trained. Lengths are lognormal, cut at the longest."""

    shape: Shape
    # Of a global batch.
    sequences: int
    ranks: int
    # Tokens of a micro-batch.
    budget: int
    median: int
    longest: int


SETTINGS = {
    "large": Setting(ONE_BILLION, sequences=512, ranks=8, budget=16_384, median=900, longest=16_384),
    "small": Setting(SMALL, sequences=64, ranks=4, budget=2_048, median=200, longest=2_000),
    "tiny": Setting(TINY, sequences=16, ranks=2, budget=256, median=60, longest=256),
}


def parse() -> tuple[Setting, int, int, torch.device]:
    """The setting, global batches, runs of each plan, and where they run."""

    def of_each(name: str) -> str:
        return ", ".join(f"{getattr(setting, name)} ({size})" for size, setting in SETTINGS.items())

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--small", action="store_const", dest="size", const="small", default="large",
                      help="a small model on short sequences, as a CPU can")
    size.add_argument("--tiny", action="store_const", dest="size", const="tiny",
                      help="to see that it runs: its micro-batches take too little time to be compared")
    parser.add_argument("--sequences", type=int, help=f"of a global batch; {of_each('sequences')}")
    parser.add_argument("--ranks", type=int, help=f"data-parallel; {of_each('ranks')}")
    parser.add_argument("--budget", type=int, help=f"tokens of a micro-batch; {of_each('budget')}")
    parser.add_argument("--longest", type=int, help=f"tokens of the longest; {of_each('longest')}")
    parser.add_argument("--batches", type=int, default=3, help="global batches, of other sequences each")
    parser.add_argument("--runs", type=int, default=3, help="of each plan")
    arguments = parser.parse_args()
    for name in ("sequences", "ranks", "budget", "longest", "batches", "runs"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            parser.error(f"--{name} is {value}; must be at least 1")
    given = {name: getattr(arguments, name) for name in ("sequences", "ranks", "budget", "longest")}
    setting = dataclasses.replace(
        SETTINGS[arguments.size], **{name: value for name, value in given.items() if value is not None}
    )
    if setting.longest > setting.budget:
        parser.error(f"--longest is {setting.longest}; must be at most --budget, {setting.budget}")
    if setting.sequences % setting.ranks:
        parser.error(f"--sequences is {setting.sequences}; must be a multiple of --ranks, {setting.ranks}: "
                     "some planners give each rank as many")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and arguments.size == "large":
        parser.error("no GPU was found; --small runs on a CPU")
    return setting, arguments.batches, arguments.runs, device


def keep_memory() -> None:
    """Has glibc keep large blocks, as the allocator of a GPU does. Otherwise the kernel hands them out anew and cleared
    each time, and long sequences, whose scores are large, take up to twice as long as what they compute."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def main() -> None:
    setting, batches, runs, device = parse()
    if device.type == "cpu":
        torch.set_num_threads(1)
        keep_memory()
    torch.manual_seed(1)
    # Flash attention is for 16 bits.
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    machine = Machine(Transformer(setting.shape).to(device, dtype), device, setting.ranks, setting.budget)
    parameters = sum(one.numel() for one in machine.model.parameters())
    print(f"{parameters / 1e6:,.1f} M parameters on {torch.cuda.get_device_name() if device.type == 'cuda' else 'CPU'}, "
          f"{batches} batches of {setting.sequences} sequences on {setting.ranks} ranks, {setting.budget:,} tokens a "
          f"micro-batch; {runs} runs")
    calibration = calibrate(
        machine.run,
        setting.budget,
        vocabulary=setting.shape.vocabulary,
        device=device,
        longest=setting.longest,
    )
    cost = calibration.cost
    print(f"costs: {cost.per_token:.3g} ms a token, {cost.per_token_squared:.3g} a token squared, "
          f"{cost.per_sequence:.3g} a sequence, {cost.per_microbatch:.3g} a micro-batch; error {calibration.error:.1%}")

    measured = []
    for seed in range(batches):
        generator = numpy.random.default_rng(seed)
        lengths = generator.lognormal(numpy.log(setting.median), 0.9, setting.sequences)
        lengths = numpy.clip(lengths, 8, setting.longest).astype(numpy.uint32)
        tokens = torch.randint(0, setting.shape.vocabulary, (setting.sequences, setting.longest), device=device)
        batch = plans_of(lengths, machine, cost)
        for run in range(runs):
            for planned in batch:
                # Padded, a step takes as long as all others together, and no second run would make it look better.
                if run == 0 or planned.planner != PADDED:
                    planned.run(machine, tokens)
        measured.append(batch)
    print_table(measured, setting.budget, cost)
    print_order(measured, cost)


if __name__ == "__main__":
    main()
