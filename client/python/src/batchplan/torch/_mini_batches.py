"""The mini-batches of a global batch."""

from __future__ import annotations

import dataclasses

import numpy

from batchplan._checks import whole
from batchplan._options import PlanOptions


@dataclasses.dataclass(frozen=True)
class MiniBatches:
    """Attributes:
    size: sequences of each, or groups; 0: a global batch is one mini-batch.
    of_groups: whether it is groups that are counted, whatever sequences they have.
    is_exact: whether they must divide a global batch; else its last one may be smaller.
    """

    size: int
    of_groups: bool
    is_exact: bool

    @classmethod
    def of(cls, options: PlanOptions) -> MiniBatches:
        """Those that options ask for."""
        size = whole("mini_batches.size", options.get("mini_batch_size") or 0)
        groups = whole("mini_batches.group_count", options.get("mini_batch_groups") or 0)
        return cls(groups or size, bool(groups), options.get("last_mini_batch") != "smaller")

    def __bool__(self) -> bool:
        return self.size > 0

    @property
    def sequences(self) -> int:
        """Of each; 0: any."""
        return 0 if self.of_groups else self.size

    def sizes(self, count: int) -> list[int]:
        """Of those of a global batch that has so many sequences, or groups."""
        if not self.size:
            return [count]
        rest = count % self.size
        return [self.size] * (count // self.size) + [rest] * (rest > 0)

    def divides(self, count: int) -> bool:
        """Whether a global batch may have so many sequences, or groups."""
        return not (self.size and self.is_exact and count % self.size)

    def check(self, groups: int, drop_last: bool) -> None:
        """Raises ValueError where they do not divide so many groups of a dataset, and must."""
        if not (self.of_groups and self.is_exact) or groups >= self.size and (drop_last or groups % self.size == 0):
            return
        raise ValueError(
            f"mini_batch_groups is {self.size}, which does not divide the {groups} groups of the dataset: "
            'drop_last=True leaves out some of them, and last_mini_batch="smaller" makes a smaller mini-batch of these'
        )

    def count(self, sequences: int, groups: numpy.ndarray[tuple[int], numpy.dtype[numpy.uint32]]) -> int:
        """Mini-batches of a global batch.

        Args:
            sequences: that it has.
            groups: of these, or none.
        """
        return len(self.sizes(len(numpy.unique(groups)) if self.of_groups else sequences))
