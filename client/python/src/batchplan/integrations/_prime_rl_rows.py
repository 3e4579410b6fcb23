"""Planned rows for prime-rl's SFT, of each rank's stream of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy

import batchplan

Sample = dict[str, Any]


class Window:
    """The next samples of a stream, enough for a given number of rows, packed together.

    Every rank packs its own stream and knows nothing of the others. Windows are alike, and the rows of each
    come in the same order of cost: the costliest, the cheapest, the second costliest and so on. So the rows
    that ranks run at the same time are alike in cost, and consecutive rows together are alike too.
    """

    def __init__(self, width: int, rows: int, options: batchplan.PlanOptions) -> None:
        """
        Args:
            width: tokens of a row, to which it is padded.
            rows: of a window; the last one may have fewer.
            options: of its plan: costs, effort.
        """
        self._width, self._count = width, rows
        self._options = options
        cost = options.get("cost")
        self._cost = cost if isinstance(cost, batchplan.CostModel) else batchplan.DEFAULT_COST
        # Where the stream stood before the window; the samples left over from the last window; all samples.
        self._begin: Any = None
        self._carried: list[Sample] = []
        self._samples: list[Sample] = []
        # Positions in the window: rows not yet taken, and samples left over for the next window.
        self._rows: list[list[int]] = []
        self._later: list[int] = []

    def state_dict(self) -> Sample:
        """What `resume` needs, besides the stream itself set back to "begin"."""
        return {
            "begin": self._begin,
            "carried": self._carried,
            "samples": len(self._samples),
            "rows": self._rows,
            "later": self._later,
        }

    def resume(self, state: Sample, stream: Iterator[Sample]) -> None:
        """Goes on amid a window. Its rows are those of the state, whatever costs and sizes are now."""
        self._begin, self._carried = state["begin"], list(state["carried"])
        self._samples = [*self._carried]
        while len(self._samples) < state["samples"]:
            self._samples.append(next(stream))
        self._rows, self._later = list(state["rows"]), list(state["later"])

    def carry(self, sample: Sample) -> None:
        """Puts a sample that was read before into the first window."""
        self._samples, self._later = [sample], [0]

    def rows(self, stream: Iterator[Sample], position: Callable[[], Any]) -> Iterator[list[Sample]]:
        """The samples of each row, of this window and all that follow.

        Args:
            position: returns the state of the stream.
        """
        while True:
            while self._rows:
                # Before the yield: a checkpoint is saved while the row is trained.
                row, self._rows = self._rows[0], self._rows[1:]
                yield [self._samples[place] for place in row]
            self._begin = position()
            self._carried = [self._samples[place] for place in self._later]
            self._samples, self._later = [*self._carried], []
            ended = self._read(stream)
            if not self._samples:
                return
            self._divide(ended)

    def _read(self, stream: Iterator[Sample]) -> bool:
        """Reads until there is more than rows can hold. Returns True at the stream's end."""
        tokens = sum(map(self._length, self._samples))
        while tokens <= self._count * self._width:
            sample = next(stream, None)
            if sample is None:
                return True
            self._samples.append(sample)
            tokens += self._length(sample)
        return False

    def _divide(self, ended: bool) -> None:
        lengths = numpy.asarray([self._length(sample) for sample in self._samples])
        if any(sample.get("mm_kwargs") is not None for sample in self._samples):
            rows = self._next_fit(lengths)
            # The last row may have room for samples that are still to come.
            fitting = len(lengths) if ended or len(rows) == 1 else rows[-1][0]
            self._rows = [row for row in rows if row[0] < fitting]
        else:
            fitting = len(lengths)
            # Exactly as many rows as on the other ranks, or windows would drift apart.
            least = 1 if ended else self._count
            while len(rows := self._planned(lengths[:fitting], least)) > self._count:
                fitting -= 1
            self._rows = _from_both_ends(sorted(rows, key=lambda row: -self._cost_of(lengths[row])))
        self._later = list(range(fitting, len(lengths)))

    def _planned(self, lengths: Any, least: int) -> list[list[int]]:
        """Rows of positions. What pads a row is attended to as part of its last sample, the shortest."""
        only = batchplan.Pass(self._width, min_microbatches=min(least, len(lengths)))
        request: batchplan.PlanOptions = {**self._options, "passes": [only]}
        plan = batchplan.plan(lengths, **request)
        return [
            sorted(one.indices.tolist(), key=lambda place: -lengths[place]) for one in plan.rank(0)
        ]

    def _next_fit(self, lengths: Any) -> list[list[int]]:
        """In the stream's order, as prime-rl packs them: it decides which samples share a row with images."""
        rows: list[list[int]] = []
        room = 0
        for place, length in enumerate(lengths.tolist()):
            if length > room:
                rows.append([])
                room = self._width
            rows[-1].append(place)
            room -= length
        return rows

    def _cost_of(self, lengths: Any) -> float:
        padded = lengths.copy()
        padded[-1] += self._width - padded.sum()
        return float(self._cost.of_sequences(padded).sum())

    def _length(self, sample: Sample) -> int:
        """Tokens in a row, which cuts longer samples."""
        return min(max(len(sample["input_ids"]), 1), self._width)


def _from_both_ends(rows: Iterable[list[int]]) -> list[list[int]]:
    left = list(rows)
    return [left.pop(0 if turn % 2 == 0 else -1) for turn in range(len(left))]
