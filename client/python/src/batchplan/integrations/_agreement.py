"""What the ranks of a trainer's process group agree on, and what they know of each other.

A rank that raises before a collective leaves the others waiting in it. What can fail on one rank alone stands
therefore in `on_all_ranks`, which `gathering_in` is built on.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sized
from typing import Any, TypeVar

import numpy
from numpy.typing import NDArray

import batchplan

Agree = Callable[[int], int]
Lengths = NDArray[numpy.int64]
Gather = Callable[[Callable[[], Lengths]], tuple[Lengths, list[Lengths]]]
Result = TypeVar("Result", bound=Sized)

# What a rank that has failed says in place of a number, above all of those.
_FAILED = 2**62
_DEVICE_OF_BACKEND = {"nccl": "cuda", "hccl": "npu"}


def by_all_reduce(group: Any = None, device: Any = None) -> Agree:
    """Agrees on the largest number of the ranks of a torch.distributed group.

    Args:
        group: as all_reduce takes it; None: all ranks.
        device: what the backend reduces on, such as "cuda" or "npu"; None: the host.
    """

    def agree(number: int) -> int:
        import torch
        import torch.distributed

        largest = torch.tensor([number], device=device)
        torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX, group=group)
        return int(largest.item())

    return agree


def on_all_ranks(agree: Agree, work: Callable[[], Result]) -> tuple[Result, int]:
    """What `work` returns on this rank, and the length of the longest that it returns on any: `agree` is
    called once.

    Raises:
        Exception: what `work` raises; InvalidRequest where it raises on other ranks.
    """
    result: Result | None = None
    error: Exception | None = None
    try:
        result = work()
    except Exception as raised:
        error = raised
    longest = agree(_FAILED if result is None else len(result))
    if result is None or longest >= _FAILED:
        raise error or batchplan.InvalidRequest(
            "another rank of the process group can't divide its sequences, and says why"
        )
    return result, longest


def agreement_in(group: Any = None) -> Agree | None:
    """by_all_reduce on the device that the group's backend reduces on; None where torch.distributed is
    not initialized, and the process is the only one."""
    return by_all_reduce(group, device_of(group)) if _is_initialized() else None


def gathering_in(group: Any = None) -> Gather | None:
    """Has each rank of the group get its own lengths, by the function that it is called with, and those of
    all, in the order of ranks: one all_reduce and one all_gather. Of each sequence it may be a row of numbers, as
    many on all ranks. Where the function raises on one rank, all raise. None where torch.distributed is not
    initialized."""
    if not _is_initialized():
        return None

    def gather(lengths: Callable[[], Lengths]) -> tuple[Lengths, list[Lengths]]:
        import torch

        device = device_of(group)
        own, most = on_all_ranks(by_all_reduce(group, device), lengths)
        # How many there are, and they.
        padded = numpy.zeros(1 + most * math.prod(own.shape[1:]), numpy.int64)
        padded[0] = own.size
        padded[1 : 1 + own.size] = own.reshape(-1)
        sent = torch.from_numpy(padded).to(device or "cpu")
        everyone = [torch.empty_like(sent) for _ in range(torch.distributed.get_world_size(group))]
        torch.distributed.all_gather(everyone, sent, group=group)
        numbers = [of_rank[1 : 1 + of_rank[0]] for of_rank in (one.cpu().numpy() for one in everyone)]
        return own, [of_rank.reshape(-1, *own.shape[1:]) for of_rank in numbers]

    return gather


def _is_initialized() -> bool:
    # Who has not imported it, has not initialized it.
    distributed: Any = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def device_of(group: Any) -> str | None:
    """What an initialized group's backend reduces on; None: the host."""
    backend = str(sys.modules["torch.distributed"].get_backend(group))
    found = (device for name, device in _DEVICE_OF_BACKEND.items() if name in backend)
    return next(found, None)
