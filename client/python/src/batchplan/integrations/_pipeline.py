"""Plans for ranks that are pipelines, as Megatron-Core runs them."""

from __future__ import annotations

import dataclasses

import batchplan

# What the planner's own costs have beside 1 a token, where ranks are pipelines or groups differ in size: a
# micro-batch, else more of them would be free, and what the ranks of a group exchange.
_PER_MICROBATCH = 1024.0
_EXCHANGE = ((8, 0.02), (0, 0.065))


@dataclasses.dataclass(frozen=True)
class Stages:
    """How a trainer divides its model among ranks, as Megatron-Core names it."""

    # Stages of a pipeline: 1 is none.
    pipeline_model_parallel_size: int = 1
    virtual_pipeline_model_parallel_size: int = 1
    # Micro-batches that run one after the other on a virtual stage.
    microbatch_group_size_per_vp_stage: int | None = None
    expert_model_parallel_size: int = 1

    @property
    def are_several(self) -> bool:
        return self.pipeline_model_parallel_size > 1

    @property
    def microbatch_multiple(self) -> int | None:
        """Of the number of micro-batches, where stages are virtual."""
        if self.virtual_pipeline_model_parallel_size <= 1:
            return None
        return self.microbatch_group_size_per_vp_stage or self.pipeline_model_parallel_size

    def options(self, given: batchplan.PlanOptions) -> batchplan.PlanOptions:
        """Those given, and the pipeline. Unless these say when ranks wait for each other, ranks that share
        experts do at every micro-batch, and others at the end of a step."""
        if not self.are_several:
            return given
        options: batchplan.PlanOptions = {**given, "pp": self.pipeline_model_parallel_size}
        if self.virtual_pipeline_model_parallel_size > 1:
            options["vpp"] = self.virtual_pipeline_model_parallel_size
            options["pipeline"] = batchplan.Pipeline(group_size=self.microbatch_multiple or 0)
        if self.expert_model_parallel_size > 1:
            options.setdefault("synchronization", "lockstep")
        return options


def with_overheads(cost: batchplan.CostModel, *, exchange: bool = False) -> batchplan.CostModel:
    """The costs of sequences by a model's shape, with those of micro-batches and, if asked for, exchanges."""
    per_token = cost.per_token
    return dataclasses.replace(
        cost,
        per_microbatch=_PER_MICROBATCH * per_token,
        exchange=[(size, share * per_token) for size, share in _EXCHANGE] if exchange else (),
    )
