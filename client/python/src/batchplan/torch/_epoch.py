"""One epoch of a dataset in global batches."""

from __future__ import annotations

import dataclasses

import numpy

from batchplan.torch._batch_planner import Positions
from batchplan.torch._epoch_sizes import Ends


@dataclasses.dataclass(frozen=True, eq=False)
class Epoch:
    """One epoch of a dataset in global batches.

    Attributes:
        order: positions in the dataset, one global batch after the other.
        ends: where each global batch ends in the order. Shape [steps].
        is_arranged: whether that rests on what the planner can divide, rather than on the shuffle alone.
    """

    order: Positions
    ends: Ends
    is_arranged: bool

    def batch(self, step: int) -> Positions:
        """The positions of a global batch."""
        begin = self.ends[step - 1] if step else 0
        return self.order[begin : self.ends[step]]

    def batches(self) -> list[Positions]:
        """Those of all of them."""
        return numpy.split(self.order[: self.ends[-1]], self.ends[:-1])


class UndividableError(Exception):
    """An epoch has a global batch that can't be planned, and what helps elsewhere does not help here.

    Attributes:
        batch: its positions in the dataset.
        is_torn: whether it would end within a group that stays together.
        batch_size: what it was for this batch.
        sharing: sequences of the dataset that have to share micro-batches with others, so that the rest is a
            multiple; 0: the batch's own fault.
    """

    def __init__(
        self, epoch: int, step: int, batch: Positions, *, is_torn: bool = False, sharing: int = 0
    ) -> None:
        super().__init__(epoch, step)
        self.epoch, self.step, self.batch = epoch, step, batch
        self.is_torn, self.sharing = is_torn, sharing
        self.batch_size = len(batch)
