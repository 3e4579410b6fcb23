"""What may be asked of a plan, as types. proto/batchplan/v1/options.proto says in full what each option does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy

from batchplan._checks import flag, members, number, positive, text, whole
from batchplan._choices import (
    BalanceOn,
    Effort,
    EqualCounts,
    Groups,
    KindsPerSlot,
    LastMiniBatch,
    MicroBatchOrder,
    Order,
    Overlong,
    Packer,
    Preset,
    RowPadding,
    Scan,
    Schedule,
    Sharding,
    Synchronization,
    enum,
)
from batchplan._errors import InvalidRequest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class PlanOptions(TypedDict, total=False):
    """Everything beside the lengths. What is left out, or None, takes its default."""

    # What each of them is, _option_table.py says.
    max_tokens: int
    passes: Sequence[Pass]
    preset: Preset
    dp: int
    cp: int
    tp: int
    pp: int
    vpp: int
    sequence_parallel: bool
    dynamic_cp: bool | DynamicContext
    pipeline: Pipeline
    group_ids: ArrayLike | Iterable[int]
    groups: Groups
    ranks: ArrayLike | Iterable[int]
    prompt_lengths: ArrayLike | Iterable[int]
    shared_prefixes: ArrayLike | Iterable[int]
    shared_with: ArrayLike | Iterable[int]
    loads: Mapping[str, ArrayLike | Iterable[float]]
    items: Mapping[str, Iterable[ArrayLike]]
    limits: Mapping[str, float]
    kinds: ArrayLike | Iterable[int]
    ages: ArrayLike | Iterable[int]
    selection: Selection
    mini_batch_size: int
    mini_batch_groups: int
    last_mini_batch: LastMiniBatch
    order: Order
    shuffle: bool
    max_delay: int
    seed: int
    cost: CostModel | Literal["fitted"]
    synchronization: Synchronization
    effort: Effort
    overlong: Overlong
    allow_empty_microbatches: bool
    pad_to: int


@dataclasses.dataclass(frozen=True)
class LoadCost:
    """What a load costs: per_unit for each unit of it, which context-parallel ranks share."""

    # Its name, of `loads` or `items`.
    load: str
    per_unit: float
    _: dataclasses.KW_ONLY
    # A phase of its own, before the rest of the micro-batch, such as an encoder's: ranks wait for each other
    # after it too.
    separate: bool = False
    # The items of a slot go to its ranks wherever their sequences are, so that these are done at about the same
    # time, in a phase of their own: MicroBatch.dealt says which go where.
    dealt: bool = False

    def to_dict(self, place: int = 0) -> dict[str, Any]:
        """The cost as the wire contract has it; errors name it by its place among others."""
        own = f"cost_model.loads[{place}]"
        return without_none(
            load=text(f"{own}.load", self.load),
            per_unit=number(f"{own}.per_unit", self.per_unit),
            separate=flag(f"{own}.separate", self.separate) or None,
            dealt=flag(f"{own}.dealt", self.dealt) or None,
        )


@dataclasses.dataclass(frozen=True)
class CostModel:
    """A sequence of L tokens costs per_token * L + per_token_squared * L**2 + per_sequence, and a
    micro-batch per_microbatch more. In any unit; at least one is positive. Context-parallel ranks
    share what tokens cost, stages of a pipeline all of it; what is predicted is of one of them.

    Each of cp ranks also exchanges keys and values with the others, for X * L * (cp - 1) / cp, X what
    `exchange` says for so many.

    What sequences bring beside tokens costs what `loads` says. Any model of your own is one load, whose
    values you have worked out: CostModel(0, loads={"cost": 1})."""

    per_token: float = 1.0
    per_token_squared: float = 0.0
    per_microbatch: float = 0.0
    per_sequence: float = 0.0
    # Pairs of (largest cp, X), ascending; a last cp of 0 is for all larger ones, which else exchange for
    # nothing: ((8, 0.02), (0, 0.065)).
    exchange: Sequence[tuple[int, float]] = dataclasses.field(default=(), kw_only=True)
    # Attention hides the exchange: only what takes longer than per_token_squared * L**2 / cp is paid.
    exchange_overlaps: bool = dataclasses.field(default=False, kw_only=True)
    # Each load at most once; {"patches": 0.5} stands for (LoadCost("patches", 0.5),).
    loads: Sequence[LoadCost] | Mapping[str, float] = dataclasses.field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        """Lists and mappings become tuples, so that equal models are equal as keys."""
        if isinstance(self.loads, Mapping):
            object.__setattr__(self, "loads", tuple(LoadCost(*one) for one in self.loads.items()))
        elif isinstance(self.loads, Iterable):
            object.__setattr__(self, "loads", tuple(self.loads))
        if isinstance(self.exchange, Iterable):
            entries = (tuple(one) if isinstance(one, (list, numpy.ndarray)) else one for one in self.exchange)
            object.__setattr__(self, "exchange", tuple(entries))

    def of_sequences(self, lengths: ArrayLike) -> NDArray[numpy.float64]:
        """What sequences of these aligned lengths cost a rank that shares them with none, each, in the
        order given, without their loads."""
        tokens = numpy.asarray(lengths, dtype=numpy.float64)
        return self.per_token * tokens + self.per_token_squared * tokens**2 + self.per_sequence

    def to_dict(self) -> dict[str, Any]:
        """The costs as the wire contract has them."""
        names = ("per_token", "per_token_squared", "per_microbatch", "per_sequence")
        entries = self.exchange if isinstance(self.exchange, Iterable) else (self.exchange,)
        return without_none(
            **{name: number(f"cost_model.{name}", getattr(self, name)) for name in names},
            exchange=[_exchange(place, one) for place, one in enumerate(entries)] or None,
            exchange_overlaps=flag("cost_model.exchange_overlaps", self.exchange_overlaps) or None,
            loads=[
                one.to_dict(place)
                for place, one in enumerate(members("cost_model.loads", self.loads, LoadCost))
            ]
            or None,
        )


# What plans cost sequences by unless they are told, where ranks are no pipelines and have no groups that
# differ in size: linear and attention work of a model of 7B parameters.
DEFAULT_COST = CostModel(1.0, 1 / 24576)


def load_costs(cost: CostModel | str | None) -> list[LoadCost]:
    """What loads cost, none where the model is not one of the caller's own."""
    return members("cost_model.loads", cost.loads, LoadCost) if isinstance(cost, CostModel) else []


def _exchange(place: int, entry: Any) -> dict[str, Any]:
    where = f"cost_model.exchange[{place}]"
    try:
        size, cost = entry
    except (TypeError, ValueError):
        raise InvalidRequest(f"{where} is {entry!r}; must be a pair of a cp and a cost") from None
    return {
        "up_to_size": whole(f"{where}.up_to_size", size),
        "per_token": number(f"{where}.per_token", cost),
    }


@dataclasses.dataclass(frozen=True)
class DynamicContext:
    """The sizes that groups of context-parallel ranks may have: powers of two, and the whole pool."""

    # A power of two; where no sizes from it on add up to the pool, only the whole pool is used.
    min_size: int = 1
    # At most the pool; 0: the pool.
    max_size: int = 0

    def to_dict(self) -> dict[str, int]:
        """The sizes as the wire contract has them."""
        return {
            "min_size": positive("topology.dynamic_context.min_size", self.min_size),
            "max_size": whole("topology.dynamic_context.max_size", self.max_size),
        }


@dataclasses.dataclass(frozen=True)
class Selection:
    """How much of what waits is planned, by exactly one of the first three, and who may pass whom. Sequences
    of one group are taken together, and a group is as old as its oldest."""

    _: dataclasses.KW_ONLY
    # Exactly so many.
    sequences: int = 0
    # Exactly so many groups of group_ids.
    groups: int = 0
    # As many sequences, or groups, as first in, first out takes within so many tokens.
    max_tokens: int = 0
    # Older ones are left out (Plan.excluded, "expired"), and those of this age taken now; 0: any age.
    max_age: int = 0
    # What waits is passed in this plan by at most so many that stand behind it; 0: first in, first out.
    max_overtaking: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The selection as the wire contract has it."""
        fields = {name: whole(f"selection.{name}", value) for name, value in vars(self).items()}
        for name, value in fields.items():
            most = 2**64 - 1 if name == "max_tokens" else 2**32 - 1
            if not 0 <= value <= most:
                raise InvalidRequest(f"selection.{name} is {value}; must be 0 to {most}")
        targets = {name: fields.pop(name) for name in ("sequences", "groups", "max_tokens")}
        given = {name: value for name, value in targets.items() if value != 0}
        if len(given) != 1:
            raise InvalidRequest(
                ", ".join(f"selection.{name} is {value}" for name, value in targets.items())
                + "; exactly one of them must be at least 1"
            )
        if "max_tokens" in given:
            # 64-bit integers are strings in protobuf's JSON.
            return {**fields, "max_tokens": str(given["max_tokens"])}
        return {**fields, **given}


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """How the stages of a pipeline share the model and run micro-batches."""

    # "one_f_one_b", or with vpp above 1 "interleaved"; None: the one that vpp asks for.
    schedule: Schedule | None = None
    # Micro-batches of a group of the interleaved schedule, at least pp; 0: pp.
    group_size: int = 0
    # The time of a backward over that of its forward.
    backward_ratio: float = 2.0
    # pp * vpp parts of the model's time, in the model's order and any unit; empty: equal ones.
    stage_shares: Sequence[float] = ()
    # What comes on top from stage to stage, in units of the cost model.
    transfer: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The pipeline as the wire contract has it."""
        shares = self.stage_shares if isinstance(self.stage_shares, Iterable) else (self.stage_shares,)
        return without_none(
            schedule=enum("pipeline.schedule", self.schedule, "schedule"),
            group_size=whole("pipeline.group_size", self.group_size),
            backward_ratio=number("pipeline.backward_ratio", self.backward_ratio),
            stage_shares=[
                number(f"pipeline.stage_shares[{place}]", one) for place, one in enumerate(shares)
            ],
            transfer=number("pipeline.transfer", self.transfer),
        )


@dataclasses.dataclass(frozen=True)
class Pass:
    """One use of the batch in a training step, such as the training or the log-probabilities.

    What is None takes the preset's value.
    """

    # Of a micro-batch on one rank, padding included.
    max_tokens: int
    name: str = ""
    _: dataclasses.KW_ONLY
    # Lengths are rounded up to a multiple of it, besides what cp and tp need.
    length_multiple: int | None = None
    # Both of a rank and mini-batch.
    min_microbatches: int | None = None
    microbatch_count_multiple: int | None = None
    max_sequences: int | None = None
    # What divides the number of sequences of each micro-batch.
    sequence_count_multiple: int | None = None
    balance_on: BalanceOn | None = None
    # Of packed rows.
    packer: Packer | None = None
    rows: RowPadding | None = None
    # Row widths for rows="buckets"; with dynamic_cp for cp ranks, as max_tokens is.
    buckets: Sequence[int] = ()
    # Padded rows in place of packed ones, split so: "sorted" or "optimal".
    scan: Scan | None = None
    sharding: Sharding | None = None
    equal_sequence_counts: bool | None = None
    # How equal: "exact", as equal_sequence_counts, or "within_one", which always works out.
    sequence_counts: EqualCounts | None = None
    order: MicroBatchOrder | None = None
    ignore_mini_batches: bool = False
    # Pipelines run forwards alone, as for log-probabilities.
    forward_only: bool = False
    # Compute every sequence whole, whatever it shares with others.
    ignore_shared_prefixes: bool = False
    # By name of a load the most that a micro-batch may have of it; of a dealt one a rank of a slot.
    limits: Mapping[str, float] | None = dataclasses.field(default=None, hash=False)
    # Which of `kinds` run at the same time: "any"; "together", every rank of a slot has a kind other
    # than 0 or none has; "alike", all of a slot are of one kind.
    kinds_per_slot: KindsPerSlot | None = None

    def to_dict(self, place: int = 0) -> dict[str, Any]:
        """The pass as the wire contract has it; errors name it by its place among others."""
        own = f"passes[{place}]"
        wholes = {
            "max_tokens_per_microbatch": self.max_tokens,
            "length_multiple": self.length_multiple,
            "min_microbatches": self.min_microbatches,
            "microbatch_count_multiple": self.microbatch_count_multiple,
            "max_sequences_per_microbatch": self.max_sequences,
            "sequence_count_multiple": self.sequence_count_multiple,
        }
        flags = {
            "equal_sequence_counts": self.equal_sequence_counts,
            "ignore_mini_batches": self.ignore_mini_batches,
            "forward_only": self.forward_only,
            "ignore_shared_prefixes": self.ignore_shared_prefixes,
        }
        buckets = self.buckets if isinstance(self.buckets, Iterable) else (self.buckets,)
        packed = without_none(
            packer=enum("packer", self.packer),
            rows=enum("rows", self.rows),
            buckets=[whole(f"{own}.packed.buckets", one) for one in buckets] or None,
        )
        if packed and self.scan is not None:
            raise InvalidRequest(
                f'scan is "{self.scan}", of padded rows; packer, rows and buckets are of packed ones'
            )
        padded = None if self.scan is None else {"scan": enum("scan", self.scan)}
        return without_none(
            name=text(f"{own}.name", self.name),
            **{name: _size(f"{own}.{name}", one) for name, one in wholes.items() if one is not None},
            **{name: flag(f"{own}.{name}", one) for name, one in flags.items() if one is not None},
            balance_on=enum("balance_on", self.balance_on),
            packed=packed or None,
            padded=padded,
            sharding=enum("sharding", self.sharding),
            order=enum("order", self.order),
            sequence_counts=enum("sequence_counts", self.sequence_counts),
            kinds_per_slot=enum("kinds_per_slot", self.kinds_per_slot),
            limits=_limits(f"{own}.limits", self.limits) or None,
        )


def _size(where: str, value: Any) -> int:
    """At least 1, unless 0 is a limit that there is not."""
    return (whole if where.endswith("max_sequences_per_microbatch") else positive)(where, value)


def _limits(where: str, limits: Any) -> list[dict[str, Any]]:
    if limits is None:
        return []
    if not isinstance(limits, Mapping):
        raise InvalidRequest(f"{where} is {limits!r}; must be numbers by name of a load")
    return [
        {
            "load": text(f"{where}[{place}].load", name),
            "max_per_microbatch": number(f"{where}[{place}].max_per_microbatch", most),
        }
        for place, (name, most) in enumerate(limits.items())
    ]


def without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
