"""A plan that travels with a rank's sequences: an int64 of each, whatever chunks, selects or reorders them.

It has the slot of the sequence's micro-batch, counted over all mini-batches, and how many sequences of the
rank are in that micro-batch. So a worker tells from its own sequences alone whether a micro-batch is whole.
"""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

import batchplan

Int64s = NDArray[numpy.int64]
# Slots stand above it, sequences below.
_SEQUENCE_BITS = 32


def written(slot: int, sequences: int) -> int:
    """The field's value for each of the `sequences` of one rank that run in a slot."""
    return slot << _SEQUENCE_BITS | sequences


def read(field: Any, count: int) -> tuple[int, list[list[int]]] | None:
    """The micro-batches that a field has for these sequences.

    Args:
        field: the values of this rank's sequences, in whatever order; None, where there is no such field.
        count: how many sequences there are.

    Returns:
        the first slot, and of each slot from there on the positions of its sequences, ascending; None
        where that is not what was planned: a micro-batch is not whole, or one between others is missing.
    """
    if field is None:
        return None
    values = numpy.asarray(field).reshape(-1)
    if values.dtype.kind != "i" or len(values) != count or count == 0:
        return None
    slots, sequences = values >> _SEQUENCE_BITS, values & ((1 << _SEQUENCE_BITS) - 1)
    found, number, sizes = numpy.unique(slots, return_inverse=True, return_counts=True)
    if int(found[-1]) - int(found[0]) != len(found) - 1 or (sizes[number] != sequences).any():
        return None
    by_slot = numpy.argsort(number, kind="stable")
    parts = numpy.split(by_slot, numpy.cumsum(sizes)[:-1])
    return int(found[0]), [part.tolist() for part in parts]


def of_plan(planned: batchplan.PassPlan, ranks: int) -> Int64s:
    """The field of every sequence, by its position in what was planned."""
    counts = planned.microbatches_per_rank.astype(numpy.int64)
    first = numpy.cumsum(counts) - counts
    values = numpy.zeros(len(planned.sequence_index), numpy.int64)
    for rank in range(ranks):
        for one in planned.rank(rank):
            values[one.indices] = written(int(first[one.mini_batch]) + one.slot, len(one))
    return values


def mask_lengths(mask: Any) -> Int64s:
    """Tokens of each sequence of an attention mask."""
    lengths: Int64s = mask.reshape(mask.shape[0], -1).sum(-1).cpu().numpy().astype(numpy.int64)
    return lengths
