"""Which tokens of a row make up each of its sequences, where they share prefixes and where they don't."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._micro_batch import MicroBatch

# A part of a row: its first token, and the one behind its last.
Range = tuple[int, int]


def check_shared_tokens(microbatch: MicroBatch) -> None:
    """
    Raises:
        ValueError: they do not fit the lengths; or rows are padded.
    """
    shared, lengths = numpy.asarray(microbatch.shared_tokens), microbatch.lengths
    if microbatch.padded:
        raise ValueError("the micro-batch has shared_tokens and padded rows; tokens are shared in packed rows")
    if shared.shape != lengths.shape:
        raise ValueError(
            f"shared_tokens has shape {shared.shape}; the micro-batch has {len(lengths)} sequences"
        )
    most = numpy.minimum(lengths, numpy.concatenate([[0], lengths[:-1]])) if len(lengths) else lengths
    wrong = (shared > most) | (shared < 0)
    if wrong.any():
        place = int(wrong.argmax())
        owners = f"sequences {place - 1} and {place} of the row have" if place else "stand before the first"
        raise ValueError(
            f"shared_tokens[{place}] is {shared[place]}; must be at most {most[place]}, as many as {owners}"
        )


def paths(microbatch: MicroBatch) -> list[list[Range]]:
    """Of each sequence, the parts of the row that hold its tokens, in order; none touches the next one."""
    found: list[list[Range]] = []
    begins, lengths = microbatch.cu_seqlens_padded.tolist(), microbatch.lengths.tolist()
    shared = [0] * len(lengths) if microbatch.shared_tokens is None else microbatch.shared_tokens.tolist()
    for place, (begin, length, own) in enumerate(zip(begins, lengths, shared)):
        path: list[Range] = []
        left = own
        for first, end in found[place - 1] if own else []:
            taken = min(left, end - first)
            path.append((first, first + taken))
            left -= taken
            if not left:
                break
        if length > own:
            joined = path.pop()[0] if path and path[-1][1] == begin else begin
            path.append((joined, begin + length - own))
        found.append(path)
    return found


def cells(microbatch: MicroBatch) -> NDArray[numpy.int64]:
    """Of the sequences' tokens, end to end, where each stands in the row."""
    parts = [numpy.arange(*part, dtype=numpy.int64) for path in paths(microbatch) for part in path]
    return numpy.concatenate([numpy.empty(0, numpy.int64), *parts])


def ranges(microbatch: MicroBatch, tokens: int) -> list[tuple[Range, Range, bool]]:
    """Of each part of each sequence's path, the queries that are new in the sequence, the keys of the part, and whether
    they are the same tokens, which see those before alone. The tail is a sequence of its own."""
    found = []
    bounds = microbatch.cu_seqlens_padded.tolist()
    for begin, end, path in zip(bounds, bounds[1:], paths(microbatch)):
        if begin == end:
            continue
        # Padding is of its sequence; what stands before `begin` in the part with it was laid by others.
        *before, (first, _) = path or [(begin, end)]
        before += [(first, begin)] if first < begin else []
        found += [((begin, end), part, False) for part in before] + [((begin, end), (begin, end), True)]
    if bounds[-1] < tokens:
        found.append(((bounds[-1], tokens), (bounds[-1], tokens), True))
    return found
