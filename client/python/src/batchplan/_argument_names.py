"""What a caller typed for a field of a request."""

from __future__ import annotations

import re

from batchplan._option_table import BY_NAME, FIELDS

_NAMES = {field: name for name, field in FIELDS.items()}
# The last name alone, if it has an underscore, as no English word has.
_SHORT = {field.rpartition(".")[2]: name for field, name in _NAMES.items() if "_" in field.rpartition(".")[2]}
_POSITION = r"(?:\[\d+\])*"
_MENTION = re.compile(rf'(?<![\w."\[(])[a-z]\w*{_POSITION}(?:\.[a-z]\w*{_POSITION})*')


def argument_of(field: str) -> str | None:
    """ "lengths[1]" of manifest.lengths[1], and "max_tokens" of passes[0].max_tokens_per_microbatch. None: it has no
    name in Python, or the field is called by it."""
    parts = field.removeprefix("request.").split(".")
    plain = [part.partition("[")[0] for part in parts]
    if len(parts) == 1:
        name = _SHORT.get(field)
        return None if name == field else name
    for end in range(len(parts), 0, -1):
        name = _NAMES.get(".".join(plain[:end]))
        if name is None:
            continue
        if name in BY_NAME:
            found = name
        else:
            found = ".".join([name + parts[end - 1][len(plain[end - 1]) :], *parts[end:]])
        # What a pass calls as the request does reads the same.
        return None if found == field or plain[:end] == ["passes", name] else found
    return None


def with_arguments(message: str) -> str:
    """The message with what the caller typed, in parentheses, behind the first mention of its field:
    "passes[0].max_tokens_per_microbatch (max_tokens) is 4"."""
    named: set[str] = set()

    def annotated(mention: re.Match[str]) -> str:
        field = mention[0]
        name = argument_of(field)
        if name is None or name in named:
            return field
        named.add(name)
        behind = f" ({name})"
        return field if message.startswith(behind, mention.end()) else field + behind

    return _MENTION.sub(annotated, message)
