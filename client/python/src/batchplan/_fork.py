"""gRPC in processes that were forked from one that used it.

The child has none of the parent's threads, and a lock that one of them held when it was forked stays
held: gRPC may work there as ever, never return, or abort the process. What waits for it there gives up in time.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Value = TypeVar("Value")

HANGS = (
    "gRPC does not answer in this process, which was forked while another one used it; make processes "
    'that plan with the start method "spawn" or "forkserver", or fork them before the first client is made'
)
USED_AFTER_FORK = "the client was made before this process was forked; make one in each process"

_used = False
_inherited = False
_hangs = False


class Hangs(Exception):
    """gRPC hangs in this process."""


def _in_child() -> None:
    global _inherited
    _inherited = _used


os.register_at_fork(after_in_child=_in_child)


def use_grpc(work: Callable[[], Value], limit: float) -> Value:
    """Returns the result of `work`, which calls gRPC and normally ends within `limit` seconds.

    Raises:
        Hangs: `work` needs longer in a process that inherits gRPC from its parent, or earlier work did.
    """
    global _used, _hangs
    _used = True
    if not _inherited:
        return work()
    if _hangs:
        raise Hangs
    # A daemon thread, so that nobody waits for one that never ends, not even Python when it exits.
    ends: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ends.put((True, work()))
        except BaseException as error:  # noqa: BLE001
            ends.put((False, error))

    threading.Thread(target=run, name="batchplan-grpc", daemon=True).start()
    try:
        is_value, end = ends.get(timeout=limit)
    except queue.Empty:
        _hangs = True
        raise Hangs from None
    if not is_value:
        raise end
    value: Value = end
    return value
