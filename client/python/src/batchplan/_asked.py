"""What a plan's request says of it, and the plan does not."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

from batchplan import _core


@dataclasses.dataclass(frozen=True)
class Asked:
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


# Steps of a run are asked for alike.
@functools.lru_cache(maxsize=64)
def asked_of(request_json: str) -> Asked:
    request: dict[str, Any] = json.loads(request_json)
    topology: dict[str, Any] = request.get("topology", {})
    stages = max(1, topology.get("pipeline_parallel", 1))
    default = "SYNCHRONIZATION_LOCKSTEP" if stages == 1 else "SYNCHRONIZATION_ACCUMULATED"
    synchronization = request.get("synchronization", default)
    # Of virtual stages, which belong to the stages in turn.
    shares: list[float] = request.get("pipeline", {}).get("stage_shares") or [1.0] * stages
    return Asked(
        padded=_core.padded_passes(request_json),
        data_parallel=max(1, topology.get("data_parallel", 1)),
        context_parallel=max(1, topology.get("context_parallel", 1)),
        dynamic="dynamic_context" in topology,
        tensor_multiple=max(
            1, topology.get("tensor_parallel", 1) if topology.get("sequence_parallel") else 1
        ),
        stage_shares=tuple(sum(shares[stage::stages]) / sum(shares) for stage in range(stages)),
        synchronization=synchronization.rpartition("_")[2].lower(),
        fitted=request.get("cost_model", {}).get("fitted", False),
    )
