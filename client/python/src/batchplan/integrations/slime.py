"""For slime: build_dp_schedule of slime.utils.dp_schedule, which divides a rollout's samples.

    + import batchplan.integrations.slime
    + batchplan.integrations.slime.install()

in train.py, before the rollout manager is made. With --use-dynamic-batch-size; the rest stays as it is.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import batchplan
from batchplan._checks import whole
from batchplan.integrations._model_cost import cost_of
from batchplan.integrations._partitions import balanced_partitions
from batchplan.integrations._pipeline import Stages, with_overheads
from batchplan.integrations._replace import replace
from batchplan.integrations._slots import options_of, slots_or_none

__all__ = ["ScheduleError", "build_dp_schedule", "cost_of", "install"]

_log = logging.getLogger("batchplan")
Schedule = tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]


class ScheduleError(batchplan.InvalidRequest, AssertionError):
    """No schedule can be made of this. slime's own is an AssertionError."""


def build_dp_schedule(
    args: Any,
    train_parallel_config: Mapping[str, int],
    total_lengths: Sequence[int],
    *,
    global_batch_size: int,
    rollout_indices: Sequence[int],
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> Schedule:
    """Divides samples among training steps, data-parallel ranks and micro-batches.

    With use_dynamic_batch_size, ranks and micro-batches of a step are planned together, on pipelines with
    the order of the micro-batches, within max_tokens_per_gpu also after each sample's padding for context
    parallelism; balance_data and balance_by_flops change nothing then. Without, micro-batches are runs of
    micro_batch_size samples, as slime's; ranks take them in turn, or with balance_data as Karmarkar & Karp's
    method divides costs.

    Args:
        args: slime's: use_dynamic_batch_size, max_tokens_per_gpu, micro_batch_size, balance_data,
            pipeline_model_parallel_size, expert_model_parallel_size, and the model's shape, for cost_of.
        train_parallel_config: dp_size, cp_size, vpp_size, microbatch_group_size_per_vp_stage.
        total_lengths: tokens of each sample.
        global_batch_size: rollouts of a training step. Rollouts beyond the last whole step are left out, or
            are a step of their own with miles' allow_partial_train_step. With use_dynamic_batch_size a step
            also leaves out its last rollouts, with a warning and as few as possible, if its samples can't fill
            equally many micro-batches on all ranks: 9 samples, of which no two share a micro-batch, on 2 ranks.
        rollout_indices: of each sample the rollout that it is of, whose samples stay in one step.
        cost: of this model; None: cost_of(args), on pipelines with 1,024 tokens' cost a micro-batch.
        synchronization: "lockstep", where ranks wait for each other at every micro-batch (expert parallel,
            ZeRO-3), or "accumulated", where they do at the end of a step, the default for pipelines
            without expert parallelism.
        effort: "fast", "default" or "thorough".

    Returns:
        partitions: of each rank its samples, as positions in total_lengths, in the order in which they
            are computed. micro_batch_indices: of each rank its micro-batches of all steps, as positions
            in its partition. num_microbatches: a rank's in each step. global_batch_sizes: rollouts of
            each step, those that were left out not counted. A sample of more tokens than
            max_tokens_per_gpu * cp_size has a micro-batch of its own, above the budget.

    Raises:
        ScheduleError: there are fewer rollouts than a step takes; none of a step's samples can be divided; or
            runs of micro_batch_size do not divide among ranks.
    """
    if len(total_lengths) != len(rollout_indices):
        raise ScheduleError(
            f"total_lengths has {len(total_lengths)} entries; rollout_indices has {len(rollout_indices)}"
        )
    if whole("global_batch_size", global_batch_size) < 1:
        raise ScheduleError(f"global_batch_size is {global_batch_size}; must be at least 1")
    rollouts: dict[int, list[int]] = {}
    for place, rollout in enumerate(rollout_indices):
        rollouts.setdefault(rollout, []).append(place)
    samples_of = list(rollouts.values())
    if len(samples_of) < global_batch_size:
        raise ScheduleError(
            f"num_rollouts is {len(samples_of)}; must be at least global_batch_size {global_batch_size}"
        )
    dp_size = train_parallel_config["dp_size"]
    stages = _stages(args, train_parallel_config)
    if cost is None:
        cost = cost_of(args)
        if cost is not None and stages.are_several:
            cost = with_overheads(cost)
    options: batchplan.PlanOptions = {
        **stages.options(options_of(cost, synchronization, effort)),
        "dp": dp_size,
        "cp": train_parallel_config["cp_size"],
        "overlong": "alone",
    }

    partitions: list[list[int]] = [[] for _ in range(dp_size)]
    micro_batch_indices: list[list[list[int]]] = [[] for _ in range(dp_size)]
    num_microbatches: list[int] = []
    global_batch_sizes: list[int] = []
    for step, own in enumerate(_steps(samples_of, global_batch_size, args, options, stages)):
        samples = [place for rollout in own for place in rollout]
        lengths = [int(total_lengths[place]) for place in samples]
        kept = len(own)
        try:
            if args.use_dynamic_batch_size:
                sizes = [len(rollout) for rollout in own]
                multiple = stages.microbatch_multiple
                kept, ranks = _planned(lengths, sizes, args.max_tokens_per_gpu, multiple, options)
            else:
                ranks = _in_runs(lengths, args, dp_size, stages.microbatch_multiple or 1, cost)
        except batchplan.InvalidRequest as error:
            raise ScheduleError(f"{error}; in training step {step} of {len(samples)} samples") from error
        if kept < len(own):
            _log.warning(
                "batchplan: training step %d leaves out the last %d of its %d rollouts: its %d samples can't "
                "fill as many micro-batches on each of dp_size %d ranks",
                step, len(own) - kept, len(own), len(samples), dp_size,
            )  # fmt: skip
        for partition, indices, microbatches in zip(partitions, micro_batch_indices, ranks):
            for one in microbatches:
                indices.append(list(range(len(partition), len(partition) + len(one))))
                partition.extend(samples[place] for place in one)
        num_microbatches.append(len(ranks[0]))
        global_batch_sizes.append(kept)
    return partitions, micro_batch_indices, num_microbatches, global_batch_sizes


def _steps(
    rollouts: list[list[int]], size: int, args: Any, options: batchplan.PlanOptions, stages: Stages
) -> Iterator[list[list[int]]]:
    """The rollouts of each step: as many in each, then, where miles' arguments ask for it, those that are left, if
    they have a sample for each micro-batch."""
    whole_steps = len(rollouts) // size
    for first in range(0, whole_steps * size, size):
        yield rollouts[first : first + size]
    left = rollouts[whole_steps * size :]
    if getattr(args, "allow_partial_train_step", False) and args.use_dynamic_batch_size:
        if sum(map(len, left)) >= options["dp"] * (stages.microbatch_multiple or 1):
            yield left


def _stages(args: Any, parallel: Mapping[str, int]) -> Stages:
    return Stages(
        getattr(args, "pipeline_model_parallel_size", 1),
        # miles has None where there are no virtual stages.
        parallel["vpp_size"] or 1,
        parallel["microbatch_group_size_per_vp_stage"],
        getattr(args, "expert_model_parallel_size", 1),
    )


def _planned(
    lengths: list[int],
    rollouts: list[int],
    max_tokens_per_gpu: int | None,
    multiple: int | None,
    options: batchplan.PlanOptions,
) -> tuple[int, list[list[list[int]]]]:
    """Plans the first rollouts of a step, all if possible.

    Args:
        rollouts: samples of each.
        multiple: of a rank's number of micro-batches.

    Returns:
        how many rollouts are planned, and of each rank its micro-batches.
    """
    budget = whole("max_tokens_per_gpu", max_tokens_per_gpu) * options["cp"]
    only = batchplan.Pass(budget, microbatch_count_multiple=multiple)
    of_step: batchplan.PlanOptions = {**options, "passes": [only]}
    kept, count = len(rollouts), len(lengths)
    while True:
        slots = slots_or_none(lengths[:count], of_step)
        if slots is not None:
            return kept, [list(own) for own in zip(*slots)]
        kept -= 1
        count -= rollouts[kept]
        if count < options["dp"] * (multiple or 1):
            # Nothing of the step can be planned. The refusal of the whole step says why.
            batchplan.plan(lengths, **of_step)


def _in_runs(
    lengths: list[int], args: Any, dp_size: int, group: int, cost: batchplan.CostModel | None
) -> list[list[list[int]]]:
    """The same with micro-batches of fixed size, in groups of which each rank has as many."""
    size = whole("micro_batch_size", args.micro_batch_size)
    if size < 1:
        raise batchplan.InvalidRequest(f"micro_batch_size is {size}; must be at least 1")
    runs = [list(range(len(lengths)))[begin : begin + size] for begin in range(0, len(lengths), size)]
    if len(runs) % (dp_size * group):
        raise batchplan.InvalidRequest(
            f"micro_batch_size is {size}, which makes num_mbs {len(runs)}; "
            f"must be a multiple of dp_size {dp_size} * mb_group {group}"
        )
    if not args.balance_data:
        return [runs[rank::dp_size] for rank in range(dp_size)]
    model = cost or batchplan.DEFAULT_COST
    costs = model.of_sequences(lengths)
    parts = balanced_partitions([costs[run].sum() for run in runs], dp_size, True, "karmarkar_karp")
    return [[runs[place] for place in part] for part in parts]


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Makes slime's rollout manager plan by build_dp_schedule. The manager is a Ray actor, and Ray sends
    it the function: it is to be made afterwards, and batchplan to be there where it runs.

    Args:
        cost, synchronization, effort: build_dp_schedule's.

    Raises:
        ImportError: slime is not there.
        ValueError: an option is none that there is.
    """
    options_of(cost, synchronization, effort)
    planned = functools.partial(
        build_dp_schedule, cost=cost, synchronization=synchronization, effort=effort
    )
    replace(importlib.import_module("slime.utils.dp_schedule"), "build_dp_schedule", planned)
