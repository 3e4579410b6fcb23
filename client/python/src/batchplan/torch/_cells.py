"""Which token each cell of a row holds, and which cell each token is in, by torch's own operations."""

from __future__ import annotations

import torch

from batchplan.torch._layout import Layout
from batchplan.torch._shared_prefixes import cells


class Cells:
    """Of the row that a layout gives to its rank, or to all ranks one after the other. All tensors are int64, on the
    layout's device. The tail is one sequence more, of no tokens.

    Attributes:
        lengths: tokens of the sequences and of the tail, [n + 1].
        sequence, token: what a cell holds, padding too: sequence, and place in the padded one. [cells].
        paths: where sequences share prefixes, the cell of each of their tokens, end to end, and one more; else None.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        # Below 2 ranks there are no chunks, which might be half a token.
        self._zigzag = layout.zigzag and layout.cp > 1
        self._per_rank = layout.width // layout.cp
        self.lengths = extended(torch.diff(layout.cu_seqlens.long()), 0)
        bounds = extended(layout.cu_seqlens_padded.long(), layout.width) // layout.cp
        # Of a sequence in the row of each rank: the first cell, and how many.
        self.begins = bounds[:-1]
        self.counts = torch.diff(bounds)
        self.sequence, self.token = self._held()
        self.paths: torch.Tensor | None = None
        if layout.shares:
            self.paths = extended(torch.from_numpy(cells(layout.microbatch)).to(layout.device), 0)
            self._starts = layout.cu_seqlens.long()
            self.token = self.token + (self.lengths - self.counts * (self.lengths > 0))[self.sequence]

    def of(self, sequence: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        """The cells of tokens; -1 if another rank has them."""
        if self.paths is not None:
            return self.paths[(self._starts[sequence] + token).clamp(max=len(self.paths) - 1)]
        cp, count = self._layout.cp, self.counts[sequence]
        chunk = (count // 2 if self._zigzag else count).clamp(min=1)
        ordinal = token // chunk
        in_chunk = token - ordinal * chunk
        mirrored = ordinal >= cp
        rank = torch.where(mirrored, 2 * cp - 1 - ordinal, ordinal)
        cell = self.begins[sequence] + in_chunk + torch.where(mirrored, chunk, 0 * chunk)
        if self._layout.cp_rank is None:
            return rank * self._per_rank + cell
        return torch.where(rank == self._layout.cp_rank, cell, 0 * cell - 1)

    def _held(self) -> tuple[torch.Tensor, torch.Tensor]:
        cp, rank = self._layout.cp, self._layout.cp_rank
        ranks = cp if rank is None else 1
        cell = torch.arange(ranks * self._per_rank, device=self._layout.device)
        of_rank = cell // max(self._per_rank, 1) if rank is None else torch.full_like(cell, rank)
        cell = cell % max(self._per_rank, 1)
        sequence = torch.searchsorted(self.begins, cell, right=True) - 1
        count = self.counts[sequence]
        place = cell - self.begins[sequence]
        if not self._zigzag:
            return sequence, of_rank * count + place
        chunk = count // 2
        first = of_rank * chunk + place
        second = (2 * cp - 2 - of_rank) * chunk + place
        return sequence, torch.where(place < chunk, first, second)


def extended(tensor: torch.Tensor, value: int) -> torch.Tensor:
    """With one element more."""
    return torch.cat([tensor, tensor.new_full((1,), value)])
