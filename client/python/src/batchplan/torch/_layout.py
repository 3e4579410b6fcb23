"""What the kernels and torch's operations are asked alike: a row, and tensors that move into it and out of it."""

from __future__ import annotations

from typing import NamedTuple

import torch

from batchplan import _core
from batchplan._micro_batch import MicroBatch
from batchplan.torch._batch_field import Filling
from batchplan.torch._verdict import is_on_host


class Layout:
    """Where the sequences of a micro-batch lie in a row.

    Attributes:
        parts: computed on the host.
        arrays: those of parts on the row's device.
        cu_seqlens, cu_seqlens_padded, sequence_index: see PackedRow; parts of `arrays`.
        error_word: shape [1]: the first error that was found on the device, or 0. While it holds one, packing and
            unpacking write pad values alone, and position ids of 0 and sequence ids of -1. None on the host, which
            raises errors.
        width: tokens, of all ranks.
        cp_rank: None: all of them.
    """

    def __init__(
        self,
        microbatch: MicroBatch,
        parts: _core.RowLayout,
        device: torch.device | str,
        *,
        width: int,
        cp: int,
        cp_rank: int | None,
        zigzag: bool,
    ) -> None:
        self.microbatch, self.parts = microbatch, parts
        self.width, self.cp, self.cp_rank, self.zigzag = width, cp, cp_rank, zigzag
        # One copy for all.
        self.arrays = torch.from_numpy(parts.arrays().copy()).to(device)
        self.device, ends = self.arrays.device, len(self) + 1
        self.cu_seqlens = self.arrays[:ends]
        self.cu_seqlens_padded = self.arrays[ends : 2 * ends]
        self.sequence_index = self.arrays[2 * ends : 2 * ends + len(self)]
        self.error_word = None if is_on_host(self.device) else self.arrays[-1:]

    @property
    def shares(self) -> bool:
        return self.microbatch.shared_tokens is not None

    def __len__(self) -> int:
        """Sequences."""
        return len(self.microbatch)


class Rows(NamedTuple):
    """The unpacked side, the same for all tensors of a call."""

    # By the sequences' positions in the batch; else by their places in the micro-batch.
    indexed: bool
    num_rows: int
    # Of ragged rows: int64, [num_rows + 1], and the tokens of each tensor.
    offsets: torch.Tensor | None = None
    num_tokens: int = 0


class Move(NamedTuple):
    """A tensor that is packed or unpacked. Both sides are contiguous, and their values are as their bits have them."""

    source: torch.Tensor
    destination: torch.Tensor
    filling: Filling
