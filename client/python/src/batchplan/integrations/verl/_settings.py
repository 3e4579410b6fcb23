"""What the variables of the environment ask for."""

from __future__ import annotations

import dataclasses
import os

import batchplan
from batchplan.integrations._image_patches import PATCHES

VARIABLES = (
    "BATCHPLAN", "BATCHPLAN_COST", "BATCHPLAN_EFFORT", "BATCHPLAN_LIMIT", "BATCHPLAN_LOAD_COST",
    "BATCHPLAN_MINI_BATCHES",
)  # fmt: skip
MINI_BATCHES = ("verl", "in_order")


def cost() -> batchplan.CostModel | None:
    """BATCHPLAN_COST: the numbers of a CostModel in its order, with BATCHPLAN_LOAD_COST; None where it is not set.

    Raises:
        ValueError: it is something else, or the cost of a load has none beside it.
    """
    text, of_load = _text("BATCHPLAN_COST"), _text("BATCHPLAN_LOAD_COST")
    if not text and of_load:
        raise ValueError(f'BATCHPLAN_LOAD_COST is "{of_load}"; set BATCHPLAN_COST too, whose unit it has')
    if not text:
        return None
    try:
        numbers = [float(one) for one in text.split(",")]
        model = batchplan.CostModel(*numbers)
    except (TypeError, ValueError):
        raise ValueError(
            f'BATCHPLAN_COST is "{text}"; must be the numbers of a batchplan.CostModel, such as "24576,1"'
        ) from None
    return dataclasses.replace(model, loads=(_load_cost(of_load),)) if of_load else model


def limits() -> dict[str, float] | None:
    """BATCHPLAN_LIMIT: the patches that a micro-batch may have; None where it is not set.

    Raises:
        ValueError: it is something else.
    """
    text = _text("BATCHPLAN_LIMIT")
    if not text:
        return None
    name, _, number = text.partition("=")
    try:
        limit = float(number)
    except ValueError:
        limit = 0.0
    if name.strip() != PATCHES or not 1 <= limit < 2**53:
        raise ValueError(f'BATCHPLAN_LIMIT is "{text}"; must be "{PATCHES}=" and a number of at least 1')
    return {PATCHES: limit}


def loads() -> tuple[str, ...]:
    """What sequences are planned by beside tokens."""
    return (PATCHES,) if _text("BATCHPLAN_LIMIT") or _text("BATCHPLAN_LOAD_COST") else ()


def refuse_loads(why: str) -> None:
    """Where groups of ranks go by tokens alone.

    Raises:
        ValueError: loads are asked for.
    """
    for name in ("BATCHPLAN_LIMIT", "BATCHPLAN_LOAD_COST"):
        if _text(name):
            raise ValueError(f'{name} is "{_text(name)}": {why}; unset it')


def _load_cost(text: str) -> batchplan.LoadCost:
    name, _, rest = text.partition("=")
    number, _, phase = rest.partition(":")
    try:
        per_unit = float(number)
    except ValueError:
        per_unit = -1.0
    if name.strip() != PATCHES or per_unit < 0 or phase.strip() not in ("", "separate"):
        raise ValueError(
            f'BATCHPLAN_LOAD_COST is "{text}"; must be "{PATCHES}=", a number of at least 0, and maybe ":separate"'
        )
    return batchplan.LoadCost(PATCHES, per_unit, separate=bool(phase.strip()))


def _text(name: str) -> str:
    return os.environ.get(name, "").strip()


def effort() -> str | None:
    """BATCHPLAN_EFFORT, which batchplan.plan checks; None where it is not set."""
    return _text("BATCHPLAN_EFFORT") or None


def mini_batches_in_order() -> bool:
    """Whether BATCHPLAN_MINI_BATCHES is "in_order"."""
    text = _text("BATCHPLAN_MINI_BATCHES")
    if text not in ("", *MINI_BATCHES):
        raise ValueError(f'BATCHPLAN_MINI_BATCHES is "{text}"; must be one of {", ".join(MINI_BATCHES)}')
    return text == "in_order"
