"""The plan of a global batch."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy
from numpy.typing import NDArray

from batchplan import _core
from batchplan._asked import asked_of
from batchplan._equal import are_equal
from batchplan._errors import Error
from batchplan._explain import Explanation, explain
from batchplan._measured import Comparison, MicroBatchTiming
from batchplan._micro_batch import MicroBatch, Uint32s
from batchplan._pass_plan import PassPlan
from batchplan._plan_file import from_bytes, to_bytes, write
from batchplan._plan_loads import NO_LOADS, LoadValues
from batchplan._plan_metrics import ExcludedSequence, MiniBatchDecision, PlanMetrics

Output = TypeVar("Output")
# Sequences of all passes that a notebook shows as a picture: a page of half a megabyte.
_MOST_DRAWN = 32_768
_NONE = numpy.empty(0, numpy.uint32)


class Plan:
    """The plan of a global batch. What a pass has, stands here too, for the first one.

    Plans are equal if all of this is, and what was asked for: the lengths and what else sequences have, the options,
    and which rank's part of the plan it is. Where and when a plan was made, job_id, step and own_part do not count. A plan that
    workers joined knows no lengths but those in it, unless it was joined with return_request, and equals such plans
    alone. Pickled plans, and copies, are equal to the plan.

    Attributes:
        passes: one for each pass that was asked for.
        excluded: sequences that were too old, were cut, left out, or run alone above the budget, by index.
        deferred: with a selection, the sequences that wait, as positions in the batch, ascending. Shape
            [sequences that wait].
        fingerprint: 64 hexadecimal digits, of plans for the same request equal exactly when plans are.
        planner_version: of the planner that made it.
        planning_seconds: what that took.
        own_part: of a plan that workers joined, the positions in the batch of this one's sequences. Else None.
        worker_offsets: of a plan that workers joined, where each one's part begins in the batch. Shape
            [workers + 1]. None else, and where only the worker's own part is told.
        item_sequences: of each load that came as `items`, by name, the sequence of each item, as a position in the
            batch; of a plan that workers joined without return_request, of each dealt load the items of all workers.
            Shape [items]. Where only the worker's own part is told, excluded and deferred are of its sequences and
            its rank's alone.
    """

    def __init__(
        self,
        planned: _core.Planned,
        request_json: str,
        where: str,
        *,
        # Whose part of a plan it is; None: the whole plan.
        ranks: range | None = None,
        worker_offsets: Uint32s | None = None,
        own_part: range | None = None,
        # Of no use where there are arrays.
        item_sequences: Mapping[str, Uint32s] | None = None,
        # Of the whole manifest, which stay as they are; None: not known.
        arrays: _core.Arrays | None = None,
    ) -> None:
        self._is_slice = ranks is not None
        ranks = range(planned.ranks()) if ranks is None else ranks
        head = planned.head()
        self._asked = asked_of(request_json)
        self.item_sequences = dict(item_sequences or {})
        loads = NO_LOADS
        if arrays is not None:
            *_, items = arrays
            self.item_sequences = {name: sequences for name, sequences, _ in items}
            loads = LoadValues.of_arrays(arrays)
        if len(head["passes"]) != len(self._asked.padded):
            raise Error(
                f"the answer is no plan of this request: it has {len(head['passes'])} passes; must have "
                f"{len(self._asked.padded)}"
            )
        self.passes = tuple(
            PassPlan(planned, place, one, self._asked, ranks, self._is_slice, self.item_sequences, loads)
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
        self._check_positions(None if arrays is None else len(arrays[0]))
        self._planned = planned
        self._ranks = ranks
        self.own_part = own_part
        self._head = head
        self._request_json = request_json
        self._where = where
        self._arrays = arrays

    def _check_positions(self, size: int | None) -> None:
        """That all are of a batch of so many sequences; None: not known."""
        if size is None and self.worker_offsets is not None:
            size = int(self.worker_offsets[-1])
        if size is None:
            return
        largest = max(int(one.max(initial=0)) for one in (self.deferred, *(one.sequence_index for one in self.passes)))
        largest = max(largest, *(one.index for one in self.excluded), 0)
        if largest >= max(1, size):
            raise Error(
                f"the answer is no plan of this request: it has sequence {largest}; must be below {size}, the "
                "number of sequences"
            )

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

    def rank(self, rank: int) -> Sequence[MicroBatch]:
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
        """The plan without its request, as protobuf's JSON of a PlanBatchResponse, for json.dump. To keep a plan use save."""
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan to a file, for load: all of it, with what was asked for. A file of this name is replaced, in
        one step. Some 8 bytes a sequence for a pass, and 4 more for each further array."""
        write(path, self._to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """The plan that save() wrote: equal to the one that was saved.

        Raises:
            ValueError: the file is no such plan, or not all of it, or of another version that this one can't read.
        """
        with open(path, "rb") as file:
            data = file.read()
        try:
            return cls._of_bytes(data)
        except (ValueError, Error, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"{os.fspath(path)} is no plan that save() wrote: {error}") from error

    def _to_bytes(self) -> bytes:
        offsets = _NONE if self.worker_offsets is None else self.worker_offsets
        # Arrays have the sequences of all items.
        items = [] if self._arrays is not None else list(self.item_sequences.items())
        message = _core.encode_saved_plan(self._planned, self._request_json, self._arrays, offsets, items)
        return to_bytes(
            message,
            where=self._where,
            ranks=self._planned.ranks(),
            rank=self._ranks.start if self._is_slice else None,
            own_part=self.own_part,
        )

    @classmethod
    def _of_bytes(cls, data: bytes) -> Plan:
        line, message = from_bytes(data)
        planned, offsets, items, request_json, arrays = _core.decode_saved_plan(message, line["ranks"])
        rank, own_part = line["rank"], line["own_part"]
        plan = cls(
            planned,
            request_json,
            line["where"],
            ranks=None if rank is None else range(rank, rank + 1),
            worker_offsets=offsets if len(offsets) > 0 else None,
            own_part=None if own_part is None else range(*own_part),
            item_sequences=dict(items),
            arrays=arrays,
        )
        # What is otherwise read when it is asked for is refused here.
        for one in plan.passes:
            _ = one.metrics, one.decisions
        return plan

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of_bytes, (self._to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self.fingerprint == other.fingerprint and are_equal(self._content(), other._content())

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def _content(self) -> tuple[Any, ...]:
        """What makes two plans equal."""
        return (
            self._asked.request_json, self._arrays, self.passes, self.excluded, self.deferred, self.worker_offsets,
            self.item_sequences, self._head["costModelUsed"],
        )  # fmt: skip

    def explain(self, number: int = 0) -> Explanation:
        """Why ranks wait in a pass, and with a selection why sequences do: proven or added up, not guessed. print()
        shows it as sentences.

            print(batchplan.plan(lengths, dp=16, max_tokens=16384).explain())

        Raises:
            IndexError: there is no such pass.
            ValueError: of one rank's part of a plan; or of a plan that workers joined without return_request, as none
                of them knows what the others sent.
        """
        if self._is_slice:
            raise ValueError("it is one rank's part of a plan; why ranks wait is in the whole plan")
        if self._arrays is None:
            raise ValueError(
                "it is a plan that workers joined, none of whom knows what the others sent; join(..., "
                "return_request=True) gets that too"
            )
        return explain(self._request_json, self.to_dict(), self._arrays)[number]

    def to_html(self) -> str:
        """The plan as a page for the browser, of one file that needs no other: the picture of ranks over
        time, what stands in each micro-batch, why ranks wait, and the metrics. Some 12 bytes a sequence.

        Raises:
            ValueError: of one rank's part of a plan.
        """
        if self._is_slice:
            raise ValueError("it is one rank's part of a plan; the picture needs all ranks")
        return _core.plan_page(self._request_json, json.dumps(self.to_dict()), self._where, self._arrays)

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
