"""A trainer's functions and methods replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def replace(module: ModuleType, name: str, replacement: Callable[..., Any]) -> None:
    """Puts `replacement` in the place of module.name, also in modules of the same package, and in the
    program, that have imported it by name. What is imported later finds it too."""
    replaced = getattr(module, name)
    package = module.__name__.partition(".")[0]
    for place, user in list(sys.modules.items()):
        # Of others, what stands there may be anything.
        if place.partition(".")[0] not in (package, "__main__"):
            continue
        for own, value in list(getattr(user, "__dict__", {}).items()):
            if value is replaced:
                setattr(user, own, replacement)


def wrap(kind: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Puts what `wrapper` makes of a class's own method in its place, also where that was wrapped before."""
    method = getattr(kind, name)
    stock = getattr(method, "_batchplan_replaces", method)
    replacement = wrapper(stock)
    replacement._batchplan_replaces = stock
    setattr(kind, name, replacement)
