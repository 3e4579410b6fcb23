"""A BatchSampler of packed rows that is made before anyone knows after how many micro-batches the optimizer steps."""

from __future__ import annotations

from typing import Any

from batchplan._options import PlanOptions
from batchplan.torch._batch_sampler import BatchSampler
from batchplan.torch._row_costs import PackedRows


class RowSampler(BatchSampler):
    def __init__(
        self, rows: PackedRows, of_device: int, *, rank: int, drop_last: bool, **options: Any
    ) -> None:
        """
        Args:
            of_device: rows of a micro-batch.
            options: see PlanOptions.
        """
        self._rows, self._of_device, self._is_dropped = rows, of_device, drop_last
        self._asked: PlanOptions = options  # type: ignore[assignment]
        self._of_rank = rank
        self.accumulate(1)

    def accumulate(self, steps: int) -> None:
        """Begins anew, for an optimizer that steps after so many micro-batches. The last of an epoch may be
        empty, unless drop_last is set.

        Raises:
            ValueError: drop_last is set, and the rows do not fill a step.
        """
        ranks = self._asked.get("dp") or 1
        batch_size = self._of_device * ranks * steps
        if self._is_dropped and len(self._rows) < batch_size:
            raise ValueError(
                f"the dataset has {len(self._rows)} packed rows, and a step takes {batch_size} (local_batch_size "
                f"{self._of_device} * {ranks} ranks * {steps}): drop_last, or pipeline parallelism, leaves none"
            )
        options = self._rows.of_trainer(
            self._asked, self._of_device, batch_size, drop_last=self._is_dropped
        )
        super().__init__(
            self._rows,
            batch_size,
            rank=self._of_rank,
            drop_last=self._is_dropped,
            microbatches_per_step=steps,
            **options,
        )
