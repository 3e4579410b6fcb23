"""The calls of a server: their bytes, and what their answers become. Sent by _client.py."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from numpy.typing import ArrayLike

from batchplan import _core
from batchplan._errors import InvalidRequest
from batchplan._options import CostModel, PlanOptions, without_none
from batchplan._plan import Plan
from batchplan._request import Request, to_json

if TYPE_CHECKING:
    from typing_extensions import Unpack

Answer = TypeVar("Answer")
_BY_SERVER = "by a server"
# A year.
_LONGEST_WAIT = 365 * 86400


@dataclasses.dataclass(frozen=True)
class Call(Generic[Answer]):
    # Of batchplan.v1.BatchPlanner.
    method: str
    request: bytes
    read: Callable[[bytes], Answer]


@dataclasses.dataclass(frozen=True)
class MicroBatchTiming:
    """What one micro-batch took."""

    # Sum of its aligned lengths, and of their squares.
    tokens: int
    tokens_squared: int
    # Forward and backward, without waiting for other ranks.
    milliseconds: float
    # Peak device memory, the allocator's counter reset before it; 0: not measured.
    peak_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Fit:
    """What a server fitted to a job's micro-batches."""

    # In milliseconds; None as long as fewer than 32 micro-batches were reported.
    cost: CostModel | None
    # Root mean square of the residuals over the mean measured time.
    error: float
    # Micro-batches that were ever counted.
    samples: int
    # For the memory limit that was asked about; 0: not known.
    suggested_max_tokens: int
    # Of the latest micro-batches, the share left out as stragglers.
    outlier_share: float
    # Whether this report had been counted before.
    already_counted: bool


def plan_call(
    lengths: ArrayLike, job_id: str, step: int, **options: Unpack[PlanOptions]
) -> Call[Plan]:
    request = Request(lengths, **options)
    fields = {**request.fields, "job_id": job_id, "step": str(step)}
    request_json = to_json(fields)
    ranks = max(1, options.get("dp") or 1)
    return Call(
        "PlanBatch",
        _core.encode_plan_batch(request_json, request.lengths, request.group_ids),
        lambda answer: Plan(_core.decode_plan_batch(answer, ranks), request_json, _BY_SERVER),
    )


def join_call(
    lengths: ArrayLike,
    job_id: str,
    step: int,
    worker: int,
    world_size: int,
    rank: int | None,
    wait: float | None,
    **options: Unpack[PlanOptions],
) -> Call[Plan]:
    if wait is not None and not 0 <= wait <= _LONGEST_WAIT:
        raise InvalidRequest(f"wait is {wait}; must be 0 to {_LONGEST_WAIT} seconds")
    request = Request(lengths, **options)
    whole = {**request.fields, "job_id": job_id, "step": str(step)}
    fields = without_none(
        request=whole,
        worker=worker,
        world_size=world_size,
        data_parallel_rank=rank,
        own_slice_only=rank is not None,
        timeout=None if wait is None else f"{wait:.9f}s",
    )
    ranks = max(1, options.get("dp") or 1) if rank is None else 1
    own = None if rank is None else range(rank, rank + 1)

    def read(answer: bytes) -> Plan:
        planned, worker_offsets = _core.decode_join_batch(answer, ranks)
        return Plan(planned, to_json(whole), _BY_SERVER, ranks=own, worker_offsets=worker_offsets)

    return Call(
        "JoinBatch",
        _core.encode_join_batch(to_json(fields), request.lengths, request.group_ids),
        read,
    )


def report_call(
    job_id: str, step: int, microbatches: Sequence[MicroBatchTiming], memory_limit_bytes: int
) -> Call[Fit]:
    fields: dict[str, Any] = {
        "job_id": job_id,
        "step": str(step),
        "microbatches": [dataclasses.asdict(one) for one in microbatches],
        "memory_limit_bytes": str(memory_limit_bytes),
    }
    return Call("ReportStep", _core.encode_report_step(to_json(fields)), _read_fit)


def _read_fit(answer: bytes) -> Fit:
    fields = json.loads(_core.decode_report_step(answer))
    fitted = fields.get("fitted")
    return Fit(
        cost=fitted
        and CostModel(fitted["perToken"], fitted["perTokenSquared"], fitted["perMicrobatch"]),
        error=fields["fitError"],
        samples=int(fields["samples"]),
        suggested_max_tokens=fields["suggestedMaxTokensPerMicrobatch"],
        outlier_share=fields["outlierShare"],
        already_counted=fields["alreadyCounted"],
    )
