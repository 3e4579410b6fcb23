"""Where the sequences of a micro-batch lie in its packed row, as tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy
import torch

from batchplan import _core
from batchplan._checks import whole
from batchplan._micro_batch import MicroBatch

_INT32_MOST = 2**31 - 1


class PackedRow:
    """The layout of a micro-batch on a device.

        |a a a p|b b b b b p p p|c p p p|. . . .|     length_multiple 4; p: padding, .: tail

    Under context parallelism each rank holds a shard of every padded sequence, all of one length:
    zig-zag, chunks cp_rank and 2 * cp - 1 - cp_rank of 2 * cp, as TransformerEngine, Megatron and
    NeMo-RL expect it, or contiguous, chunk cp_rank of cp.

    A micro-batch of a plan whose groups differ in size knows its group: on its own it is laid out for the
    rank that it is of.

    Attributes:
        microbatch: what is laid out.
        cp, cp_rank: the context parallel size, and the rank whose shards these are, by its place in the
            group; None: those of all ranks, one rank after the other, as an all-gather of them has it.
        width: tokens of the rank's row, or of all ranks'.
        max_seqlen, max_seqlen_padded: the longest sequence's tokens, without and with padding.
        cu_seqlens: sums of true lengths, from 0. int32, shape [n + 1].
        cu_seqlens_padded: where each sequence begins in the row before it is divided by cp, and where
            the last one's padding ends. int32, shape [n + 1].
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
                was made with cp; cp is not the size of the micro-batch's group; or the row has 2^31 tokens
                or more.
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
        needed = 1 if cp == 1 else 2 * cp if zigzag else cp
        if microbatch.length_multiple % needed:
            raise ValueError(
                f"length_multiple is {microbatch.length_multiple}; cp={cp} needs a multiple of {needed}: "
                f"give the plan cp={cp}"
            )
        tokens = microbatch.width * (count if microbatch.padded else 1)
        if tokens > _INT32_MOST:
            raise ValueError(f"the row has {tokens} tokens; must be at most {_INT32_MOST}")
        self.microbatch = microbatch
        self.cp, self.cp_rank, self.zigzag = cp, place, zigzag
        self.width = tokens if place is None else tokens // cp
        self.max_seqlen = microbatch.max_seqlen
        self.max_seqlen_padded = int(numpy.diff(microbatch.cu_seqlens_padded).max(initial=0))
        arrays = [microbatch.cu_seqlens, microbatch.cu_seqlens_padded, microbatch.indices]
        joined = torch.from_numpy(numpy.concatenate(arrays, dtype=numpy.int32, casting="same_kind"))
        # One copy for the three.
        parts = joined.to(device).split([count + 1, count + 1, count])
        self.cu_seqlens, self.cu_seqlens_padded, self.sequence_index = parts
        self._error_word = error_word(self.device)
        self.core = _core.Row(
            exported(self.cu_seqlens),
            exported(self.cu_seqlens_padded),
            exported(self.sequence_index),
            None if self._error_word is None else exported(self._error_word),
            length_multiple=microbatch.length_multiple,
            row_width=tokens,
            sequence_width=microbatch.width if microbatch.padded else 0,
            context_parallel=cp,
            context_parallel_rank=place,
            zigzag=zigzag,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Laid out anew in another process."""
        make = functools.partial(
            PackedRow, device=str(self.device), cp=self.cp, cp_rank=self.cp_rank, zigzag=self.zigzag
        )
        return make, (self.microbatch,)

    def run(self, work: Callable[..., None], *arguments: object) -> None:
        """A call of the core's, whose last argument is the current stream of the row's device."""
        if self.device.type != "cuda":
            work(*arguments, 0)
            return
        with torch.cuda.device(self.device):
            work(*arguments, torch.cuda.current_stream().cuda_stream)

    @property
    def device(self) -> torch.device:
        return self.cu_seqlens.device

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


@functools.cache
def error_word(device: torch.device) -> torch.Tensor | None:
    """Where the kernels leave what they find wrong on a device; the host raises it at once."""
    return None if device.type == "cpu" else torch.zeros(1, dtype=torch.int32, device=device)


def check(device: torch.device | str) -> None:
    """Waits for a CUDA device, and raises what the kernels found wrong there since the last check.
    What the host sees is raised by the call itself, so this is only for offsets of ragged tensors that
    were made on the device. Until it is checked, nothing more is packed or unpacked.

    Raises:
        ValueError: with what was found.
    """
    word = error_word(torch.empty(0, device=device).device)
    found = 0 if word is None else int(word.item())
    if word is not None and found:
        word.zero_()
        raise ValueError(_core.status_string(found))


def exported(tensor: torch.Tensor) -> object:
    """As DLPack, for work on the current stream: nothing waits. It lies contiguously, and its bits are
    its values."""
    tensor = tensor.detach()
    if tensor.dtype in _AS_BYTES:
        tensor = tensor.view(torch.uint8)
    return tensor.__dlpack__(stream=-1)


# Of one byte, and unknown to DLPack or to this torch's.
_AS_BYTES = {
    getattr(torch, name) for name in ("bool", "float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)
}
