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


def wrap(owner: Any, name: str, wrapper: Callable[[Any], Any], *, everywhere: bool = True) -> None:
    """Puts what `wrapper` makes of the trainer's own function in its place, also where that was wrapped
    before: of a class its method, of a module its function wherever it is used, as `replace`. Without
    `everywhere` it is replaced in this module alone."""
    stock = stock_of(getattr(owner, name))
    replacement = wrapper(stock)
    replacement._batchplan_replaces = stock
    if everywhere and isinstance(owner, ModuleType):
        replace(owner, name, replacement)
    else:
        setattr(owner, name, replacement)


def stock_of(function: Any) -> Any:
    """The trainer's own function or class, of one that maybe stands in its place."""
    return getattr(function, "_batchplan_replaces", function)
