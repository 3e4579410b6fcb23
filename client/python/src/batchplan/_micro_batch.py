"""One micro-batch of a plan: what is in it, and where it runs."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._measured import MicroBatchTiming

Uint32s = NDArray[numpy.uint32]
Int32s = NDArray[numpy.int32]
_INT32_MOST = 2**31 - 1


def restore_read_only(self: Any, state: dict[str, Any]) -> None:
    """Arrays come writable from another process."""
    self.__dict__.update(state)
    for value in state.values():
        if isinstance(value, numpy.ndarray):
            value.flags.writeable = False


@dataclasses.dataclass(frozen=True, eq=False)
class DealtItems:
    """The items of a dealt load that one rank sends and receives in a slot, numbered as in the plan's `items`, in
    the order in which an all-to-all of all ranks of the slot takes and gives them. Its splits count the ranks:
    numpy.bincount(sent_to, minlength=dp) and numpy.bincount(received_from, minlength=dp)."""

    # Those of its own sequences, by the rank that computes each, then by number; and that rank, which may be itself.
    sent: Uint32s
    sent_to: Uint32s
    # Those that it computes, by the rank whose sequence has each, then by number; and that rank. None of one rank's
    # part of a plan, which does not have the others' sequences.
    received: Uint32s | None = None
    received_from: Uint32s | None = None

    __setstate__ = restore_read_only


@dataclasses.dataclass(frozen=True, eq=False)
class MicroBatch:
    """What one rank computes at once."""

    mini_batch: int
    rank: int
    slot: int
    # Positions in the batch, in the order of the row. Shape [n].
    indices: Uint32s
    # Planned true lengths in tokens. Shape [n].
    lengths: Uint32s
    # Tokens of the packed row; of padded rows, the width of each.
    width: int
    # What lengths are rounded up to a multiple of.
    length_multiple: int
    # Rows of one width, [n, width], in place of one packed row.
    padded: bool = False
    # Ranks that share its tokens.
    context_parallel: int = 1
    # The part of the model's time that each stage of the pipeline takes.
    stage_shares: tuple[float, ...] = (1.0,)
    # Where groups differ in size, and `rank` is one of the pool of all data-parallel and context-parallel
    # ranks: its place in the group. None where all groups are alike, and `rank` is a data-parallel one.
    context_parallel_rank: int | None = None
    # How many first tokens of each sequence stand in the row already, since the one before it has them too; 0
    # of the first. The row lays the others end to end. Shape [n]; None where nothing is shared.
    shared_tokens: Uint32s | None = None
    # Of each dealt load, by name, the items to send and to compute.
    dealt: Mapping[str, DealtItems] = dataclasses.field(default_factory=dict)
    # Of each load of the batch, by name, what the micro-batch has: the sum over its sequences, of a dealt load
    # over the items that the rank computes. Empty where workers joined, none of which knows the others' loads.
    loads: Mapping[str, float] = dataclasses.field(default_factory=dict)

    __setstate__ = restore_read_only

    @property
    def is_dynamic(self) -> bool:
        """Whether groups of context-parallel ranks differ in size, and `rank` is one of the pool of ranks."""
        return self.context_parallel_rank is not None

    @property
    def ranks(self) -> range:
        """The ranks that share its tokens, by their numbers in the pool of all data-parallel and
        context-parallel ranks, in which the ranks of a group stand side by side."""
        first = self.rank * self.context_parallel
        if self.context_parallel_rank is not None:
            first = self.rank - self.context_parallel_rank
        return range(first, first + self.context_parallel)

    @functools.cached_property
    def cu_seqlens(self) -> Int32s:
        """Sums of true lengths, from 0: int32, shape [n + 1], as flash_attn_varlen_func takes it."""
        return _sums(self.lengths)

    @functools.cached_property
    def cu_seqlens_padded(self) -> Int32s:
        """Where each sequence begins in the row, and where the last one's padding ends: int32, shape
        [n + 1]. In a packed row, equal to cu_seqlens where the multiple is 1; where sequences share tokens,
        where each one's own begin."""
        if self.padded:
            return _sums(numpy.full(len(self), self.width))
        if self.shared_tokens is not None:
            return _sums(self.lengths - self.shared_tokens)
        multiple = self.length_multiple
        return _sums(-(-self.lengths.astype(numpy.int64) // multiple) * multiple)

    @functools.cached_property
    def max_seqlen(self) -> int:
        """The longest sequence in tokens; 0 without sequences."""
        return int(self.lengths.max(initial=0))

    @functools.cached_property
    def last_index(self) -> int:
        """The largest of indices; -1 without sequences."""
        return int(self.indices.max()) if len(self.indices) else -1

    def timing(
        self,
        milliseconds: float,
        peak_bytes: int = 0,
        *,
        stage: int | None = None,
        loads: Mapping[str, float] | None = None,
    ) -> MicroBatchTiming:
        """What it took, with its tokens, its place, and the ranks and the part of the model that it was
        timed on, for report_step and Plan.compare.

        Args:
            milliseconds: of its forward and backward, without waiting for other ranks.
            peak_bytes: of device memory, the allocator's counter reset before it; 0: not measured.
            stage: of the pipeline, whose time it is; may be None where stages take equal parts.
            loads: what it computed of each load, by name; None: `loads`, what the plan says.

        Raises:
            ValueError: there is no such stage, it has no part of the model, or it must be given.
        """
        if self.shared_tokens is None:
            ends = numpy.diff(self.cu_seqlens_padded).astype(numpy.int64)
            begins = numpy.zeros_like(ends)
        else:
            ends, begins = self.lengths.astype(numpy.int64), self.shared_tokens.astype(numpy.int64)
        tokens = int((ends - begins).sum())
        return MicroBatchTiming(
            tokens,
            int((ends**2 - begins**2).sum()),
            milliseconds,
            peak_bytes,
            # A report has no more sequences than tokens; copies may be more.
            min(len(self), tokens),
            rank=self.rank,
            slot=self.slot,
            mini_batch=self.mini_batch,
            context_parallel=self.context_parallel,
            model_share=_share_of(self.stage_shares, stage),
            loads=dict(self.loads if loads is None else loads),
        )

    def __len__(self) -> int:
        return len(self.indices)


def common_share(stage_shares: tuple[float, ...]) -> float | None:
    """The part of the model's time that each stage takes; None where they differ."""
    # Sums of parts may differ in their last digits.
    equal = numpy.allclose(stage_shares, stage_shares[0], rtol=1e-9, atol=0)
    return stage_shares[0] if equal else None


def _share_of(stage_shares: tuple[float, ...], stage: int | None) -> float:
    stages = len(stage_shares)
    if stage is None:
        common = common_share(stage_shares)
        if common is None:
            raise ValueError(f"stage is None; must be 0 to {stages - 1}, since the stages' parts differ")
        return common
    place = operator.index(stage)
    if not 0 <= place < stages:
        raise ValueError(f"stage is {place}; must be 0 to {stages - 1}")
    if stage_shares[place] == 0:
        raise ValueError(f"stage is {place}, whose part of the model's time is 0: it has no times")
    return stage_shares[place]


def _sums(lengths: NDArray[Any]) -> Int32s:
    total = int(lengths.sum(dtype=numpy.int64))
    if total > _INT32_MOST:
        raise ValueError(f"the row has {total} tokens; its offsets, of int32, reach {_INT32_MOST}")
    sums = numpy.zeros(len(lengths) + 1, numpy.int32)
    numpy.cumsum(lengths, out=sums[1:], dtype=numpy.int32)
    sums.flags.writeable = False
    return sums
