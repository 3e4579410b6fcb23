"""Whether the kernels can move a device's tensors."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import warnings
from typing import Any

import torch

from batchplan import _core

_CUDA = 1
# Set to "torch", torch's operations are used where the kernels could be, too.
_VARIABLE = "BATCHPLAN_TORCH_BACKEND"


@dataclasses.dataclass(frozen=True)
class Backend:
    """What packs, unpacks and sums up the tensors of a device.

    Attributes:
        name: "kernels on CUDA", "kernels on the host" or "torch's operations".
        reason: why it is not the kernels; empty where it is.
    """

    name: str
    reason: str = ""

    @property
    def has_kernels(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.reason else self.name


_ON_HOST = Backend("kernels on the host")


def backend(device: torch.device | str | None = None) -> Backend:
    """What moves tensors of a device: the kernels of this package, or, where they can't run, torch's own operations,
    with the same results. Sums may then differ in the last bit.

        print(batchplan.torch.backend())  # kernels on CUDA

    The environment variable BATCHPLAN_TORCH_BACKEND=torch has torch's operations used on all devices.

    Args:
        device: None: the current CUDA device if torch has one, else the host.

    Raises:
        ValueError: the device is meta, whose tensors have no memory; or BATCHPLAN_TORCH_BACKEND is something else.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    place: Any = torch.device(device)
    if place.type == "meta":
        raise ValueError("device is meta, whose tensors have no memory")
    forced = os.environ.get(_VARIABLE, "")
    if forced not in ("", "torch"):
        raise ValueError(f"{_VARIABLE} is {forced!r}; must be 'torch', or not set")
    if forced:
        return Backend("torch's operations", f"{_VARIABLE} is {forced}")
    if place.type == "cpu":
        return _ON_HOST
    if place.type != "cuda":
        return Backend(
            "torch's operations", f"the kernels run on CUDA and on the host, not on {place.type}"
        )
    if getattr(torch.version, "hip", None):
        return Backend("torch's operations", "this PyTorch is for ROCm, and the kernels are for CUDA")
    index = torch.cuda.current_device() if place.index is None else place.index
    return _on_cuda(index)


@functools.cache
def _on_cuda(index: int) -> Backend:
    with torch.cuda.device(index):
        status = _core.backend_status(_CUDA)
        reason = _core.backend_error(_CUDA)
    if status:
        told = [_core.status_string(status)] + ([reason] if reason else [])
        return Backend("torch's operations", ": ".join(told))
    return Backend("kernels on CUDA")


def chosen(device: torch.device) -> Backend:
    """What a row on the device uses. The first time that the kernels can't run in this process warns."""
    found = backend(device)
    if not found.has_kernels and not os.environ.get(_VARIABLE):
        _warn_once(device, found.reason)
    return found


_warned = False
_warning_lock = threading.Lock()


def _warn_once(device: torch.device, reason: str) -> None:
    global _warned
    with _warning_lock:
        if _warned:
            return
        _warned = True
    warnings.warn(
        f"batchplan.torch moves tensors on {device} by torch's operations, which is slower: {reason}",
        RuntimeWarning,
        stacklevel=2,
    )
