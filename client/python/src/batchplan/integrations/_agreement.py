"""What the ranks of a trainer's process group agree on, and what they know of each other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan.integrations._partitions import Agree, by_all_reduce

Lengths = NDArray[numpy.int64]
Gather = Callable[[Lengths], list[Lengths]]

_NO_LENGTH = numpy.iinfo(numpy.int64).min
_DEVICE_OF_BACKEND = {"nccl": "cuda", "hccl": "npu"}


def agreement_in(group: Any = None) -> Agree | None:
    """by_all_reduce on the device that the group's backend reduces on; None where torch.distributed is
    not initialized, and the process is the only one."""
    return by_all_reduce(group, device_of(group)) if _is_initialized() else None


def gathering_in(group: Any = None) -> Gather | None:
    """Has each rank of the group get the lengths of all, in the order of ranks: one all_reduce and one
    all_gather. None where torch.distributed is not initialized."""
    if not _is_initialized():
        return None

    def gather(own: Lengths) -> list[Lengths]:
        import torch

        device = device_of(group)
        size = by_all_reduce(group, device)(len(own))
        padded = numpy.full(size, _NO_LENGTH)
        padded[: len(own)] = own
        sent = torch.from_numpy(padded).to(device or "cpu")
        everyone = [torch.empty_like(sent) for _ in range(torch.distributed.get_world_size(group))]
        torch.distributed.all_gather(everyone, sent, group=group)
        return [of_rank[of_rank != _NO_LENGTH] for of_rank in (one.cpu().numpy() for one in everyone)]

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
