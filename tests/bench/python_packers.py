#!/usr/bin/env python3
"""batchplan for Python beside what else packs sequences there: time, and how many bins it takes.

    pip install ./client/python seqpacker binpacking prtpy
    tests/bench/python_packers.py [--sequences 2000,16000,131000,1000000] [--limit SECONDS]

One capacity, lengths of a lognormal distribution, given as a NumPy array to whom takes one and as a list to the
others. Of the repetitions of a candidate the fastest counts. A candidate that is slow, and would take longer than
the limit, is left out of larger sizes. Packages that are not installed are left out.
The others pack, and no more; a plan also has its lower bounds proven, its metrics and its fingerprint.
"""

import argparse
import heapq
import importlib.util
import time

import batchplan
import numpy

CAPACITY = 8192


def plain_first_fit_decreasing(lengths):
    """As the trainers' own planners write it."""
    loads, bins = [], []
    for index in sorted(range(len(lengths)), key=lambda one: lengths[one], reverse=True):
        for place, load in enumerate(loads):
            if load + lengths[index] <= CAPACITY:
                loads[place] += lengths[index]
                bins[place].append(index)
                break
        else:
            loads.append(lengths[index])
            bins.append([index])
    return bins


def plain_karmarkar_karp(lengths):
    """The largest differencing method into as few parts as could do; the capacity is not kept, as in the
    planners that use it."""
    parts = -(-sum(lengths) // CAPACITY)
    states = []
    for index, length in enumerate(lengths):
        sums = [(0, ())] * (parts - 1) + [(length, (index,))]
        states.append((-length, index, sums))
    heapq.heapify(states)
    while len(states) > 1:
        _, order, first = heapq.heappop(states)
        _, _, second = heapq.heappop(states)
        merged = sorted(
            (one[0] + other[0], one[1] + other[1]) for one, other in zip(first, reversed(second))
        )
        heapq.heappush(states, (merged[0][0] - merged[-1][0], order, merged))
    return [indices for _, indices in states[0][2]]


def balanced(effort):
    return lambda lengths: batchplan.plan(lengths, max_tokens=CAPACITY, effort=effort)


def packed_by(packer):
    only = batchplan.Pass(CAPACITY, packer=packer)
    return lambda lengths: batchplan.plan(lengths, preset="nemo_rl_packing", passes=[only])


def installed(name):
    return importlib.util.find_spec(name) is not None


def candidates():
    """Name, function, and whether it takes a list. What it returns is a result as its users get it."""
    yield "batchplan, balanced", balanced("default"), False
    yield "batchplan, balanced, fast", balanced("fast"), False
    for packer in ("best_fit_decreasing", "first_fit_decreasing"):
        yield f"batchplan, {packer}", packed_by(packer), False
    if installed("seqpacker"):
        import seqpacker

        for strategy in ("OBFD", "OBFDP", "FFD", "MFFD"):
            packer = seqpacker.Packer(capacity=CAPACITY, strategy=strategy.lower())
            yield f"seqpacker, {strategy}", packer.pack, False
    if installed("prtpy"):
        import prtpy

        yield (
            "prtpy, first fit decreasing",
            lambda lengths: prtpy.pack(prtpy.packing.first_fit_decreasing, CAPACITY, lengths),
            True,
        )
    if installed("binpacking"):
        import binpacking

        yield "binpacking", lambda lengths: binpacking.to_constant_volume(lengths, CAPACITY), True
    yield "plain Python, FFD", plain_first_fit_decreasing, True
    yield "plain Python, KK", plain_karmarkar_karp, True


def fastest(function, lengths, repeats=5):
    best, result = float("inf"), None
    for _ in range(repeats):
        begin = time.perf_counter()
        result = function(lengths)
        best = min(best, time.perf_counter() - begin)
        # One run of what is slow tells enough.
        if best > 1:
            break
    return best, result


def bins_of(result):
    if isinstance(result, batchplan.Plan):
        return [one.indices for one in result.rank(0)]
    return result if isinstance(result, list) else result.bins


def over_capacity(bins, lengths):
    """How many bins of positions are."""
    if sum(map(len, bins)) != len(lengths):
        raise AssertionError("not every sequence is packed once")
    sums = [int(lengths[numpy.asarray(bin, numpy.int64)].sum()) for bin in bins]
    return sum(total > CAPACITY for total in sums)


def overhead(lengths, repeats=30):
    """Of Python over the planner, as a part of the latter: medians."""
    batchplan.plan(lengths, max_tokens=CAPACITY)
    outside, inside = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        made = batchplan.plan(lengths, max_tokens=CAPACITY)
        outside.append(time.perf_counter() - begin)
        inside.append(made.planning_seconds)
    return numpy.median(outside) / numpy.median(inside) - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", default="2000,16000,131000,1000000")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a candidate may take")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sequences.split(",")]
    took = {}
    for size in sizes:
        lengths = numpy.random.default_rng(7).lognormal(7.8, 0.7, size).clip(1, CAPACITY).astype(numpy.uint32)
        bound = batchplan.plan(lengths, max_tokens=CAPACITY).metrics.lower_bound_microbatches
        print(f"\n{size:,} sequences, {int(lengths.sum()):,} tokens, bins of {CAPACITY:,}: at least {bound:,}")
        print(f"{'':32} {'time, ms':>12} {'bins':>9} {'above bound':>12}  over capacity")
        for name, function, takes_list in candidates():
            gives_lengths = name.startswith(("prtpy", "binpacking"))
            # Those that are slow grow with the square of the batch.
            if name in took and took[name][1] * (size / took[name][0]) ** 2 > arguments.limit and took[name][1] > 0.2:
                print(f"{name:32} {f'> {arguments.limit:g} s':>12}")
                continue
            seconds, result = fastest(function, lengths.tolist() if takes_list else lengths)
            bins = bins_of(result)
            took[name] = (size, seconds)
            over = sum(sum(bin) > CAPACITY for bin in bins) if gives_lengths else over_capacity(bins, lengths)
            print(f"{name:32} {1e3 * seconds:12,.2f} {len(bins):9,} {len(bins) / bound - 1:12.2%}  {over}")
        if size <= 20_000:
            print(f"Python beside the planner's own time: {overhead(lengths):.1%}")


if __name__ == "__main__":
    main()
