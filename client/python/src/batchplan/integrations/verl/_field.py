"""What workers read of a batch: the lengths and patches of its sequences, and the field in which it carries its plan.

A batch has one field for each way that workers go through it: the training of its mini-batches,
passes over all of it at once, each with the budget that it was planned for.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy

import batchplan
from batchplan.integrations._image_patches import patches_of
from batchplan.integrations._slot_field import Int64s, mask_lengths, read

__all__ = ["Int64s", "Use", "field_name", "mask_lengths", "read", "sequence_lengths", "sequence_patches"]

Use = Literal["train", "infer"]


def field_name(use: Use, budget: int) -> str:
    """What the field of a use is called; `budget` in tokens of a whole micro-batch, as workers get it."""
    return f"batchplan_{use}_{budget}"


def sequence_lengths(tensors: Any) -> Int64s:
    """Tokens of each sequence of a TensorDict, of its nested input_ids or else its attention_mask."""
    ids = tensors["input_ids"]
    if not ids.is_nested:
        return mask_lengths(tensors["attention_mask"])
    lengths: Int64s = ids.offsets().diff().cpu().numpy().astype(numpy.int64)
    return lengths


def sequence_patches(fields: Any, count: int) -> Int64s:
    """Image patches of each of `count` sequences, by their multi_modal_inputs; without these, none.

    Args:
        fields: a TensorDict, or the non-tensors of a DataProto.

    Raises:
        InvalidRequest: a sequence's are not known.
    """
    found = numpy.zeros(count, numpy.int64)
    inputs = fields.get("multi_modal_inputs", None)
    for place, one in enumerate(() if inputs is None else inputs):
        patches = patches_of(getattr(one, "data", one))
        if patches is None:
            raise batchplan.InvalidRequest(
                f"multi_modal_inputs[{place}] has pixels without image_grid_thw or video_grid_thw, so that its patches "
                "are not known: unset BATCHPLAN_LIMIT and BATCHPLAN_LOAD_COST"
            )
        found[place] = patches
    return found
