"""For Megatron-LM: its packing scheduler "dp_balanced", with ranks and micro-batches planned together.

    + import batchplan.integrations.megatron
    + batchplan.integrations.megatron.register()

in the script that trains, such as pretrain_gpt.py, on all ranks, beside --sequence-packing-scheduler
dp_balanced. Fetching, rerouting and packing stay Megatron's: of its scheduler class the one method is
replaced that says which samples go where.

Megatron-LM has the scheduler since 2026. Its branch dev trains by it; in main, of 22 August 2026,
wrap_data_iterator has it and no training loop calls that yet.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import batchplan
from batchplan._checks import whole
from batchplan.integrations._slots import options_of, slots_of

__all__ = ["PlannedScheduler", "register"]

_NAME = "dp_balanced"
_MODULE = "megatron.core.datasets.data_schedule"


class PlannedScheduler:
    """Mixed into a scheduler of Megatron's, before it, by register(): schedules by a plan.

    The attributes are those that the scheduler has from its constructor. The plan is the same on all
    ranks, which each make it of the gathered lengths.
    """

    # Tokens that one GPU holds; a sample is divided among the cp_size of them.
    max_seqlen_per_dp_cp_rank: int
    cp_size: int
    dp_size: int
    # Micro-batches are a multiple of it, with virtual pipelines; None without.
    microbatch_group_size_per_vp_stage: int | None
    # Samples of a micro-batch at most, where Megatron's version knows of that.
    max_num_seqs: int | None = None
    # register()'s.
    plan_options: batchplan.PlanOptions = {}

    def get_groups_and_subsamples(
        self, sample_id_seqlens: Sequence[tuple[int, int]]
    ) -> list[list[list[int]]]:
        """Of each micro-batch, and each data-parallel and context-parallel rank, the samples.

        Args:
            sample_id_seqlens: of each sample of the global batch its number, and its tokens with
                its padding.

        Returns:
            [micro-batches][dp_size * cp_size] lists of numbers, each sample once for all the cp_size
            ranks that share it. None is empty.

        Raises:
            ValueError: a sample is longer than a micro-batch of its cp_size ranks, and overlong is not
                "alone"; or there are too few.
        """
        numbers = [number for number, _ in sample_id_seqlens]
        budget = whole("max_seqlen_per_dp_cp_rank", self.max_seqlen_per_dp_cp_rank) * self.cp_size
        only = batchplan.Pass(
            budget,
            microbatch_count_multiple=self.microbatch_group_size_per_vp_stage,
            max_sequences=self.max_num_seqs,
        )
        options: batchplan.PlanOptions = {**self.plan_options, "dp": self.dp_size, "passes": [only]}
        plan = batchplan.plan([int(tokens) for _, tokens in sample_id_seqlens], **options)
        return [
            [[numbers[place] for place in one] for one in slot for _ in range(self.cp_size)]
            for slot in slots_of(plan, self.dp_size)
        ]


def register(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
    overlong: str = "reject",
) -> None:
    """Puts a PlannedScheduler in the place of "dp_balanced" in Megatron's scheduler_map. Called again,
    it counts anew.

    Args:
        cost: of this model, for what ranks are balanced by.
        synchronization: "lockstep", the default, where ranks wait for each other at every micro-batch
            (FSDP, expert parallel), or "accumulated", where they do at the end of a step.
        effort: "fast", "default" or "thorough".
        overlong: samples beyond the budget: "reject", or "alone", as Megatron runs them: each by itself,
            in a micro-batch of more tokens than any other may have.

    Raises:
        ImportError: Megatron-LM is not there.
        FailedPrecondition: its version has no such scheduler.
        ValueError: an option is none that there is.
    """
    if overlong not in ("reject", "alone"):
        # Megatron expects every sample, and whole.
        raise batchplan.InvalidRequest(f'overlong is "{overlong}"; must be "reject" or "alone"')
    options = options_of(cost, synchronization, effort)
    options["overlong"] = overlong
    module: Any = importlib.import_module(_MODULE)
    schedulers: dict[Any, type] = getattr(module, "scheduler_map", {})
    # By name, or by an enumeration whose values are the names.
    keys = [key for key in schedulers if getattr(key, "value", key) == _NAME]
    if not keys:
        raise batchplan.FailedPrecondition(
            f'{_MODULE} has no scheduler "{_NAME}"; Megatron-LM has it since 2026, megatron-core 0.16 not'
        )
    stock = getattr(schedulers[keys[0]], "replaces", schedulers[keys[0]])
    schedulers[keys[0]] = type(
        "PlannedDpBalancedScheduler",
        (PlannedScheduler, stock),
        {"plan_options": options, "replaces": stock, "__doc__": PlannedScheduler.__doc__},
    )
