"""One use of the batch: arrays that are read where the planner wrote them, and views of ranks and micro-batches."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan import _core
from batchplan._asked import Asked
from batchplan._dealt import Dealing
from batchplan._equal import are_equal
from batchplan._errors import Error
from batchplan._measured import Comparison, MicroBatchTiming, compare, milliseconds
from batchplan._micro_batch import MicroBatch, Uint32s, restore_read_only
from batchplan._plan_loads import LoadValues
from batchplan._plan_metrics import MiniBatchDecision, PlanMetrics, decision_of, metrics_of
from batchplan._rank_plan import RankPlan


class PassPlan:
    """One use of the batch. Its arrays are read-only: views of the plan, or copies in another process. Passes are equal
    if all of this is, and the ranks that they have.

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
        asked: Asked,
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
        self._head = head
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
            if own.max(initial=0) >= self.data_parallel:
                raise Error(
                    f'the answer is no plan of this request: item_ranks of "{load}" of passes[{place}] has rank '
                    f"{own.max()}; must be below {self.data_parallel}"
                )

    @functools.cached_property
    def metrics(self) -> PlanMetrics:
        return metrics_of(self._head["metrics"])

    @functools.cached_property
    def decisions(self) -> tuple[MiniBatchDecision, ...]:
        return tuple(map(decision_of, self._head["decisions"]))

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

    def rank(self, rank: int) -> Sequence[MicroBatch]:
        """The micro-batches of a data-parallel rank, in the order in which it runs them; where groups
        differ in size, of a rank of the pool. Each is made when it is asked for.

        Raises:
            IndexError: there is no such rank.
        """
        if operator.index(rank) not in self._ranks:
            raise IndexError(f"rank is {rank}; must be {self._ranks.start} to {self._ranks[-1]}")
        own = self._places.reshape(-1)
        first, slots_of_rank = 0, []
        for mini_batch, slots in enumerate(self.microbatches_per_rank.tolist()):
            begin = first + (operator.index(rank) - self._ranks.start) * slots
            places = own[begin : begin + slots].tolist()
            slots_of_rank += [(mini_batch, slot, place) for slot, place in enumerate(places)]
            first += slots * len(self._ranks)
        return RankPlan(functools.partial(self._microbatch, operator.index(rank)), slots_of_rank)

    def _microbatch(self, rank: int, mini_batch: int, slot: int, place: int) -> MicroBatch:
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
        # Of one rank's part of a batch the largest position may be far above the number of sequences.
        order = numpy.argsort(self.sequence_index, kind="stable")
        planned = self.sequence_index[order]
        sizes = numpy.diff(self.microbatch_offsets.astype(numpy.int64))
        microbatch_of = numpy.repeat(numpy.arange(len(sizes)), sizes)[order]

        def places_of(sequences: Uint32s) -> NDArray[numpy.int64]:
            """The micro-batch of each sequence; -1: not planned."""
            if len(planned) == 0:
                return numpy.full(len(sequences), -1)
            at = numpy.minimum(numpy.searchsorted(planned, sequences), len(planned) - 1)
            return numpy.where(planned[at] == sequences, microbatch_of[at], -1)

        slot_of, rank_of = [], []
        first = 0
        for slots in self.microbatches_per_rank.tolist():
            slot_of.append(numpy.tile(first + numpy.arange(slots), len(self._ranks)))
            rank_of.append(numpy.repeat(numpy.arange(self._ranks.start, self._ranks.stop), slots))
            first += slots
        return {
            name: Dealing(
                ranks,
                places_of(self._item_sequences[name]),
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PassPlan):
            return NotImplemented
        return are_equal(self._content(), other._content())

    def __hash__(self) -> int:
        return hash((self.name, self.metrics))

    def _content(self) -> dict[str, Any]:
        """What makes two passes equal."""
        found = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return {
            **found, "metrics": self.metrics, "decisions": self.decisions, "ranks": self._ranks,
            "is_slice": self._is_slice,
        }  # fmt: skip

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
