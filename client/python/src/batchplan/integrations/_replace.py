"""A trainer's function replaced wherever it is used."""

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
    for user in list(sys.modules.values()):
        names = getattr(user, "__dict__", None)
        if names is None or user.__name__.partition(".")[0] not in (package, "__main__"):
            continue
        for own, value in list(names.items()):
            if value is replaced:
                setattr(user, own, replacement)
