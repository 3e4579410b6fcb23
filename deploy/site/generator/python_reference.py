"""The Python package as pages: signatures and docstrings of the installed one, and the comments of its fields."""

import dataclasses
import importlib
import inspect
import re
import textwrap

from generator import markdown

_SECTION = re.compile(r"^(Args|Arguments|Attributes|Raises|Returns|Yields):$")
_OPERATORS = ("__enter__", "__getitem__", "__iter__", "__len__")


def _annotation(annotation):
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _parameter(parameter):
    name = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "") + parameter.name
    kind = _annotation(parameter.annotation)
    shown = f"{name}: {kind}" if kind else name
    if parameter.default is not inspect.Parameter.empty:
        default = "..." if "<factory>" in repr(parameter.default) else repr(parameter.default)
        shown += f" = {default}" if kind else f"={default}"
    return shown


def signature(name, called):
    """As one would write it, an argument a line where it is long."""
    try:
        found = inspect.signature(called)
    except (TypeError, ValueError):
        return name
    shown, keywords = [], False
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        keywords |= parameter.kind == inspect.Parameter.VAR_POSITIONAL
        if parameter.kind == inspect.Parameter.KEYWORD_ONLY and not keywords:
            shown.append("*")
            keywords = True
        shown.append(_parameter(parameter))
    returned = _annotation(found.return_annotation)
    behind = f" -> {returned}" if returned and returned != "None" else ""
    line = f"{name}({', '.join(shown)}){behind}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){behind}"


def docstring(documented):
    """Its prose, and the sections of its arguments and exceptions as lists."""
    text = documented if isinstance(documented, str) else inspect.getdoc(documented)
    if not text:
        return ""
    shown, lines = [], []
    rest = inspect.cleandoc(text).splitlines()
    while rest:
        line = rest.pop(0)
        if not _SECTION.match(line):
            lines.append(line)
            continue
        shown.append(markdown.paragraphs(lines))
        lines, inside = [], []
        while rest and (not rest[0].strip() or rest[0].startswith("  ")):
            inside.append(rest.pop(0))
        shown.append(_section(line[:-1], textwrap.dedent("\n".join(inside)).strip().splitlines()))
    shown.append(markdown.paragraphs(lines))
    return "\n\n".join(part for part in shown if part) + "\n\n"


def _section(title, lines):
    entries = []
    for line in lines:
        named = re.match(r"(\*{0,2}\w[\w., *]*): (.*)|(\w[\w., ]*):$", line)
        if named and not line.startswith(" "):
            entries.append((named[1] or named[3], [named[2] or ""]))
        elif entries:
            entries[-1][1].append(line.strip())
        else:
            entries.append(("", [line]))
    shown = [f"**{title}**\n"]
    for name, words in entries:
        said = markdown.prose(" ".join(words).strip())
        shown.append(markdown.definition([name], said) if name else said + "\n")
    return "\n".join(shown)


def _fields(documented):
    """Groups of fields with the comment above them, and their types and defaults."""
    groups, comment, seen = [], [], set()
    for line in inspect.getsource(documented).splitlines():
        field = re.match(r"    (\w+): (.+?)(?: = .*)?$", line)
        if re.match(r"    # ?", line):
            comment.append(re.sub(r"^    # ?", "", line))
        elif field and not field[1].startswith("_") and field[1] not in seen:
            seen.add(field[1])
            if comment or not groups:
                groups.append(([], comment))
            groups[-1][0].append(re.sub(r" = dataclasses\.field\(.*$", "", line.strip()))
            comment = []
        elif re.match(r"    (def|@|async def)", line):
            break
        elif line.strip():
            comment = []
    return groups


def _has_fields(documented):
    return dataclasses.is_dataclass(documented) or hasattr(documented, "__total__")


def _class(name, documented):
    generic = (documented.__doc__ or "").startswith(f"{documented.__name__}(")
    shown = [f"## {name}\n\n"]
    if issubclass(documented, BaseException):
        shown.append(f"Derives from {', '.join(f'`{base.__name__}`' for base in documented.__bases__)}.\n\n")
    elif not _has_fields(documented) and "__init__" in vars(documented):
        shown.append(f"```python\n{signature(name, documented)}\n```\n\n")
    shown.append("" if generic else docstring(documented.__doc__ or ""))
    if "__init__" in vars(documented) and not _has_fields(documented) and vars(documented)["__init__"].__doc__:
        shown.append(docstring(vars(documented)["__init__"]))
    if _has_fields(documented):
        for terms, comment in _fields(documented):
            shown.append(markdown.definition(terms, markdown.paragraphs(comment)))
    for member, value in vars(documented).items():
        if member.startswith("_") and member not in _OPERATORS:
            continue
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(value, property) or hasattr(value, "func"):
            getter = value.fget if isinstance(value, property) else value.func
            kind = _annotation(inspect.signature(getter).return_annotation)
            said = docstring(getter)
            shown.append(markdown.definition([f"{member}: {kind}" if kind else member], said))
        elif inspect.isfunction(function) and function.__doc__:
            heading = f"{name}.{member}".replace("_", "\\_")
            shown.append(f"### {heading}\n\n```python\n{signature(member, function)}\n```\n\n{docstring(function)}")
    return "".join(shown)


def _entry(name, documented):
    if inspect.isclass(documented):
        return _class(name, documented)
    if callable(documented):
        return f"## {name}\n\n```python\n{signature(name, documented)}\n```\n\n{docstring(documented)}"
    return f"## {name}\n\n```python\n{name} = {documented!r}\n```\n\n"


def _public(module):
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "").startswith(module.__name__)
            and (inspect.isfunction(value) or inspect.isclass(value))
        ]
    return sorted(names, key=lambda name: (not name[0].islower(), name.lower()))


def page(name):
    """Of a module; functions come before classes."""
    module = importlib.import_module(name)
    shown = [f"# {name.replace('_', chr(92) + '_')}\n\n", docstring(module.__doc__ or "")]
    shown += [_entry(one, getattr(module, one)) for one in _public(module)]
    return "".join(shown)
