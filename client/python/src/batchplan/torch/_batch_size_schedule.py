"""A global batch size that grows as training goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from batchplan._checks import whole


@dataclasses.dataclass(frozen=True)
class BatchSizeSchedule:
    """The batch size by the sequences that were trained so far, in all epochs. A global batch has the size that is
    due when it begins, so that the size may change amid an epoch.

        BatchSizeSchedule([(0, 32), (10_000, 64), (50_000, 128)])

    Sequences are counted as the sizes have it: not those that drop_last leaves out, and as if no global batch gave
    sequences to the next one.

    Attributes:
        stages: pairs of sequences trained so far and the batch size from there on, in sequences over all ranks; both
            ascend, the first from 0.
    """

    stages: Sequence[tuple[int, int]]

    def __post_init__(self) -> None:
        """Raises ValueError where the stages are none, or do not ascend."""
        given = list(self.stages) if isinstance(self.stages, Iterable) else self.stages
        if not isinstance(given, list) or not given:
            raise ValueError(f"batch_size.stages is {self.stages!r}; must be pairs of sequences so far and batch size")
        stages: list[tuple[int, int]] = []
        for place, pair in enumerate(given):
            where = f"batch_size.stages[{place}]"
            try:
                start, size = pair
            except (TypeError, ValueError):
                raise ValueError(f"{where} is {pair!r}; must be a pair of sequences so far and batch size") from None
            start, size = whole(f"{where}[0]", start), whole(f"{where}[1]", size)
            if not stages and start != 0:
                raise ValueError(f"{where}[0] is {start}; must be 0, where training begins")
            if stages and start <= stages[-1][0]:
                raise ValueError(f"{where}[0] is {start}; must be above {stages[-1][0]}, that of the stage before")
            if size <= (stages[-1][1] if stages else 0):
                least = f"above {stages[-1][1]}, that of the stage before" if stages else "at least 1"
                raise ValueError(f"{where}[1] is {size}; must be {least}")
            stages.append((start, size))
        object.__setattr__(self, "stages", tuple(stages))

    @classmethod
    def rampup(cls, start: int, increment: int, sequences: int, *, batch_size: int) -> BatchSizeSchedule:
        """Megatron-LM's --rampup-batch-size: from one size in equal increments to another one.

        Args:
            start: the first batch size.
            increment: what each stage adds.
            sequences: trained when batch_size is reached; stages are alike in them.
            batch_size: the last one: Megatron-LM's --global-batch-size.

        Raises:
            ValueError: one is below 1, or increments do not lead from start to batch_size, or there are not as many
                sequences as increments.
        """
        given = {"start": start, "increment": increment, "sequences": sequences, "batch_size": batch_size}
        for name, value in given.items():
            if whole(name, value) < 1:
                raise ValueError(f"{name} is {value}; must be at least 1")
        count, rest = divmod(batch_size - start, increment)
        if count < 1 or rest:
            raise ValueError(
                f"batch_size is {batch_size}; must be start, {start}, and a multiple of increment, {increment}, more"
            )
        if sequences < count:
            raise ValueError(f"sequences is {sequences}; must be at least {count}, one for each increment")
        return cls([(-(-sequences * stage // count), start + stage * increment) for stage in range(count + 1)])

    @property
    def largest(self) -> int:
        """The last batch size."""
        return self.stages[-1][1]

    @property
    def smallest(self) -> int:
        """The first batch size."""
        return self.stages[0][1]

    def stage_at(self, sequences: int) -> tuple[int, int | None]:
        """The batch size after so many sequences, and after how many another one is due; None: never."""
        place = max(place for place, (start, _) in enumerate(self.stages) if start <= sequences)
        following = self.stages[place + 1][0] if place + 1 < len(self.stages) else None
        return self.stages[place][1], following
