"""Plans in this process."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from batchplan import _core
from batchplan._option_help import takes_options
from batchplan._options import PlanOptions
from batchplan._plan import Plan
from batchplan._request import Request, kept

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes_options()
def plan(lengths: ArrayLike | Iterable[float], **options: Unpack[PlanOptions]) -> Plan:
    """Plans a global batch in this process. Other threads of Python run meanwhile,
    Ctrl-C ends it, and so does the end of Python in daemon threads.

        plan = batchplan.plan(lengths, dp=16, max_tokens=16384, cp=2)

    Args:
        lengths: tokens of each sequence, at least 1 each: whole numbers in a list, an array, a tensor on the host or
            an iterator; floats do that are whole. An array of uint32 is read where it stands, and must not change
            meanwhile.
        options: by name; what is left out, or None, takes its default.

    Raises:
        InvalidRequest: no plan can be made; with the field, its value and its limit.
        FailedPrecondition: cost="fitted"; only a server has fitted costs.
    """
    return plan_request(Request(lengths, **options))


def plan_request(
    request: Request, seconds: float | None = None, stop: _core.Stop | None = None
) -> Plan:
    """The same in so many seconds, and until `stop` is requested. DeadlineExceeded afterwards."""
    request_json = request.to_json()
    planned = _core.plan_batch(
        _asked(request_json, len(request.arrays[2]) > 0),
        request.arrays,
        watches_signals=threading.get_ident() == threading.main_thread().ident,
        seconds=seconds,
        stop=stop,
    )
    return Plan(planned, request_json, "in process", arrays=kept(request.arrays))


# Steps of a run are asked for alike.
@functools.lru_cache(maxsize=64)
def _asked(request_json: str, has_ranks: bool) -> _core.AskedPlan:
    return _core.AskedPlan(request_json, has_ranks)
