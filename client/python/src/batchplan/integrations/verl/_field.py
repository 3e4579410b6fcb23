"""What workers read of a batch: the lengths of its sequences, and the field in which it carries its plan.

It has an int64 a sequence, so that whatever chunks, selects or reorders the batch takes it along: the
slot of its micro-batch, counted over all mini-batches, and how many sequences of this rank are in
that micro-batch. So a worker can tell from its own sequences alone whether a micro-batch is whole.
A batch has one field for each way that workers go through it: the training of its mini-batches,
passes over all of it at once, each with the budget that it was planned for.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy
from numpy.typing import NDArray

Use = Literal["train", "infer"]
Int64s = NDArray[numpy.int64]
# Slots stand above it, sequences below.
_SEQUENCE_BITS = 32


def field_name(use: Use, budget: int) -> str:
    """What the field of a use is called; `budget` in tokens of a whole micro-batch, as workers get it."""
    return f"batchplan_{use}_{budget}"


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


def sequence_lengths(tensors: Any) -> Int64s:
    """Tokens of each sequence of a TensorDict, of its nested input_ids or else its attention_mask."""
    ids = tensors["input_ids"]
    if not ids.is_nested:
        return mask_lengths(tensors["attention_mask"])
    lengths: Int64s = ids.offsets().diff().cpu().numpy().astype(numpy.int64)
    return lengths


def mask_lengths(mask: Any) -> Int64s:
    """Tokens of each sequence of an attention mask."""
    lengths: Int64s = mask.reshape(mask.shape[0], -1).sum(-1).cpu().numpy().astype(numpy.int64)
    return lengths
