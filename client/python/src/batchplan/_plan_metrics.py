"""What a plan says of itself: how good it is, and how it came about."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class LoadMetrics:
    """How a pass has spread a load."""

    # Of the micro-batch that has most, of a dealt load of the rank that has most of a slot; and over all of them.
    largest: float
    mean: float
    # The most loaded rank over the mean rank; over several mini-batches, sums of both.
    rank_imbalance: float
    # What its phase takes of predicted_step_time; 0 unless it is separate or dealt.
    separate_time: float


@dataclasses.dataclass(frozen=True)
class PlanMetrics:
    """How good a pass's plan is; proto/batchplan/v1/plan.proto has each definition."""

    microbatches: int
    # No plan within the constraints has fewer.
    lower_bound_microbatches: int
    certified_optimal: bool
    true_tokens: int
    aligned_tokens: int
    # After all padding.
    scheduled_tokens: int
    # If every sequence were padded to the longest, or to pad_to.
    naive_tokens: int
    bin_utilization: float
    aligned_bin_utilization: float
    waste_ratio: float
    bin_balance: float
    packing_efficiency: float
    padding_removed: float
    rank_token_imbalance: float
    rank_cost_imbalance: float
    # In the cost model's unit, of one rank of dp * cp * pp.
    ideal_step_time: float
    lower_bound_step_time: float
    predicted_step_time: float
    step_efficiency: float
    # Of the slowest rank's pipeline, the part of the time that its busiest stage waits; 0 without one.
    pipeline_bubble: float
    # With max_delay: by how many mini-batches sequences are trained later than their place, on average, and
    # how many are trained in another one than that, as a share.
    mean_delay: float
    moved_share: float
    # True tokens of a sequence that is trained, and of one that waits; 0 where there is none.
    mean_length_taken: float
    mean_length_deferred: float
    # Of what is trained, where ages were given.
    mean_age: float
    largest_age: int
    # Where sequences share prefixes, else 0: tokens that micro-batches compute, without padding, and the fewest
    # that any plan can, every mini-batch in one row.
    laid_tokens: int
    unique_tokens: int
    # Of each load, by name.
    loads: Mapping[str, LoadMetrics] = dataclasses.field(default_factory=dict, hash=False)


@dataclasses.dataclass(frozen=True)
class SlotsTried:
    """A number of micro-batches of every rank, or of slots of a pool, that was tried for a mini-batch."""

    slots: int
    # Predicted, of the best micro-batches found with so many, in the cost model's unit.
    step_time: float


@dataclasses.dataclass(frozen=True)
class MiniBatchDecision:
    """How the micro-batches of a mini-batch came about; proto/batchplan/v1/plan.proto has every method."""

    # What made them: "balanced", the name of the preset whose way to assign won, "context_parallel_4", ...
    method: str
    # No plan within the constraints has fewer slots.
    fewest_slots: int
    # Ascending; the plan's own number is among them. At most 16.
    tried: tuple[SlotsTried, ...]


@dataclasses.dataclass(frozen=True)
class ExcludedSequence:
    """A sequence that was left out for its age; or for its length cut, left out, or put into a micro-batch
    of its own."""

    index: int
    # Its true length in tokens.
    length: int
    # "expired", "truncated", "dropped" or "alone".
    reason: str


def metrics_of(head: Mapping[str, Any]) -> PlanMetrics:
    """As protobuf's JSON has them."""
    loads = {one["load"]: LoadMetrics(**_fields(LoadMetrics, one)) for one in head["loads"]}
    return PlanMetrics(**_fields(PlanMetrics, head), loads=loads)


def decision_of(head: Mapping[str, Any]) -> MiniBatchDecision:
    """As protobuf's JSON has it."""
    tried = (SlotsTried(one["slots"], _number(one["stepTime"])) for one in head["tried"])
    return MiniBatchDecision(head["method"], head["fewestSlots"], tuple(tried))


def _fields(kind: Any, head: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(head[named]) for name, named in _names(kind)}


@functools.cache
def _names(kind: Any) -> list[tuple[str, str]]:
    """Of its fields, here and in protobuf's JSON."""
    return [(field.name, _camel(field.name)) for field in dataclasses.fields(kind) if field.name != "loads"]


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)


def _number(value: Any) -> Any:
    """64-bit integers are strings in protobuf's JSON."""
    return int(value) if isinstance(value, str) else value
