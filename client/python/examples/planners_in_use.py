"""How trainers without batchplan cut a global batch into each rank's micro-batches: their rules, written anew."""

from __future__ import annotations

from collections.abc import Sequence

import batchplan
import numpy
from batchplan.integrations.verl import get_seqlen_balanced_partitions

# By rank and slot.
Step = Sequence[Sequence[batchplan.MicroBatch]]
Positions = Sequence[int]


def of_positions(lengths: numpy.ndarray, ranks: Sequence[Sequence[Positions]]) -> Step:
    """Packed micro-batches of these positions, by rank and slot."""
    step = []
    for rank, slots in enumerate(ranks):
        indices = [numpy.array(sorted(one), dtype=numpy.uint32) for one in slots]
        step.append(
            [
                batchplan.MicroBatch(0, rank, slot, own, lengths[own], int(lengths[own].sum()), 1)
                for slot, own in enumerate(indices)
            ]
        )
    return step


def padded_to_longest(lengths: numpy.ndarray, ranks: int, budget: int) -> Step:
    """Without a planner, as TRL's GRPO too: as the batch comes, as many rows of the longest's width as fit."""
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


def in_order(lengths: numpy.ndarray, ranks: int, slots: int) -> Step:
    """transformers' default: equal numbers of sequences as they come, packed; it knows no budget."""
    parts = numpy.array_split(numpy.arange(len(lengths)), ranks * slots)
    return of_positions(lengths, [parts[rank::ranks] for rank in range(ranks)])


def batch_rebalance(lengths: numpy.ndarray, ranks: int, slots: int) -> Step | None:
    """By the sampler of transformers' train_sampling_strategy="batch_rebalance", packed; it knows no budget,
    and is given the number of slots. None without transformers."""
    try:
        from transformers.trainer_pt_utils import BatchRebalanceSampler
    except ImportError:
        return None
    samplers = [
        BatchRebalanceSampler(lengths.tolist(), len(lengths), ranks, slots, shuffle=False, rank=rank)
        for rank in range(ranks)
    ]
    return of_positions(lengths, [list(sampler) for sampler in samplers])


def packed_rows(lengths: numpy.ndarray, ranks: int, budget: int, seed: int = 0) -> Step:
    """TRL's packing=True: rows by best fit decreasing, which come to ranks and steps in a random order."""
    best_fit = batchplan.Pass(budget, packer="best_fit_decreasing", sharding="contiguous")
    rows = [one.indices for one in batchplan.plan(lengths, passes=[best_fit]).rank(0)]
    order = numpy.random.default_rng(seed).permutation(len(rows))
    rows = [rows[place] for place in order]
    # The last ones are missing on some ranks.
    return of_positions(lengths, [rows[rank::ranks] for rank in range(ranks)])


def slime(lengths: numpy.ndarray, ranks: int, budget: int) -> Step:
    """slime's dynamic batches with --balance-data: first fit in the batch's order, the fullest split until ranks
    divide their number, then dealt by Karmarkar & Karp's method."""
    bins: list[list[int]] = []
    for place, length in enumerate(lengths.tolist()):
        into = next((one for one in bins if lengths[one].sum() + length <= budget), None)
        if into is None:
            bins.append([place])
        else:
            into.append(place)
    while len(bins) % ranks:
        fullest = max((one for one in bins if len(one) > 1), key=lambda one: int(lengths[one].sum()))
        bins.remove(fullest)
        halves = get_seqlen_balanced_partitions(lengths[fullest].tolist(), 2, equal_size=False)
        bins += [[fullest[place] for place in half] for half in halves]
    costs = [float((24576.0 * lengths[one] + lengths[one].astype(float) ** 2).sum()) for one in bins]
    dealt = get_seqlen_balanced_partitions(costs, ranks, equal_size=True)
    return of_positions(lengths, [[bins[place] for place in own] for own in dealt])
