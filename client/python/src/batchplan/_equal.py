"""Whether what holds arrays is equal, by all that is in them."""

from __future__ import annotations

from typing import Any

import numpy


def are_equal(one: Any, other: Any) -> bool:
    """Of arrays, lists, tuples and mappings of these, and of anything else by its own account."""
    if isinstance(one, numpy.ndarray) and isinstance(other, numpy.ndarray):
        return numpy.array_equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(value, other[name]) for name, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(are_equal, one, other))
    if isinstance(one, numpy.ndarray) or isinstance(other, numpy.ndarray):
        return False
    return bool(one == other)
