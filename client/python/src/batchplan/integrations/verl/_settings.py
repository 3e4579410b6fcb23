"""What the variables of the environment ask for."""

from __future__ import annotations

import os

import batchplan

VARIABLES = ("BATCHPLAN", "BATCHPLAN_COST", "BATCHPLAN_EFFORT", "BATCHPLAN_MINI_BATCHES")
MINI_BATCHES = ("verl", "in_order")


def cost() -> batchplan.CostModel | None:
    """BATCHPLAN_COST: the numbers of a CostModel in its order; None where it is not set.

    Raises:
        ValueError: it is something else.
    """
    text = os.environ.get("BATCHPLAN_COST", "").strip()
    if not text:
        return None
    try:
        numbers = [float(one) for one in text.split(",")]
        return batchplan.CostModel(*numbers)
    except (TypeError, ValueError):
        raise ValueError(
            f'BATCHPLAN_COST is "{text}"; must be the numbers of a batchplan.CostModel, such as "24576,1"'
        ) from None


def effort() -> str | None:
    """BATCHPLAN_EFFORT, which batchplan.plan checks; None where it is not set."""
    return os.environ.get("BATCHPLAN_EFFORT", "").strip() or None


def mini_batches_in_order() -> bool:
    """Whether BATCHPLAN_MINI_BATCHES is "in_order"."""
    text = os.environ.get("BATCHPLAN_MINI_BATCHES", "").strip()
    if text not in ("", *MINI_BATCHES):
        raise ValueError(f'BATCHPLAN_MINI_BATCHES is "{text}"; must be one of {", ".join(MINI_BATCHES)}')
    return text == "in_order"
