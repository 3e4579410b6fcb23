"""What arguments must be, before they become a request. Errors name the field as on the wire."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy

from batchplan._errors import InvalidRequest

Member = TypeVar("Member")
_YEAR = 365 * 86400


def whole(name: str, value: Any) -> int:
    """A whole number of Python, NumPy or a tensor with one element. The planner checks its range."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidRequest(f"{name} is {_shown(value)}; must be a whole number") from None


def positive(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    given = whole(name, value)
    if given < 1:
        raise InvalidRequest(f"{name} is {given}; must be at least 1")
    return given


def number(name: str, value: Any) -> float:
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidRequest(f"{name} is {_shown(value)}; must be a number") from None


def seconds(name: str, value: Any) -> float:
    given = number(name, value)
    if not 0 <= given <= _YEAR:
        raise InvalidRequest(f"{name} is {given}; must be 0 to {_YEAR} seconds")
    return given


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, numpy.bool_)):
        raise InvalidRequest(f"{name} is {_shown(value)}; must be True or False")
    return bool(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} is {_shown(value)}; must be a string")
    return value


def members(name: str, values: Any, kind: type[Member]) -> list[Member]:
    """The members of a list or another iterable, which is read once."""
    described = f"a sequence of batchplan.{kind.__name__}"
    if not isinstance(values, Iterable):
        raise InvalidRequest(f"{name} is {_shown(values)}; must be {described}")
    found = list(values)
    for place, one in enumerate(found):
        if not isinstance(one, kind):
            raise InvalidRequest(f"{name}[{place}] is {_shown(one)}; {name} must be {described}")
    return found


def did_you_mean(typed: str, words: Iterable[str]) -> str:
    """ "; did you mean WORD?", or "" if no word is similar."""
    # Of errors alone.
    import difflib

    nearest = difflib.get_close_matches(typed.lower().replace("-", "_"), words, 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
