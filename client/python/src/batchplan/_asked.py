"""What a plan's request says of it, and the plan does not."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

from batchplan import _core


@dataclasses.dataclass(frozen=True)
class Asked:
    # The request without what does not influence the plan, as protobuf's JSON: equal where requests are.
    request_json: str
    # Of each pass.
    padded: list[bool]
    data_parallel: int
    context_parallel: int
    # Whether groups of context-parallel ranks may differ in size.
    dynamic: bool
    # What sequence parallelism has lengths divide by, beside what context parallelism does.
    tensor_multiple: int
    # Of each stage of the pipeline.
    stage_shares: tuple[float, ...]
    synchronization: str
    # Whether costs are those that a server fitted.
    fitted: bool


@functools.lru_cache(maxsize=64)
def asked_of(request_json: str) -> Asked:
    own_json, padded = _core.read_plan_request(request_json)
    request: dict[str, Any] = json.loads(own_json)
    topology: dict[str, Any] = request.get("topology", {})
    stages = max(1, topology.get("pipelineParallel", 1))
    default = "SYNCHRONIZATION_LOCKSTEP" if stages == 1 else "SYNCHRONIZATION_ACCUMULATED"
    synchronization = request.get("synchronization", default)
    # Of virtual stages, which belong to the stages in turn.
    shares: list[float] = request.get("pipeline", {}).get("stageShares") or [1.0] * stages
    return Asked(
        request_json=own_json,
        padded=padded,
        data_parallel=max(1, topology.get("dataParallel", 1)),
        context_parallel=max(1, topology.get("contextParallel", 1)),
        dynamic="dynamicContext" in topology,
        tensor_multiple=max(
            1, topology.get("tensorParallel", 1) if topology.get("sequenceParallel") else 1
        ),
        stage_shares=tuple(sum(shares[stage::stages]) / sum(shares) for stage in range(stages)),
        synchronization=synchronization.rpartition("_")[2].lower(),
        fitted=request.get("costModel", {}).get("fitted", False),
    )
