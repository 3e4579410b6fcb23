"""Where the sequences of a micro-batch lie in its packed row, as tensors."""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy
import torch

from batchplan import _core
from batchplan._checks import whole
from batchplan._micro_batch import Int32s, MicroBatch
from batchplan.torch._backend import chosen
from batchplan.torch._kernels import Kernels
from batchplan.torch._layout import Layout
from batchplan.torch._shared_prefixes import check_shared_tokens
from batchplan.torch._torch_operations import TorchOperations
from batchplan.torch._verdict import Verdict, verdict_of_lost_rows

_INT32_MOST = 2**31 - 1


class PackedRow:
    """The layout of a micro-batch on a device.

        |a a a p|b b b b b p p p|c p p p|. . . .|     length_multiple 4; p: padding, .: tail

    Under context parallelism each rank holds a shard of every padded sequence, all of one length:
    zig-zag, chunks cp_rank and 2 * cp - 1 - cp_rank of 2 * cp, as TransformerEngine, Megatron and
    NeMo-RL expect it, or contiguous, chunk cp_rank of cp.

    Where sequences share prefixes, the row holds what is new in each, end to end, without padding between them:

        |a a a a a|b b b b|c c|.|     b goes on after a a a, c after a a

    A micro-batch of a plan whose groups differ in size knows its group: on its own it is laid out for the
    rank that it is of.

    A nested tensor whose offsets were made on the device is judged there, when it is packed. If a planned sequence
    has fewer tokens in it, the row is spoilt, and no other row. Pad values take the place of tokens that are not
    there; what the row packs and unpacks later is pad values alone, with position ids of 0 and sequence ids of -1.
    Each use of the row raises the error from when the host knows, without waiting for the device; sums and PackedLoss
    wait until the host knows. If the row is gone before, the next use of any row on the device raises it, once.

    Attributes:
        microbatch: what is laid out.
        device: where.
        shares: whether its sequences share prefixes, or might.
        cp, cp_rank: the context parallel size, and the rank whose shards these are, by its place in the
            group; None: those of all ranks, one rank after the other, as an all-gather of them has it.
        width: tokens of the rank's row, or of all ranks'.
        last_index: the largest position in the batch; -1 without sequences.
        max_seqlen, max_seqlen_padded: the longest sequence's tokens, without and with padding.
        cu_seqlens: sums of true lengths, from 0. int32, shape [n + 1].
        cu_seqlens_padded: where each sequence begins in the row before it is divided by cp, and where
            the last one's padding ends; where they share prefixes, where each one's own tokens begin. int32, shape
            [n + 1].
        sequence_index: positions in the batch. int32, shape [n].
    """

    def __init__(
        self,
        microbatch: MicroBatch,
        *,
        device: torch.device | str = "cpu",
        cp: int | None = None,
        cp_rank: int | Literal["own"] | None = "own",
        zigzag: bool = True,
    ) -> None:
        """
        Args:
            cp: None: the ranks of the micro-batch's group where groups differ in size, else 1. Where groups
                differ in size it can be no other, but for cp=1, cp_rank=0: the whole row on each rank.
            cp_rank: "own": the micro-batch's place in its group where groups differ in size, else 0. None:
                those of all ranks.

        Raises:
            ValueError: the plan's length multiple is not one of what cp needs, which it is if the plan
                was made with cp; cp is not the size of the micro-batch's group, or above 1 where sequences share
                prefixes; the row has 2^31 tokens or more; or its parts, changed since it was planned, do not fit
                each other.
        """
        microbatch = microbatch_of(microbatch)
        count = len(microbatch)
        size = microbatch.context_parallel if microbatch.is_dynamic else 1
        cp = size if cp is None else whole("cp", cp)
        if microbatch.is_dynamic and cp != size and (cp, cp_rank) != (1, 0):
            raise ValueError(
                f"cp is {cp}, but the micro-batch is of a group of {size} ranks: leave cp out, or give "
                "cp=1, cp_rank=0 for its whole row"
            )
        place: int | None = microbatch.context_parallel_rank or 0
        if cp_rank != "own":
            place = None if cp_rank is None else whole("cp_rank", cp_rank)
        if cp < 1:
            raise ValueError(f"cp is {cp}; must be at least 1")
        if place is not None and not 0 <= place < cp:
            raise ValueError(f"cp_rank is {place}; must be 0 to {cp - 1}")
        if cp > 1 and microbatch.shared_tokens is not None:
            raise ValueError(f"cp is {cp}; must be 1 where sequences share prefixes: such a row is not divided")
        needed = 1 if cp == 1 else 2 * cp if zigzag else cp
        if microbatch.length_multiple % needed:
            raise ValueError(
                f"length_multiple is {microbatch.length_multiple}; cp={cp} needs a multiple of {needed}: "
                f"give the plan cp={cp}"
            )
        if microbatch.width % needed:
            raise ValueError(
                f"the micro-batch's row is {microbatch.width} tokens wide; cp={cp} needs a multiple of {needed}"
            )
        tokens = microbatch.width * (count if microbatch.padded else 1)
        if tokens > _INT32_MOST:
            raise ValueError(f"the row has {tokens} tokens; must be at most {_INT32_MOST}")
        self.microbatch = microbatch
        self.cp, self.cp_rank, self.zigzag = cp, place, zigzag
        self.width = tokens if place is None else tokens // cp
        self.shares = microbatch.shared_tokens is not None
        parts = _parts_of(microbatch, tokens)
        self.max_seqlen, self.max_seqlen_padded = parts.max_seqlen, parts.max_seqlen_padded
        self.last_index = parts.last_index
        # Whether its sequences stand end to end, without padding, and all of them.
        self.is_tight = parts.num_tokens == self.width and cp == 1 and not self.shares
        self._layout = Layout(microbatch, parts, device, width=tokens, cp=cp, cp_rank=place, zigzag=zigzag)
        self.device, self.error_word = self._layout.device, self._layout.error_word
        self.verdict = Verdict()
        kind = Kernels if chosen(self.device).has_kernels else TorchOperations
        self._moves: Kernels | TorchOperations = kind(self._layout)

    @property
    def cu_seqlens(self) -> torch.Tensor:
        return self._layout.cu_seqlens

    @property
    def cu_seqlens_padded(self) -> torch.Tensor:
        return self._layout.cu_seqlens_padded

    @property
    def sequence_index(self) -> torch.Tensor:
        return self._layout.sequence_index

    @property
    def moves(self) -> Kernels | TorchOperations:
        """What moves its tensors.

        Raises:
            ValueError: with what was found wrong on the device in what was packed, as far as the host knows.
        """
        self.raise_found()
        return self._moves

    def raise_found(self, *, wait: bool = False) -> None:
        """
        Args:
            wait: until the host knows, though not for what was enqueued later.

        Raises:
            ValueError: with what was found wrong on the device.
        """
        # What is on the host is judged when it is packed.
        if self.error_word is None:
            return
        self.verdict.look(wait=wait)
        verdict_of_lost_rows(self.device).look(wait=wait)

    def has_tokens(self, offsets: int, num_rows: int, num_tokens: int, gathered: bool) -> bool:
        """Whether ragged rows, whose offsets on the host have this address, have its sequences' tokens."""
        return self._layout.parts.has_tokens(offsets, num_rows, num_tokens, gathered)

    def subtree_ends(self) -> Int32s:
        """Of each token of the row, the place behind the last one that sees it: int32, [width]."""
        return self._layout.parts.subtree_ends()

    def __reduce__(self) -> tuple[Any, ...]:
        """Laid out anew in another process."""
        make = functools.partial(
            PackedRow, device=str(self.device), cp=self.cp, cp_rank=self.cp_rank, zigzag=self.zigzag
        )
        return make, (self.microbatch,)

    def __len__(self) -> int:
        """Sequences."""
        return len(self.microbatch)

    def __repr__(self) -> str:
        rank = "" if self.cp == 1 else f", rank {self.cp_rank} of cp={self.cp}"
        return f"<PackedRow: {len(self)} sequences in {self.width} tokens on {self.device}{rank}>"


def microbatch_of(row: PackedRow | MicroBatch) -> MicroBatch:
    """
    Raises:
        ValueError: it is neither.
    """
    planned = row.microbatch if isinstance(row, PackedRow) else row
    if not isinstance(planned, MicroBatch):
        raise ValueError(
            f"microbatch is a {type(row).__name__}; must be one of those of plan.rank(rank)"
        )
    return planned


def _parts_of(microbatch: MicroBatch, tokens: int) -> _core.RowLayout:
    """
    Args:
        tokens: of the row.
    """
    shared = microbatch.shared_tokens
    try:
        return _core.RowLayout(
            numpy.ascontiguousarray(microbatch.lengths, numpy.uint32),
            numpy.ascontiguousarray(microbatch.indices, numpy.uint32),
            None if shared is None else numpy.ascontiguousarray(shared, numpy.uint32),
            microbatch.length_multiple,
            tokens,
            microbatch.width if microbatch.padded else 0,
        )
    except ValueError:
        # What a plan keeps, but not all that can be made of its parts.
        if shared is not None:
            check_shared_tokens(microbatch)
        taken = int(microbatch.cu_seqlens_padded[-1])
        if taken > tokens:
            raise ValueError(f"the micro-batch's row has {tokens} tokens; its sequences take {taken}") from None
        raise
