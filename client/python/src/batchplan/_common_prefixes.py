"""What sequences have in common, found in their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import ArrayLike, NDArray

from batchplan import _core
from batchplan._checks import whole
from batchplan._errors import InvalidRequest
from batchplan._micro_batch import Uint32s

_MOST = 2**32 - 1


def common_prefixes(token_lists: Sequence[ArrayLike], minimum: int = 64) -> tuple[Uint32s, Uint32s]:
    """The prefixes that sequences have in common, for plan(shared_prefixes=, shared_with=):

        shared_prefixes, shared_with = batchplan.common_prefixes(token_lists)
        plan = batchplan.plan(
            lengths, dp=8, max_tokens=16384, shared_prefixes=shared_prefixes, shared_with=shared_with
        )

    Only tokens are compared. Whatever else the model reads, such as images or position ids, must be equal
    where tokens are. For groups of answers to prompts, plan(prompt_lengths=) needs no tokens.

    Args:
        token_lists: the tokens of each sequence: lists, or arrays or tensors on the host, of whole numbers
            and one dimension.
        minimum: the fewest tokens that two sequences must have in common to share them, at least 1. Each place
            where a row branches costs attention kernels a block.

    Returns:
        shared_prefixes and shared_with, both uint32, shape [sequences], with zeros for sequences that share nothing.
        By these any two sequences share all that they have in common.

    Raises:
        InvalidRequest: a sequence has something other than tokens.
    """
    least = whole("minimum", minimum)
    if not 1 <= least <= _MOST:
        raise InvalidRequest(f"minimum is {least}; must be 1 to {_MOST}")
    lists: list[Any] = list(token_lists)
    if all(isinstance(one, (list, tuple)) for one in lists):
        return _core.common_prefixes_of_lists(lists, least)
    arrays = [_array(place, one) for place, one in enumerate(lists)]
    dtypes = {one.dtype for one in arrays}
    # Bits tell tokens apart, where all have the same type.
    if dtypes in ({numpy.dtype(numpy.int32)}, {numpy.dtype(numpy.uint32)}):
        return _core.common_prefixes_32([one.view(numpy.int32) for one in arrays], least)
    return _core.common_prefixes_64([one.astype(numpy.int64, copy=False) for one in arrays], least)


def _array(place: int, tokens: Any) -> NDArray[Any]:
    """Tokens as an array; without a copy if they are one."""
    try:
        made = numpy.ascontiguousarray(tokens)
        if made.ndim != 1 or numpy.ndim(tokens) != 1:
            raise ValueError(f"it has {numpy.ndim(tokens)} dimensions, not one")
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidRequest(f"token_lists[{place}] is no array of tokens: {error}") from None
    if made.dtype.kind not in "iu":
        if len(made):
            raise InvalidRequest(f"token_lists[{place}] has dtype {made.dtype}; it must be of whole numbers")
        return numpy.empty(0, numpy.int32)
    return made
