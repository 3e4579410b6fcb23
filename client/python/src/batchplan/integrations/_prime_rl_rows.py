"""The rows that prime-rl's SFT packs from a stream of samples: windows of it, planned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy

import batchplan

Sample = dict[str, Any]


class Window:
    """So many samples in a row of a rank's stream as fill so many rows, and what is left of its rows.

    Every rank packs its own stream, without knowing of the others. Rows are as full as can be, and those of
    a window are in such an order that the ranks' rows of one place, which run at the same time, are alike in
    cost, as are the rows that follow each other.
    """

    def __init__(self, width: int, rows: int, options: batchplan.PlanOptions) -> None:
        """
        Args:
            width: tokens of a row, to which it is padded.
            rows: of a window.
            options: of its plan: costs, effort.
        """
        self._width, self._count = width, rows
        self._options: batchplan.PlanOptions = {**options, "max_tokens": width}
        self._cost = options.get("cost") or batchplan.DEFAULT_COST
        # Where the stream stood before the window, what came over from the last one, and both together.
        self._begin: Any = None
        self._carried: list[Sample] = []
        self._samples: list[Sample] = []
        # Positions in the window: of the rows that are left, and of the samples of none.
        self._rows: list[list[int]] = []
        self._later: list[int] = []

    def state_dict(self) -> Sample:
        """All that `resume` needs beside the stream itself, which is put to "begin"."""
        return {
            "begin": self._begin,
            "carried": self._carried,
            "samples": len(self._samples),
            "rows": self._rows,
            "later": self._later,
        }

    def resume(self, state: Sample, stream: Iterator[Sample]) -> None:
        """Goes on within a window; whatever costs and sizes are now, its samples are the same ones."""
        self._begin, self._carried = state["begin"], list(state["carried"])
        self._samples = [*self._carried]
        while len(self._samples) < state["samples"]:
            self._samples.append(next(stream))
        self._rows, self._later = list(state["rows"]), list(state["later"])

    def carry(self, sample: Sample) -> None:
        """Has the first window begin with what was read before."""
        self._samples, self._later = [sample], [0]

    def rows(self, stream: Iterator[Sample], position: Callable[[], Any]) -> Iterator[list[Sample]]:
        """The rows of this window and all that follow.

        Args:
            stream: the samples.
            position: where the stream stands.
        """
        while True:
            while self._rows:
                # The state is asked for while a row is out.
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
        """Reads as much as rows hold, and a sample more. True at the stream's end."""
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
            # More may come for the last one.
            fitting = len(lengths) if ended or len(rows) == 1 else rows[-1][0]
            self._rows = [row for row in rows if row[0] < fitting]
        else:
            fitting = len(lengths)
            while len(rows := self._planned(lengths[:fitting])) > self._count and fitting > 1:
                fitting -= 1
            self._rows = _from_both_ends(sorted(rows, key=lambda row: -self._cost_of(lengths[row])))
        self._later = list(range(fitting, len(lengths)))

    def _planned(self, lengths: Any) -> list[list[int]]:
        """Rows of positions. What pads a row is attended to as part of its last sample, the shortest."""
        plan = batchplan.plan(lengths, **self._options)
        return [
            sorted(one.indices.tolist(), key=lambda place: -lengths[place]) for one in plan.rank(0)
        ]

    def _next_fit(self, lengths: Any) -> list[list[int]]:
        """In the stream's order, as prime-rl does: samples with images share rows with few others."""
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
        """As it comes to stand in a row, which cuts it."""
        return min(max(len(sample["input_ids"]), 1), self._width)


def _from_both_ends(rows: Iterable[list[int]]) -> list[list[int]]:
    left = list(rows)
    return [left.pop(0 if turn % 2 == 0 else -1) for turn in range(len(left))]
