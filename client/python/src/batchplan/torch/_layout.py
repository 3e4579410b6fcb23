"""What the kernels and torch's operations are asked alike: a row, and tensors that move into it and out of it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch

from batchplan._micro_batch import MicroBatch
from batchplan.torch._batch_field import Filling


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the sequences of a micro-batch lie in a row. Its tensors are int32, on the row's device; see PackedRow."""

    microbatch: MicroBatch
    cu_seqlens: torch.Tensor
    cu_seqlens_padded: torch.Tensor
    sequence_index: torch.Tensor
    # None where nothing is shared.
    least_shared: torch.Tensor | None
    # Shape [1]: the first error that was found on the device, or 0. While it holds one, packing and unpacking
    # write pad values alone, and position ids of 0 and sequence ids of -1. None on the host, which raises errors.
    error_word: torch.Tensor | None
    # Tokens, of all ranks.
    width: int
    cp: int
    # None: all of them.
    cp_rank: int | None
    zigzag: bool

    @property
    def device(self) -> torch.device:
        return self.cu_seqlens.device

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
