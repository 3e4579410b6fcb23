"""How many sequences the global batches of an epoch have, unless they can't be planned so."""

from __future__ import annotations

import dataclasses

import numpy
from numpy.typing import NDArray

from batchplan.torch._batch_size_schedule import BatchSizeSchedule

Ends = NDArray[numpy.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class EpochSizes:
    """Those of an epoch, and of the ones after it up to the next EpochSizes.

    Attributes:
        epoch: the first one.
        ends: where each global batch ends in the epoch's order. Shape [steps].
        batch_sizes: what the batch size was for each one: alike for a last one of fewer sequences. Shape [steps].
    """

    epoch: int
    ends: Ends
    batch_sizes: Ends


def sizes_of_epochs(
    count: int, schedule: BatchSizeSchedule, *, least: int, drop_last: bool, keeps_sizes: bool, is_grouped: bool
) -> list[EpochSizes]:
    """Those of every epoch: one for each stage of the schedule in which epochs lie, and for each epoch amid which the
    size changes. The last one may have no global batch.

    Args:
        count: sequences of an epoch.
        least: sequences that a global batch has at least. Where the last one would have fewer, it and the one before
            it become alike in size, or else all of that batch size.
        drop_last: an epoch ends with the last full global batch.
        keeps_sizes: the last one has what is left in any case.
        is_grouped: sizes may become smaller, as batches end where groups do.
    """
    found: list[EpochSizes] = []
    epoch = trained = 0
    while True:
        ends, sizes = _full(count, trained, schedule)
        rest = count - (int(ends[-1]) if len(ends) else 0)
        if rest and not drop_last:
            ends, sizes = _with_rest(ends, sizes, count, least, keeps_sizes, is_grouped, schedule.stage_at(trained)[0])
        found.append(EpochSizes(epoch, ends, sizes))
        _, following = schedule.stage_at(trained)
        if following is None or not len(ends):
            return found
        # Epochs that end before the next stage are alike.
        of_epoch = int(ends[-1])
        alike = max(1, (following - trained) // of_epoch)
        epoch, trained = epoch + alike, trained + alike * of_epoch


def _full(count: int, trained: int, schedule: BatchSizeSchedule) -> tuple[Ends, Ends]:
    """Full global batches, and their batch sizes, of an epoch that begins after so many sequences."""
    ends, sizes = [numpy.empty(0, numpy.int64)], [numpy.empty(0, numpy.int64)]
    begin = 0
    while True:
        size, following = schedule.stage_at(trained + begin)
        number = (count - begin) // size
        if following is not None:
            number = min(number, -(-(following - trained - begin) // size))
        if not number:
            return numpy.concatenate(ends), numpy.concatenate(sizes)
        ends.append(begin + numpy.arange(1, number + 1, dtype=numpy.int64) * size)
        sizes.append(numpy.full(number, size, numpy.int64))
        begin += number * size


def _with_rest(
    ends: Ends, sizes: Ends, count: int, least: int, keeps_sizes: bool, is_grouped: bool, size: int
) -> tuple[Ends, Ends]:
    """With those behind the last full batch, of which there are some."""
    sizes = numpy.append(sizes, sizes[-1:] if len(sizes) else size)
    ends = numpy.append(ends, count)
    if keeps_sizes:
        return ends, sizes
    # Those of the last batch size.
    first = int(numpy.searchsorted(sizes, sizes[-1]))
    begin = int(ends[first - 1]) if first else 0
    last = begin + evened(ends[first:] - begin, least, is_grouped)
    return numpy.append(ends[:first], last), sizes[: first + len(last)]


def evened(ends: Ends, least: int, is_grouped: bool) -> Ends:
    """Global batches of which the last one, if it has too few sequences, and the one before it become alike in size, or
    else all of them: maybe one fewer."""
    if len(ends) < 2 or ends[-1] - ends[-2] >= least:
        return ends
    count, steps = int(ends[-1]), len(ends)
    both = count - (int(ends[-3]) if steps > 2 else 0)
    if both >= 2 * least:
        return numpy.append(ends[:-2], [count - both // 2, count])
    # Groups leave no batch just enough.
    if is_grouped or count < steps * least:
        steps -= 1
    return numpy.arange(1, steps + 1, dtype=numpy.int64) * count // steps
