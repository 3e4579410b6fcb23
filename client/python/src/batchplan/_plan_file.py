"""A plan as bytes: a line of JSON that says what follows, and a JoinBatchResponse of proto/batchplan/v1."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from typing import Any

_FORMAT = "batchplan plan"
# Files of another version have another layout.
_VERSION = 1
_LONGEST_LINE = 4096
# Of ranks and positions.
_LARGEST = 2**32 - 1
_ENTRIES = ("where", "ranks", "rank", "own_part", "bytes", "sha256")


def _is_position(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def to_bytes(message: bytes, *, where: str, ranks: int, rank: int | None, own_part: range | None) -> bytes:
    """
    Args:
        where: it was made.
        ranks: that its arrays are of.
        rank: the one whose part of a plan it is; None: it is the whole plan.
        own_part: of a plan that workers joined, the positions of this one's sequences.
    """
    line = {
        "format": _FORMAT,
        "version": _VERSION,
        "where": where,
        "ranks": ranks,
        "rank": rank,
        "own_part": None if own_part is None else [own_part.start, own_part.stop],
        "bytes": len(message),
        "sha256": hashlib.sha256(message).hexdigest(),
    }
    return json.dumps(line).encode() + b"\n" + message


def from_bytes(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The line, and the message.

    Raises:
        ValueError: it did not make them, or they are not whole.
    """
    end = data.find(b"\n", 0, _LONGEST_LINE)
    try:
        line = json.loads(data[: max(0, end)])
    except ValueError:
        line = None
    if not isinstance(line, dict) or line.get("format") != _FORMAT:
        raise ValueError("its first line is not that of a plan")
    if line.get("version") != _VERSION:
        raise ValueError(f"its version is {line.get('version')}; this version of batchplan reads {_VERSION}")
    for name in _ENTRIES:
        if name not in line:
            raise ValueError(f"its first line has no {name}")
    ranks, rank, part = line["ranks"], line["rank"], line["own_part"]
    if not isinstance(line["where"], str):
        raise ValueError(f"where is {line['where']!r}; must be text")
    if not _is_position(ranks):
        raise ValueError(f"ranks is {ranks!r}; must be 0 to {_LARGEST}")
    if rank is not None and not (_is_position(rank) and ranks == 1):
        raise ValueError(f"rank is {rank!r} and ranks {ranks}; rank must be null, or 0 to {_LARGEST} and ranks 1")
    if part is not None and not (isinstance(part, list) and len(part) == 2 and all(map(_is_position, part))):
        raise ValueError(f"own_part is {part!r}; must be null or where it begins and ends, 0 to {_LARGEST}")
    message = data[end + 1 :]
    if len(message) != line["bytes"]:
        raise ValueError(f"it has {len(message)} bytes behind its first line; there must be {line['bytes']}")
    if hashlib.sha256(message).hexdigest() != line["sha256"]:
        raise ValueError("its bytes are not those that were written: their SHA-256 is another one")
    return line, message


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Replaces the file in one step, so that nobody finds a part of it."""
    # Links stay, and what they lead to is replaced.
    target = os.path.realpath(path)
    beside = f"{target}.{secrets.token_hex(4)}.part"
    try:
        with open(beside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        if os.path.exists(beside):
            os.remove(beside)
        raise
