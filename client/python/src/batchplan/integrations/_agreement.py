"""Numbers that the ranks of a trainer's process group agree on."""

from __future__ import annotations

import sys
from typing import Any

from batchplan.integrations._partitions import Agree, by_all_reduce

_DEVICE_OF_BACKEND = {"nccl": "cuda", "hccl": "npu"}


def agreement_in(group: Any = None) -> Agree | None:
    """by_all_reduce on the device that the group's backend reduces on; None where torch.distributed is
    not initialized, and the process is the only one."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    backend = str(distributed.get_backend(group))
    found = (device for name, device in _DEVICE_OF_BACKEND.items() if name in backend)
    return by_all_reduce(group, next(found, None))
