"""Context-parallel groups that differ in size, where verl's Megatron engine has them."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from batchplan.integrations._slots import options_of
from batchplan.integrations.megatron import Groups, PlannedDynamicScheduler
from batchplan.integrations.verl import _settings


class PlannedGroups(PlannedDynamicScheduler):
    """In place of Megatron's scheduler, for samples that verl pads only when their groups are known. All ranks have the
    whole batch, and make the same plan of it."""

    def __init__(
        self,
        max_seqlen_per_dp_cp_rank: int,
        cp_size: int,
        dp_size: int,
        microbatch_group_size_per_vp_stage: int | None = None,
    ) -> None:
        self.max_seqlen_per_dp_cp_rank = max_seqlen_per_dp_cp_rank
        self.cp_size = cp_size
        self.dp_size = dp_size
        state: Any = sys.modules["megatron.core.parallel_state"]
        self.config = types.SimpleNamespace(
            pipeline_model_parallel_size=state.get_pipeline_model_parallel_world_size(),
            virtual_pipeline_model_parallel_size=state.get_virtual_pipeline_model_parallel_world_size(),
            expert_model_parallel_size=state.get_expert_model_parallel_world_size(),
        )
        self.microbatch_group_size_per_vp_stage = microbatch_group_size_per_vp_stage
        if microbatch_group_size_per_vp_stage is None and self._stages.virtual_pipeline_model_parallel_size > 1:
            # verl gives none, and then asserts that numbers of micro-batches are multiples of it.
            self.microbatch_group_size_per_vp_stage = self._stages.pipeline_model_parallel_size
        self._tensor_parallel = int(state.get_tensor_model_parallel_world_size())
        _settings.refuse_loads("with dynamic_context_parallel, groups of ranks are planned by tokens")
        # verl pads for tensor parallelism with sequence parallelism or without.
        self.plan_options = {
            **options_of(_settings.cost(), None, _settings.effort()),
            "tp": self._tensor_parallel,
            "sequence_parallel": True,
        }

    def get_groups_and_subsamples(self, sample_id_seqlens: Sequence[tuple[int, int]]) -> Groups:
        """As Megatron's, of tokens without padding."""
        return self._groups(sample_id_seqlens)

    def _room(self, ranks: int) -> int:
        multiple = (2 * ranks if ranks > 1 else 1) * self._tensor_parallel
        return ranks * self.max_seqlen_per_dp_cp_rank // multiple * multiple


def in_place_of(stock: Callable[[], type]) -> Callable[[], type]:
    """verl's function that finds Megatron's scheduler."""

    def get_megatron_dynamic_cp_scheduler_cls() -> type:
        # Refuses versions of Megatron without process groups for it.
        stock()
        return PlannedGroups

    return get_megatron_dynamic_cp_scheduler_cls
