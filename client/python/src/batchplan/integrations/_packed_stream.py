"""Planned rows of each rank's own stream of samples, for trainers whose datasets pack while they are read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy

import batchplan
from batchplan.integrations._images import Images
from batchplan.integrations._replace import stock_of, wrap
from batchplan.integrations._slots import slots_or_none

__all__ = ["STATE", "Window", "pack"]

# What a checkpoint has of a window, beside the trainer's own state of its stream.
STATE = "batchplan"


class Window:
    """The next samples of a stream, enough for a given number of rows, packed together.

    Every rank packs its own stream and knows nothing of the others. Windows are alike, and the rows of each
    come in the same order of cost: the costliest, the cheapest, the second costliest and so on. So the rows
    that ranks run at the same time are alike in cost, and consecutive rows together are alike too.
    """

    def __init__(
        self,
        width: int,
        rows: int,
        options: batchplan.PlanOptions,
        *,
        tokens: Callable[[Any], int],
        padded: Callable[[Any, int], Any],
        longest_first: bool = False,
        in_order: Callable[[list[Any]], bool] = lambda samples: False,
        images: Images = Images(),
        patches: Callable[[Any], int] = lambda sample: 0,
    ) -> None:
        """
        Args:
            width: tokens of a row, to which it is padded.
            rows: of a window; the last one may have fewer.
            options: of its plan: costs, effort.
            tokens: of a sample.
            padded: the lengths of the sequences that attention sees in a row, given those of its samples and
                the tokens that pad it.
            longest_first: the order within a row; else that in which samples come.
            in_order: whether a window of these samples must be packed in the order in which they come.
            images: what their patches cost, and how many a row has at most.
            patches: of a sample.
        """
        self._width, self._count = width, rows
        self._options = options
        self._tokens, self._padded = tokens, padded
        self._longest_first, self._in_order = longest_first, in_order
        self._images, self._patches = images, patches
        cost = options.get("cost")
        self._cost = cost if isinstance(cost, batchplan.CostModel) else batchplan.DEFAULT_COST
        # Where the stream stood before the window; the samples left over from the last window; all samples.
        self._begin: Any = None
        self._carried: list[Any] = []
        self._samples: list[Any] = []
        # Positions in the window: rows not yet taken, and samples left over for the next window.
        self._rows: list[list[int]] = []
        self._later: list[int] = []

    def state_dict(self) -> dict[str, Any]:
        """What `resume` needs, besides the stream itself set back to "begin"."""
        return {
            "begin": self._begin,
            "carried": self._carried,
            "samples": len(self._samples),
            "rows": self._rows,
            "later": self._later,
        }

    def resume(self, state: dict[str, Any], stream: Iterator[Any]) -> None:
        """Goes on amid a window. Its rows are those of the state, whatever costs and sizes are now."""
        self._begin, self._carried = state["begin"], list(state["carried"])
        self._samples = [*self._carried]
        while len(self._samples) < state["samples"]:
            self._samples.append(next(stream))
        self._rows, self._later = list(state["rows"]), list(state["later"])

    def rows(self, stream: Iterator[Any], position: Callable[[], Any]) -> Iterator[list[Any]]:
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

    def _read(self, stream: Iterator[Any]) -> bool:
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
        patches = numpy.asarray([self._patches(sample) for sample in self._samples])
        if self._in_order(self._samples):
            rows = self._next_fit(lengths)
            # The last row may have room for samples that are still to come.
            fitting = len(lengths) if ended or len(rows) == 1 else rows[-1][0]
            self._rows = [row for row in rows if row[0] < fitting]
        else:
            fitting = len(lengths)
            # Exactly as many rows as on the other ranks, or windows would drift apart.
            least = 1 if ended else self._count
            while len(rows := self._planned(lengths[:fitting], patches[:fitting], least)) > self._count:
                fitting -= 1
            costs = {row[0]: self._cost_of(lengths[row], patches[row]) for row in rows}
            self._rows = _from_both_ends(sorted(rows, key=lambda row: -costs[row[0]]))
        self._later = list(range(fitting, len(lengths)))

    def _planned(self, lengths: Any, patches: Any, least: int) -> list[list[int]]:
        """Rows of positions; more than a window has, if they take more."""
        if self._images.are_planned and patches.any():
            rows = self._alike(lengths, patches, least)
        else:
            only = batchplan.Pass(self._width, min_microbatches=min(least, len(lengths)))
            request: batchplan.PlanOptions = {**self._options, "passes": [only]}
            rows = [one.indices.tolist() for one in batchplan.plan(lengths, **request).rank(0)]
        if self._longest_first:
            return [sorted(row, key=lambda place: (-lengths[place], place)) for row in rows]
        return [sorted(row) for row in rows]

    def _alike(self, lengths: Any, patches: Any, least: int) -> list[list[int]]:
        """Rows that are alike in patches and in the rest, as the micro-batches of a slot of so many ranks: no order
        would have rows of several streams alike in both."""
        request: batchplan.PlanOptions = {
            **self._options,
            **self._images.options(patches, self._cost, batchplan.Pass(self._width)),
        }
        for rows in range(max(least, -(-int(lengths.sum()) // self._width)), self._count + 1):
            slots = slots_or_none(lengths, {**request, "dp": rows})
            if slots is not None and len(slots) == 1:
                return slots[0]
        return [[]] * (self._count + 1)

    def _next_fit(self, lengths: Any) -> list[list[int]]:
        """Rows of positions in the stream's order."""
        rows: list[list[int]] = []
        room = 0
        for place, length in enumerate(lengths.tolist()):
            if length > room:
                rows.append([])
                room = self._width
            rows[-1].append(place)
            room -= length
        return rows

    def _cost_of(self, lengths: Any, patches: Any) -> float:
        seen = self._padded(lengths, self._width - int(lengths.sum()))
        of_images = self._images.per_patch(self._cost) * int(patches.sum())
        return float(self._cost.of_sequences(seen).sum()) + of_images

    def _length(self, sample: Any) -> int:
        """Tokens in a row, which cuts longer samples."""
        return min(max(self._tokens(sample), 1), self._width)


def pack(
    kind: Any,
    *,
    window: Callable[[Any], Window],
    stream: Callable[[Any], Iterator[Any]],
    made: Callable[[Any, Any, list[Any]], Iterator[Any]],
) -> None:
    """Has datasets, which pack while they are iterated, yield the rows of windows. Their states
    are the trainer's own at the window's beginning and, under STATE, the window.

    Args:
        kind: their class, which has __iter__, state_dict and load_state_dict.
        window: a new one for a dataset.
        stream: the samples of a dataset from where its state stands. It brings that state forward.
        made: the rows that the trainer's own __iter__ makes of samples that fit in one; given that, the
            dataset and the samples.
    """
    stock_state = stock_of(kind.state_dict)

    def packing(stock: Any) -> Any:
        @functools.wraps(stock)
        def __iter__(self: Any) -> Iterator[Any]:
            own, samples = window(self), stream(self)
            saved, self._batchplan_saved = getattr(self, "_batchplan_saved", None), None
            if saved is not None:
                own.resume(saved, samples)
            self._batchplan_window = own
            for of_row in own.rows(samples, functools.partial(stock_state, self)):
                yield from made(stock, self, of_row)
            # The trainer may set the dataset back to another epoch now.
            self._batchplan_window = None

        return __iter__

    def saving(stock: Any) -> Any:
        @functools.wraps(stock)
        def state_dict(self: Any) -> dict[str, Any]:
            window = getattr(self, "_batchplan_window", None)
            saved = getattr(self, "_batchplan_saved", None) if window is None else window.state_dict()
            if saved is None:
                state: dict[str, Any] = stock(self)
                return state
            own = dict(saved)
            begin = own.pop("begin")
            return {**begin, STATE: own}

        return state_dict

    def loading(stock: Any) -> Any:
        @functools.wraps(stock)
        def load_state_dict(self: Any, state_dict: dict[str, Any]) -> None:
            own = state_dict.get(STATE)
            begin = {name: value for name, value in state_dict.items() if name != STATE}
            stock(self, begin)
            self._batchplan_window = None
            self._batchplan_saved = None if own is None else {"begin": begin, **own}

        return load_state_dict

    wrap(kind, "__iter__", packing)
    wrap(kind, "state_dict", saving)
    wrap(kind, "load_state_dict", loading)


def _from_both_ends(rows: Iterable[list[int]]) -> list[list[int]]:
    left = list(rows)
    return [left.pop(0 if turn % 2 == 0 else -1) for turn in range(len(left))]
