"""What trainers load by themselves, as entry points. These modules import nothing, of batchplan neither,
unless the variable BATCHPLAN is 1."""

from __future__ import annotations

import os

_VALUES = {"": False, "0": False, "1": True}


def switched_on() -> bool:
    """Whether BATCHPLAN says so.

    Raises:
        ValueError: it is neither 0 nor 1.
    """
    value = os.environ.get("BATCHPLAN", "").strip()
    if value not in _VALUES:
        raise ValueError(f'BATCHPLAN is "{value}"; must be 1, or 0 for off')
    return _VALUES[value]
