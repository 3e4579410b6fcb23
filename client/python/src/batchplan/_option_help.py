"""Shows the options of functions with **options in help() and in editors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from batchplan import _choices
from batchplan._option_table import OPTIONS, Option
from batchplan._options import PlanOptions

Function = TypeVar("Function", bound=Callable[..., Any])
_WIDTH = 96


class _Annotation(str):
    """A type that is shown without quotes."""

    __repr__ = str.__str__


def takes_options(
    *, without: Collection[str] = (), defaults: dict[str, Any] | None = None
) -> Callable[[Function], Function]:
    """Decorates a function that ends with **options: its signature shows each option, and its docstring
    describes them below the line "options: ...".

    Args:
        without: options that the function refuses.
        defaults: options whose defaults differ in this function.
    """

    def shown(function: Function) -> Function:
        taken = [
            one._replace(default=(defaults or {}).get(one.name, one.default))
            for one in OPTIONS
            if one.name not in without
        ]
        stated: Any = function
        own = inspect.signature(function)
        *parameters, _ = own.parameters.values()
        stated.__signature__ = own.replace(parameters=[*parameters, *map(_parameter, taken)])
        # With python -OO there are no docstrings.
        if function.__doc__ is not None:
            function.__doc__ = _with_options(function.__doc__, taken)
        return function

    return shown


@functools.cache
def _parameter(option: Option) -> inspect.Parameter:
    annotation: Any = PlanOptions.__annotations__[option.name]
    text = getattr(annotation, "__forward_arg__", annotation)
    choice = getattr(_choices, text, None)
    if choice is not None:
        text = repr(choice).removeprefix("typing.")
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=_Annotation(text)
    )


def _with_options(doc: str, options: list[Option]) -> str:
    lines = doc.split("\n")
    (begin,) = (place for place, line in enumerate(lines) if line.lstrip().startswith("options: "))
    indent = len(lines[begin]) - len(lines[begin].lstrip()) + 4
    end = begin + 1
    while end < len(lines) and lines[end].startswith(" " * indent):
        end += 1
    shown = [" " * indent + line for one in options for line in _lines(one)]
    return "\n".join([*lines[:end], *shown, *lines[end:]])


@functools.cache
def _lines(option: Option) -> list[str]:
    """The words of an option, in lines."""
    lines = [f"{option.name}:"]
    for word in option.described.split(" "):
        if len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append("   ")
        lines[-1] += " " + word
    return lines
