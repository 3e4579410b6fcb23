"""Plans with context-parallel groups that differ in size, by hand: every size comes, whatever a planner
would choose."""

import dataclasses
import json
import math

import batchplan
import numpy
from batchplan import _plan_metrics

_NO_METRICS = {
    _plan_metrics._camel(field.name): False if field.name == "certified_optimal" else 0
    for field in dataclasses.fields(batchplan.PlanMetrics)
    if field.name != "loads"
} | {"loads": []}


def slots_of_every_size(lengths, pool, per_rank, *, least=1, most=None, multiple=1, tensor_multiple=1):
    """Of each slot, its groups: (ranks, sequences). A slot begins with a group of `most` ranks, or of the next
    smaller size than the slot before, is filled up with smaller ones, and each group takes the longest
    sequences that fit into per_rank tokens of each of its ranks."""
    most = most or pool
    left = sorted(range(len(lengths)), key=lambda sequence: -lengths[sequence])
    size, slots = most, []
    while left:
        sizes = [size]
        while sum(sizes) < pool:
            smaller = max(least, sizes[-1] // 2)
            while smaller > pool - sum(sizes):
                smaller //= 2
            sizes.append(smaller)
        groups = []
        for ranks in sizes:
            aligned_to = math.lcm(multiple, (2 * ranks if ranks > 1 else 1) * tensor_multiple)
            free, taken = ranks * per_rank // aligned_to, []
            for sequence in left:
                if -(-lengths[sequence] // aligned_to) <= free:
                    taken.append(sequence)
                    free -= -(-lengths[sequence] // aligned_to)
            left = [sequence for sequence in left if sequence not in taken]
            groups.append((ranks, taken))
        slots.append(groups)
        size = 1 << (size - 1).bit_length() - 1 if size > least else most
    return slots


class Planned:
    """What the core gives of a plan, of slots [(ranks, sequences), ...] by mini-batch."""

    def __init__(self, lengths, mini_batches, ranks, multiple, tensor_multiple):
        groups = [group for slots in mini_batches for slot in slots for group in slot]
        index = [sequence for _, own in groups for sequence in own]
        self._ranks, self._multiple = ranks, multiple
        self._widths = []
        for size, own in groups:
            aligned_to = math.lcm(multiple, (2 * size if size > 1 else 1) * tensor_multiple)
            self._widths.append(sum(-(-int(lengths[one]) // aligned_to) * aligned_to for one in own))
        self._index = index
        self._lengths = [int(lengths[one]) for one in index]
        self._offsets = numpy.cumsum([0] + [len(own) for _, own in groups])
        self._sizes = [size for size, _ in groups]
        self._slots = [len(slots) for slots in mini_batches]

    def head(self):
        one = {"name": "", "lengthMultiple": self._multiple, "decisions": [], "metrics": {
            **_NO_METRICS, "microbatches": len(self._sizes), "trueTokens": str(sum(self._lengths))}}
        return {"passes": [one], "excluded": [], "fingerprint": "handmade", "plannerVersion": "none"}

    def ranks(self):
        return self._ranks

    def sequence_index(self, number):
        return _uint32s(self._index)

    def shared_tokens(self, number):
        return _uint32s([])

    def item_ranks(self, number):
        return []

    def microbatch_offsets(self, number):
        return _uint32s(self._offsets)

    def microbatches_per_rank(self, number):
        return _uint32s(self._slots)

    def row_widths(self, number):
        return _uint32s(self._widths)

    def sequence_lengths(self, number):
        return _uint32s(self._lengths)

    def deferred(self):
        return _uint32s([])

    def context_sizes(self, number):
        return _uint32s(self._sizes)


def _uint32s(values):
    array = numpy.array(values, numpy.uint32)
    array.flags.writeable = False
    return array


def dynamic_plan(lengths, dp, cp, per_rank, *, mini_batch_size=None, tp=1, multiple=1, **sizes):
    """The plan of a pool of dp * cp ranks that hold per_rank tokens each; tp ranks divide sequences, too."""
    lengths = numpy.asarray(lengths)
    step = mini_batch_size or len(lengths)
    mini_batches = []
    for begin in range(0, len(lengths), step):
        slots = slots_of_every_size(
            lengths[begin : begin + step].tolist(), dp * cp, per_rank, multiple=multiple, tensor_multiple=tp, **sizes)
        mini_batches.append(
            [[(ranks, [begin + one for one in own]) for ranks, own in slot] for slot in slots])
    planned = Planned(lengths, mini_batches, dp * cp, math.lcm(multiple, tp), tp)
    topology = {"data_parallel": dp, "context_parallel": cp, "tensor_parallel": tp, "sequence_parallel": tp > 1,
                "dynamic_context": {}}
    request = {"topology": topology, "passes": [{"max_tokens_per_microbatch": per_rank * cp}]}
    return batchplan.Plan(planned, json.dumps(request), "by hand")
