"""A micro-batch of long-tailed lengths: its row for the kernels, and its indices for PyTorch."""

from __future__ import annotations

import math

import torch

import kernels_library as kernels


class MicroBatch:
    """`tokens` tokens in sequences whose rows lie in another order than the row packs them.

    `rank` is a context parallel rank or ALL_RANKS. Sequences are padded as zig-zag sharding needs.
    """

    def __init__(
        self, library: kernels.Library, tokens: int, context_parallel: int = 1, rank: int = 0
    ) -> None:
        self.context_parallel = context_parallel
        self.rank = rank
        self.multiple = 2 * context_parallel if context_parallel > 1 else 1
        generator = torch.Generator().manual_seed(1)
        row_lengths = _long_tailed_lengths(tokens, generator)
        self.count = len(row_lengths)
        self.longest = max(row_lengths)
        self.tokens = tokens
        order = torch.randperm(self.count, generator=generator)
        self.host_order: list[int] = order.tolist()
        self.host_lengths = [row_lengths[row] for row in self.host_order]
        self.host_offsets = [0]
        for length in row_lengths:
            self.host_offsets.append(self.host_offsets[-1] + length)
        self.row_width = sum(self._padded(length) for length in self.host_lengths)
        ranks = 1 if rank == kernels.ALL_RANKS else context_parallel
        self.cells = self.row_width // ranks

        device = library.device
        # As the kernels read it: uint32, which int32 agrees with for positive numbers.
        self.lengths = torch.tensor(self.host_lengths, dtype=torch.int32, device=device)
        self.order = order.to(torch.int32).to(device)
        self.offsets = torch.tensor(self.host_offsets, dtype=torch.int64, device=device)
        self.cu_seqlens = torch.zeros(self.count + 1, dtype=torch.int32, device=device)
        self.cu_seqlens_padded = torch.zeros_like(self.cu_seqlens)
        self.options = kernels.Options(self.multiple, context_parallel, self.row_width)
        self._layout = kernels.Layout(self.cu_seqlens.data_ptr(), self.cu_seqlens_padded.data_ptr())
        self.row = kernels.Row(
            self.cu_seqlens.data_ptr(), self.cu_seqlens_padded.data_ptr(), self.count,
            self.options, rank,
        )
        self.padded_rows = kernels.Sequences(self.order.data_ptr(), None, self.count, 0)
        self.ragged_rows = kernels.Sequences(
            self.order.data_ptr(), self.offsets.data_ptr(), self.count, tokens
        )
        self._library = library
        self.compute_layout()

    def mask(self) -> torch.Tensor:
        """Which tokens of padded rows there are. [count, longest]"""
        lengths = torch.tensor(self.host_offsets, device=self.lengths.device).diff()
        return torch.arange(self.longest, device=lengths.device) < lengths.unsqueeze(1)

    def compute_layout(self) -> None:
        self._library.compute_layout(self.lengths, self.options, self._layout)

    def _padded(self, length: int) -> int:
        return math.ceil(length / self.multiple) * self.multiple

    def _ranks(self) -> list[int]:
        every = list(range(self.context_parallel))
        return every if self.rank == kernels.ALL_RANKS else [self.rank]

    def cell_tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        """For each cell, on the host: its sequence, and its token in the padded sequence."""
        sequences, tokens = [], []
        for rank in self._ranks():
            for sequence, length in enumerate(self.host_lengths):
                token = torch.arange(self._padded(length))
                if self.context_parallel > 1:
                    chunks = token.view(2 * self.context_parallel, -1)
                    token = torch.cat([chunks[rank], chunks[2 * self.context_parallel - 1 - rank]])
                sequences.append(torch.full_like(token, sequence))
                tokens.append(token)
        return torch.cat(sequences), torch.cat(tokens)

    def source_index(
        self, ragged: bool, shift: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """For each cell its token of the source, and which cells are padding; None: none is."""
        sequence, token = self.cell_tokens()
        length = torch.tensor(self.host_lengths)[sequence]
        row = torch.tensor(self.host_order)[sequence]
        begin = torch.tensor(self.host_offsets)[row] if ragged else row * self.longest
        is_padding = token + shift >= length
        index = torch.where(is_padding, torch.zeros_like(token), begin + token + shift)
        device = self.lengths.device
        return index.to(device), is_padding.to(device) if bool(is_padding.any()) else None

    def cell_index(self, ragged: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The inverse, for all ranks: for each unpacked token its cell, and which have none."""
        index, is_padding = self.source_index(ragged)
        cells = torch.arange(self.cells, device=index.device)
        if is_padding is not None:
            index, cells = index[~is_padding], cells[~is_padding]
        inverse = torch.full(
            (self.tokens if ragged else self.count * self.longest,), -1, device=index.device
        )
        inverse[index] = cells
        has_none = inverse < 0
        return inverse.clamp(min=0), has_none if bool(has_none.any()) else None


def _long_tailed_lengths(tokens: int, generator: torch.Generator) -> list[int]:
    """Answers to school mathematics: lognormal, median 900, 16 to 16384; `tokens` together."""
    lengths: list[int] = []
    left = tokens
    while left > 0:
        normal = float(torch.randn(1, generator=generator))
        drawn = min(max(int(900 * math.exp(0.9 * normal)), 16), 16384)
        lengths.append(min(drawn, left))
        left -= lengths[-1]
    return lengths
