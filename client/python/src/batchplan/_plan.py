"""A plan: arrays that are read where the planner wrote them, and views of ranks and micro-batches."""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy
from numpy.typing import NDArray

from batchplan import _core
from batchplan._dealt import Dealing
from batchplan._errors import Error
from batchplan._measured import Comparison, MicroBatchTiming, compare, milliseconds
from batchplan._micro_batch import MicroBatch, Uint32s, restore_read_only
from batchplan._plan_loads import NO_LOADS, LoadValues

Output = TypeVar("Output")
# Sequences of all passes that a notebook shows as a picture: a page of half a megabyte.
_MOST_DRAWN = 32_768


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


class PassPlan:
    """One use of the batch. Its arrays are read-only: views of the plan, or copies in another process.

    Attributes:
        name: the pass's, maybe "".
        sequence_index: the sequences in execution order, as positions in the batch. Shape [sequences].
        sequence_lengths: planned true lengths, parallel to it.
        microbatch_offsets: where each micro-batch begins in the two. Shape [micro-batches + 1].
        row_widths: tokens of each packed row, or the padded width. Shape [micro-batches].
        microbatches_per_rank: of each mini-batch, the same for every rank. Shape [mini-batches].
        context_sizes: where groups differ in size, the ranks that share each micro-batch's tokens. Micro-batches
            then stand slot by slot, and the groups of a slot take the ranks of the pool in order. Shape
            [micro-batches], or [0] where all groups are alike.
        shared_tokens: where the pass has prefixes to share, how many first tokens of each sequence stand in the
            row already, since the sequence before it has them too: parallel to sequence_index. Shape
            [sequences], or [0] where nothing is shared.
        item_ranks: of each dealt load, by name, the data-parallel rank that computes each item, in the slot of its
            sequence; 0 of those of sequences that are not planned. Shape [items]. MicroBatch.dealt has a slot's.
        length_multiple: what lengths are rounded up to a multiple of; where groups differ in size, by one
            rank alone. MicroBatch.length_multiple is that of its group.
        padded: whether micro-batches are rows of one width, in place of one packed row.
        metrics: how good it is.
        decisions: how its micro-batches came about, one entry a mini-batch, of the first 1,024.
        is_dynamic: whether groups of context-parallel ranks differ in size.
        data_parallel: data-parallel ranks, those that rank() takes; where groups differ in size, all of the pool,
            data-parallel times context-parallel ones.
        context_parallel: ranks that share a micro-batch's tokens; where groups differ in size, those that the
            budget of tokens is of. All ranks are data_parallel * context_parallel; where groups differ in
            size, data_parallel alone.
        stage_shares: the part of the model's time that each stage of the pipeline takes; (1.0,) without.
        synchronization: what it was made for, "lockstep" or "accumulated".
        predicted_milliseconds: its predicted step time if it was made with cost="fitted", else None: other
            costs may be in any unit.
    """

    def __init__(
        self,
        planned: _core.Planned,
        place: int,
        head: dict[str, Any],
        asked: _Asked,
        ranks: range,
        is_slice: bool,
        item_sequences: Mapping[str, Uint32s],
        loads: LoadValues,
    ) -> None:
        self.name: str = head["name"]
        self.sequence_index = planned.sequence_index(place)
        self.sequence_lengths = planned.sequence_lengths(place)
        self.microbatch_offsets = planned.microbatch_offsets(place)
        self.row_widths = planned.row_widths(place)
        self.microbatches_per_rank = planned.microbatches_per_rank(place)
        self.context_sizes = planned.context_sizes(place)
        self.shared_tokens = planned.shared_tokens(place)
        self.item_ranks = dict(planned.item_ranks(place))
        self.is_dynamic = asked.dynamic
        sizes, wanted = len(self.context_sizes), len(self.row_widths) if self.is_dynamic else 0
        if sizes != wanted:
            raise Error(
                f"the answer is no plan of this request: context_sizes of passes[{place}] has {sizes} entries; "
                f"must have {wanted}, one for each micro-batch where the request has dynamic_context, else none"
            )
        self.length_multiple: int = head["lengthMultiple"]
        self.padded = asked.padded[place]
        self.metrics = PlanMetrics(
            **{
                field.name: _number(head["metrics"][_camel(field.name)])
                for field in dataclasses.fields(PlanMetrics)
                if field.name != "loads"
            },
            loads={one["load"]: _load_metrics(one) for one in head["metrics"]["loads"]},
        )
        self.decisions = tuple(
            MiniBatchDecision(
                one["method"],
                one["fewestSlots"],
                tuple(SlotsTried(tried["slots"], _number(tried["stepTime"])) for tried in one["tried"]),
            )
            for one in head["decisions"]
        )
        self.data_parallel = asked.data_parallel
        self.context_parallel = asked.context_parallel
        if self.is_dynamic:
            self.data_parallel *= self.context_parallel
        self.stage_shares = asked.stage_shares
        self.synchronization = asked.synchronization
        self.predicted_milliseconds = self.metrics.predicted_step_time if asked.fitted else None
        self._tensor_multiple = asked.tensor_multiple
        self._ranks = ranks
        self._is_slice = is_slice
        self._item_sequences = item_sequences
        self._loads = loads
        for load, own in self.item_ranks.items():
            entries = len(item_sequences.get(load, ()))
            if len(own) != entries:
                raise Error(
                    f'the answer is no plan of this request: item_ranks of "{load}" of passes[{place}] has '
                    f"{len(own)} entries; must have {entries}, one for each item"
                )

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore_read_only(self, state)
        for one in (*self.item_ranks.values(), *self._item_sequences.values()):
            one.flags.writeable = False

    def compare(
        self, timings: Iterable[MicroBatchTiming], *, predicted_step_time: float | None = None
    ) -> Comparison:
        """What the step took, beside what was predicted.

        Args:
            timings: of all of its micro-batches on all ranks, in any order; those without sequences may
                be missing, and took no time then.
            predicted_step_time: in milliseconds; None: predicted_milliseconds.

        Raises:
            ValueError: a micro-batch is missing, there twice or none of the plan, or its time or the
                predicted one is none; or it is one rank's part of a plan, or that of a pipeline, whose
                stages also wait for each other.
        """
        if self._is_slice:
            raise ValueError("it is one rank's part of a plan; what a step takes needs all ranks")
        if len(self.stage_shares) > 1:
            raise ValueError(
                f"it is the plan of a pipeline of {len(self.stage_shares)} stages; what its step takes "
                "does not follow from what one of them does"
            )
        predicted = self.predicted_milliseconds
        if predicted_step_time is not None:
            predicted = milliseconds("predicted_step_time", predicted_step_time)
        slots = self.microbatches_per_rank.tolist()
        places = self._places
        return compare(
            timings,
            slots=slots,
            ranks=self.data_parallel,
            filled=(numpy.diff(self.microbatch_offsets) > 0)[places],
            groups=places if self.is_dynamic else None,
            accumulated=self.synchronization == "accumulated",
            predicted_milliseconds=predicted,
        )

    def rank(self, rank: int) -> Iterator[MicroBatch]:
        """The micro-batches of a data-parallel rank, in the order in which it runs them; where groups
        differ in size, of a rank of the pool.

        Raises:
            IndexError: there is no such rank.
        """
        if operator.index(rank) not in self._ranks:
            raise IndexError(f"rank is {rank}; must be {self._ranks.start} to {self._ranks[-1]}")
        return self._microbatches(operator.index(rank))

    def _microbatches(self, rank: int) -> Iterator[MicroBatch]:
        own = self._places.reshape(-1)
        first = 0
        for mini_batch, slots in enumerate(self.microbatches_per_rank.tolist()):
            begin = first + (rank - self._ranks.start) * slots
            for slot, place in enumerate(own[begin : begin + slots].tolist()):
                yield self._microbatch(mini_batch, rank, slot, place)
            first += slots * len(self._ranks)

    def _microbatch(self, mini_batch: int, rank: int, slot: int, place: int) -> MicroBatch:
        begin, end = self.microbatch_offsets[place : place + 2].tolist()
        size = self.context_parallel
        if self.is_dynamic:
            size = int(self.context_sizes[place])
        dealt = {name: one.of(place) for name, one in self._dealings.items()}
        return MicroBatch(
            mini_batch,
            rank,
            slot,
            self.sequence_index[begin:end],
            self.sequence_lengths[begin:end],
            int(self.row_widths[place]),
            self._multiple_of(size),
            self.padded,
            size,
            self.stage_shares,
            rank % size if self.is_dynamic else None,
            self.shared_tokens[begin:end] if len(self.shared_tokens) else None,
            dealt,
            self._loads.of(self.sequence_index[begin:end], dealt),
        )

    @functools.cached_property
    def _dealings(self) -> dict[str, Dealing]:
        """Of each dealt load. Their groups are all alike."""
        if not self.item_ranks:
            return {}
        sequences = [self.sequence_index, *(self._item_sequences[name] for name in self.item_ranks)]
        count = max(int(one.max(initial=0)) for one in sequences) + 1
        microbatch_of = numpy.full(count, -1, numpy.int64)
        sizes = numpy.diff(self.microbatch_offsets.astype(numpy.int64))
        microbatch_of[self.sequence_index] = numpy.repeat(numpy.arange(len(sizes)), sizes)
        slot_of, rank_of = [], []
        first = 0
        for slots in self.microbatches_per_rank.tolist():
            slot_of.append(numpy.tile(first + numpy.arange(slots), len(self._ranks)))
            rank_of.append(numpy.repeat(numpy.arange(self._ranks.start, self._ranks.stop), slots))
            first += slots
        return {
            name: Dealing(
                ranks,
                self._item_sequences[name],
                microbatch_of,
                numpy.concatenate(slot_of),
                numpy.concatenate(rank_of),
                self._is_slice,
            )
            for name, ranks in self.item_ranks.items()
        }

    @functools.cached_property
    def _places(self) -> NDArray[numpy.int64]:
        """Which micro-batch of the plan each rank runs in each slot, in the order of a plan whose groups are
        alike: by mini-batch, rank and slot."""
        count = int(self.microbatches_per_rank.sum()) * len(self._ranks)
        if not self.is_dynamic or self._is_slice:
            return numpy.arange(count)
        # Slots are whole pools of ranks.
        groups = numpy.repeat(numpy.arange(len(self.context_sizes)), self.context_sizes)
        by_slot = groups.reshape(-1, len(self._ranks))
        ends = numpy.cumsum(self.microbatches_per_rank)[:-1]
        return numpy.concatenate([one.T.reshape(-1) for one in numpy.split(by_slot, ends)])

    def _multiple_of(self, size: int) -> int:
        """What a group of so many ranks rounds lengths up to a multiple of."""
        if not self.is_dynamic or size == 1:
            return self.length_multiple
        return math.lcm(self.length_multiple, 2 * size * self._tensor_multiple)

    def __repr__(self) -> str:
        metrics = self.metrics
        name = f" {self.name!r}:" if self.name else ":"
        count = len(self._ranks)
        ranks = f"{count} rank{'s' if count > 1 else ''}"
        if self._is_slice:
            ranks = f"rank {self._ranks.start} alone"
        microbatches = f"{int(self.microbatches_per_rank.sum())} micro-batches"
        if len(self.context_sizes):
            smallest, largest = int(self.context_sizes.min()), int(self.context_sizes.max())
            microbatches += f" in groups of {smallest} to {largest}"
        return (
            f"<PassPlan{name} {len(self.sequence_index)} sequences on {ranks} x "
            f"{microbatches}, bin utilization "
            f"{metrics.bin_utilization:.1%}, step efficiency {metrics.step_efficiency:.1%}>"
        )


class Plan:
    """The plan of a global batch. What a pass has, stands here too, for the first one.

    Attributes:
        passes: one for each pass that was asked for.
        excluded: sequences that were too old, were cut, left out, or run alone above the budget, by index.
        deferred: with a selection, the sequences that wait, as positions in the batch, ascending. Shape
            [sequences that wait].
        fingerprint: 64 hexadecimal digits, equal exactly when plans are.
        planner_version: of the planner that made it.
        planning_seconds: what that took.
        worker_offsets: of a plan that workers joined, where each one's part begins in the batch. Shape
            [workers + 1]. Else None.
        item_sequences: of each load that came as `items`, by name, the sequence of each item, as a position in the
            batch; of a plan that workers joined, of each dealt load the items of all workers. Shape [items].
    """

    def __init__(
        self,
        planned: _core.Planned,
        request_json: str,
        where: str,
        *,
        ranks: range | None = None,
        worker_offsets: Uint32s | None = None,
        item_sequences: Mapping[str, Uint32s] | None = None,
        loads: LoadValues = NO_LOADS,
    ) -> None:
        self._is_slice = ranks is not None
        ranks = range(planned.ranks()) if ranks is None else ranks
        head: dict[str, Any] = json.loads(planned.head_json())
        asked = _asked(request_json)
        self.item_sequences = {} if item_sequences is None else dict(item_sequences)
        self.passes = tuple(
            PassPlan(planned, place, one, asked, ranks, self._is_slice, self.item_sequences, loads)
            for place, one in enumerate(head["passes"])
        )
        self.excluded = tuple(
            ExcludedSequence(one["index"], one["length"], one["reason"].rpartition("_")[2].lower())
            for one in head["excluded"]
        )
        self.deferred = planned.deferred()
        self.fingerprint: str = head["fingerprint"]
        self.planner_version: str = head["plannerVersion"]
        self.planning_seconds = float(head.get("planningTime", "0s").removesuffix("s"))
        self.worker_offsets = worker_offsets
        self._head = head
        self._request_json = request_json
        self._where = where

    @property
    def metrics(self) -> PlanMetrics:
        """How good the first pass's plan is."""
        return self.passes[0].metrics

    @property
    def decisions(self) -> tuple[MiniBatchDecision, ...]:
        """How the first pass's micro-batches came about: PassPlan.decisions."""
        return self.passes[0].decisions

    @property
    def item_ranks(self) -> dict[str, Uint32s]:
        """Which rank computes each item of a dealt load in the first pass: PassPlan.item_ranks."""
        return self.passes[0].item_ranks

    def rank(self, rank: int) -> Iterator[MicroBatch]:
        """The micro-batches of a rank in the first pass: PassPlan.rank."""
        return self.passes[0].rank(rank)

    def compare(
        self, timings: Iterable[MicroBatchTiming], *, predicted_step_time: float | None = None
    ) -> Comparison:
        """What the step of the first pass took, beside what was predicted: PassPlan.compare."""
        return self.passes[0].compare(timings, predicted_step_time=predicted_step_time)

    @overload
    def restore(self, outputs: NDArray[Any]) -> NDArray[Any]: ...
    @overload
    def restore(self, outputs: Sequence[Output]) -> list[Output | None]: ...
    def restore(
        self, outputs: NDArray[Any] | Sequence[Output]
    ) -> NDArray[Any] | list[Output | None]:
        """Brings what was computed for each sequence back to the batch's order.

        Args:
            outputs: one for each sequence of the first pass, in the order of its sequence_index: the
                ranks' outputs one after the other, mini-batch by mini-batch; where groups differ in size,
                those of the groups, slot by slot. An array's first dimension is that of the sequences.

        Returns:
            outputs by position in the batch: an array of the same dtype for an array, with zeros for
            sequences that are not trained; else a list, with None for them.

        Raises:
            ValueError: there are not as many outputs as planned sequences; or it is one rank's part.
        """
        if self._is_slice:
            raise ValueError("it is one rank's part of a plan; the batch's order needs all ranks")
        index = self.passes[0].sequence_index
        if len(outputs) != len(index):
            raise ValueError(f"outputs has {len(outputs)} entries; the plan has {len(index)} sequences")
        left_out = sum(one.reason in ("dropped", "expired") for one in self.excluded)
        size = len(index) + left_out + len(self.deferred)
        if isinstance(outputs, numpy.ndarray):
            restored = numpy.zeros((size, *outputs.shape[1:]), outputs.dtype)
            restored[index] = outputs
            return restored
        listed: list[Output | None] = [None] * size
        for position, output in zip(index.tolist(), outputs):
            listed[position] = output
        return listed

    def to_dict(self) -> dict[str, Any]:
        """The plan as protobuf's JSON of a PlanBatchResponse has it, for json.dump."""
        passes = [
            head
            | {
                "sequenceIndex": one.sequence_index.tolist(),
                "microbatchOffsets": one.microbatch_offsets.tolist(),
                "microbatchesPerRank": one.microbatches_per_rank.tolist(),
                "rowWidths": one.row_widths.tolist(),
                "sequenceLengths": one.sequence_lengths.tolist(),
                "contextSizes": one.context_sizes.tolist(),
                "sharedTokens": one.shared_tokens.tolist(),
                "itemRanks": [
                    {"load": name, "ranks": ranks.tolist()} for name, ranks in one.item_ranks.items()
                ],
            }
            for head, one in zip(self._head["passes"], self.passes)
        ]
        return self._head | {"passes": passes, "deferred": self.deferred.tolist()}

    def to_html(self) -> str:
        """The plan as a page for the browser, of one file that needs no other: the picture of ranks over
        time, what stands in each micro-batch, and the metrics. Some 12 bytes a sequence.

        Raises:
            ValueError: of one rank's part of a plan.
        """
        if self._is_slice:
            raise ValueError("it is one rank's part of a plan; the picture needs all ranks")
        return _core.plan_page(self._request_json, json.dumps(self.to_dict()), self._where)

    def _repr_html_(self) -> str | None:
        """The page, for notebooks; None, so that they show the text, where there is none or it is large."""
        drawn = sum(len(one.sequence_index) for one in self.passes) + len(self.excluded)
        if self._is_slice or drawn > _MOST_DRAWN:
            return None
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 700px; border: 0"></iframe>'

    def __repr__(self) -> str:
        if len(self.passes) == 1:
            return repr(self.passes[0]).replace("<PassPlan", "<Plan", 1)
        return f"<Plan: {', '.join(map(repr, self.passes))}>"


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What a plan's request says of it, and the plan does not."""

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
def _asked(request_json: str) -> _Asked:
    request: dict[str, Any] = json.loads(request_json)
    topology: dict[str, Any] = request.get("topology", {})
    stages = max(1, topology.get("pipeline_parallel", 1))
    default = "SYNCHRONIZATION_LOCKSTEP" if stages == 1 else "SYNCHRONIZATION_ACCUMULATED"
    synchronization = request.get("synchronization", default)
    # Of virtual stages, which belong to the stages in turn.
    shares: list[float] = request.get("pipeline", {}).get("stage_shares") or [1.0] * stages
    return _Asked(
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


@functools.cache
def _camel(name: str) -> str:
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)


def _load_metrics(head: dict[str, Any]) -> LoadMetrics:
    names = (field.name for field in dataclasses.fields(LoadMetrics))
    return LoadMetrics(**{name: _number(head[_camel(name)]) for name in names})


def _number(value: Any) -> Any:
    """64-bit integers are strings in protobuf's JSON."""
    return int(value) if isinstance(value, str) else value
