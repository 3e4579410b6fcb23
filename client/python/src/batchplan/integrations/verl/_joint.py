"""One plan of ranks, mini-batches and micro-batches, made where the whole batch is known."""

from __future__ import annotations

import dataclasses

import numpy

import batchplan
from batchplan.integrations import _slot_field
from batchplan.integrations._image_patches import PATCHES
from batchplan.integrations._pipeline import Stages
from batchplan.integrations._slots import options_of
from batchplan.integrations.verl import _field, _settings
from batchplan.integrations.verl._field import Int64s


@dataclasses.dataclass(frozen=True)
class Pass:
    """One way that workers go through a batch."""

    use: _field.Use
    # Tokens of a micro-batch over all ranks that share its sequences.
    budget: int
    # Where verl's configuration has it.
    key: str


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What verl's configuration asks of a plan."""

    # The first trains the actor; the others fill its ranks.
    passes: tuple[Pass, ...]
    # Sequences of a mini-batch over all ranks; 0: all are one.
    mini_batch_size: int = 0
    # How Megatron's engine divides the model.
    stages: Stages = Stages()
    synchronization: str = "lockstep"


@dataclasses.dataclass(frozen=True)
class Dispatch:
    """Where sequences go: chunks of `order`, alike in size, to the ranks in turn."""

    # Positions in the batch. Shape [sequences].
    order: Int64s
    # The fields of the batch in that order, by name.
    fields: dict[str, Int64s]
    metrics: dict[str, float]

    def ranks(self, count: int) -> list[list[int]]:
        """The positions of each rank's sequences."""
        return [part.tolist() for part in numpy.split(self.order, count)]


def by_mini_batch(order: Int64s, dp: int, size: int) -> Int64s:
    """Sequences in the order of mini-batches.

    Args:
        order: sequences as dispatched: each rank's chunk, in which mini-batches follow each other.
        dp: ranks.
        size: sequences of a mini-batch over all ranks; dp divides it, and it divides the batch.
    """
    return order.reshape(dp, -1, size // dp).transpose(1, 0, 2).reshape(-1)


def plan_dispatch(
    lengths: Int64s, order: Int64s, dp: int, wanted: Wanted, patches: Int64s | None = None
) -> Dispatch:
    """Plans a batch.

    Args:
        lengths: tokens of each sequence.
        order: positions, mini-batch after mini-batch.
        dp: ranks.
        patches: of each sequence; None: batches are planned by tokens.

    Raises:
        ValueError: a sequence is longer than a budget, or has more patches than a micro-batch may have, or ranks can't
            have as many sequences each.
    """
    longest = int(lengths.max(initial=0))
    for one in wanted.passes:
        if longest > one.budget:
            raise batchplan.InvalidRequest(
                f"{one.key} is {one.budget}, times its sequence parallel size; sequence "
                f"{int(lengths.argmax())} has {longest} tokens"
            )
    limits = _settings.limits()
    if limits is not None and patches is not None and int(patches.max(initial=0)) > limits[PATCHES]:
        raise batchplan.InvalidRequest(
            f"BATCHPLAN_LIMIT has {limits[PATCHES]:.15g} patches; sequence {int(patches.argmax())} has {patches.max()}"
        )
    passes = _distinct(wanted)
    options = wanted.stages.options(
        options_of(_settings.cost(), wanted.synchronization, _settings.effort(), loads=_settings.loads())
    )
    options["dp"] = dp
    if patches is not None:
        options["loads"] = {PATCHES: patches[order]}
    options["mini_batch_size"] = wanted.mini_batch_size
    options["passes"] = [
        batchplan.Pass(
            one.budget,
            one.key,
            microbatch_count_multiple=wanted.stages.microbatch_multiple,
            equal_sequence_counts=True if place == 0 else None,
            # verl's; the order on pipelines is a part of their plan.
            order=None if wanted.stages.are_several else "small_at_both_ends",
            ignore_mini_batches=one.use == "infer",
            forward_only=one.use == "infer",
            limits=limits,
        )
        for place, one in enumerate(passes)
    ]
    plan = batchplan.plan(numpy.maximum(lengths[order], 1), **options)
    ranks = [order[microbatch.indices] for rank in range(dp) for microbatch in plan.passes[0].rank(rank)]
    dispatched = numpy.concatenate(ranks)
    trained = plan.passes[0].metrics
    metrics = {"microbatches": trained.microbatches, "step_efficiency": trained.step_efficiency}
    metrics |= {f"largest_{name}": load.largest for name, load in trained.loads.items()}
    return Dispatch(
        dispatched,
        {
            _field.field_name(one.use, one.budget): _written(planned, order, dp)[dispatched]
            for one, planned in zip(passes, plan.passes)
        },
        {f"batchplan/{passes[0].use}_{name}": float(value) for name, value in metrics.items()},
    )


def _distinct(wanted: Wanted) -> list[Pass]:
    """Each field once. Where all are one mini-batch, the training's serves the same budget elsewhere."""
    found: dict[str, Pass] = {}
    for one in wanted.passes:
        if wanted.mini_batch_size == 0:
            one = dataclasses.replace(one, use="train")
        found.setdefault(_field.field_name(one.use, one.budget), one)
    return list(found.values())


def _written(planned: batchplan.PassPlan, order: Int64s, dp: int) -> Int64s:
    """A pass's field, by position in the batch."""
    values = numpy.zeros(len(order), numpy.int64)
    values[order] = _slot_field.of_plan(planned, dp)
    return values
