"""Plans in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from batchplan import _core
from batchplan._options import PlanOptions
from batchplan._plan import Plan
from batchplan._request import Request

if TYPE_CHECKING:
    from typing_extensions import Unpack


def plan(lengths: ArrayLike, **options: Unpack[PlanOptions]) -> Plan:
    """Plans a global batch in this process. Other threads of Python run meanwhile.

        plan = batchplan.plan(lengths, dp=16, max_tokens=16384, cp=2)

    Args:
        lengths: tokens of each sequence, at least 1 each: one dimension of whole numbers. An array of
            uint32 is read where it stands, and must not change meanwhile.
        options: see PlanOptions. max_tokens, or passes, is needed.

    Raises:
        InvalidRequest: no plan can be made; with the field, its value and its limit.
    """
    request = Request(lengths, **options)
    request_json = request.to_json()
    planned = _core.plan_batch(request_json, request.lengths, request.group_ids)
    return Plan(planned, request_json, "in process")
