"""What is found wrong on a device, told to the host without waiting for the device."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Optional, Protocol

import torch

# What copies on the host of the tensors that were asked for say is wrong.
Judge = Callable[[Sequence[torch.Tensor]], Optional[str]]

# Of a verdict. For more, the host waits: on devices whose events are not known here, they never arrive by themselves.
_MOST_PENDING = 64


class Reading(Protocol):
    """Tensors on their way to the host."""

    def is_there(self) -> bool: ...

    def get(self) -> Sequence[torch.Tensor]:
        """Waits for them, and for nothing that was enqueued later."""


class Verdict:
    """The first error that is found on the device in what a row packs. Every use of the row raises it, from when the
    host has heard of it. What a row has not heard when it is gone, uses of other rows on the device raise."""

    def __init__(self, *, keeps: bool = True) -> None:
        """
        Args:
            keeps: raises an error at every use, as what has it stays wrong; else once.
        """
        self._keeps = keeps
        self._lock = threading.Lock()
        self._pending: list[tuple[Reading, Judge]] = []
        # Of launches that are part of a CUDA graph, and find errors when it is replayed: the error word, what the graph
        # copies there and then, and its judge.
        self._captured: list[tuple[torch.Tensor, Sequence[torch.Tensor], Judge]] = []
        self._error: str | None = None
        self._has_been_checked = False
        self._device = torch.device("cpu")

    def ask(self, tensors: Sequence[torch.Tensor], judge: Judge) -> None:
        """After a launch that may find an error.

        Args:
            tensors: what `judge` needs, the row's error word first.
        """
        self._device = device = tensors[0].device
        if is_capturing(device):
            self._captured.append((tensors[0], _copies_of(tensors), judge))
        else:
            self._pending.append((reading_of(tensors), judge))
        with _asked_lock:
            _asked.setdefault(device, weakref.WeakSet()).add(self)

    def look(self, *, wait: bool = False) -> None:
        """
        Args:
            wait: for all that was asked for.

        Raises:
            ValueError: with what was found.
        """
        if self._error is None and (not self._pending or is_capturing(self._device)):
            return
        with self._lock:
            while self._pending and self._error is None:
                reading, judge = self._pending[0]
                must_wait = wait or len(self._pending) > _MOST_PENDING
                if not must_wait and not reading.is_there():
                    break
                del self._pending[0]
                self._error = judge(reading.get())
            error = self._error
            if not self._keeps:
                self._error = None
        if error is not None:
            raise ValueError(error)

    @property
    def has_captured(self) -> bool:
        return bool(self._captured)

    def check(self) -> None:
        """Looks at captured launches too, which waits for the device, and clears what these found. An error that stays
        is raised by the first check alone.

        Raises:
            ValueError: with what was found.
        """
        if not self._has_been_checked:
            try:
                self.look(wait=True)
            except ValueError:
                self._has_been_checked = self._keeps
                raise
        for word, copies, judge in self._captured:
            error = judge([one.cpu() for one in copies])
            if error is not None:
                for one in (word, copies[0]):
                    one.zero_()
                raise ValueError(error)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Without a lock, as it may be called amid anything, and at the end of Python, when nobody asks any more.
        if self._pending and self._error is None and self._keeps and not is_finalizing():
            lost = verdict_of_lost_rows(self._device)
            lost._device = self._device
            lost._pending.extend(self._pending)


class _CudaReading:
    """Into pinned memory, and an event behind it."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        with torch.cuda.device(tensors[0].device):
            self._copies = [
                torch.empty(one.shape, dtype=one.dtype, pin_memory=True).copy_(one, non_blocking=True)
                for one in tensors
            ]
            self._event = torch.cuda.Event()
            self._event.record()

    def is_there(self) -> bool:
        return bool(self._event.query())

    def get(self) -> Sequence[torch.Tensor]:
        self._event.synchronize()
        return self._copies


class _LateReading:
    """Of devices whose events are not known here: copied there, and to the host when it is waited for."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = _copies_of(tensors)

    def is_there(self) -> bool:
        return False

    def get(self) -> Sequence[torch.Tensor]:
        return [one.cpu() for one in self._tensors]


def _copies_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """On the device, as what is enqueued by now leaves them: a later launch may set the word too."""
    return [one.detach().clone() for one in tensors]


def reading_of(tensors: Sequence[torch.Tensor]) -> Reading:
    return _CudaReading(tensors) if tensors[0].device.type == "cuda" else _LateReading(tensors)


# Those that have been asked and not been checked since, by device.
_asked: dict[torch.device, weakref.WeakSet[Verdict]] = {}
_asked_lock = threading.Lock()


@functools.cache
def verdict_of_lost_rows(device: torch.device) -> Verdict:
    """Of rows that are gone, such as those that pack() makes for one call."""
    return Verdict(keeps=False)


def check(device: torch.device | str) -> None:
    """Waits for what was packed on a device, and raises what was found wrong there. That is only in nested tensors
    whose offsets were made on the device: all else is raised by the call itself. An error is raised by one check, and
    the next one goes on behind it. What a CUDA graph finds when it is replayed nothing else raises; for these the check
    waits for the device, and lets the graph pack again.

    Raises:
        ValueError: with what was found.
    """
    device = torch.empty(0, device=device).device
    with _asked_lock:
        asked = list(_asked.get(device, ()))
    for verdict in asked:
        if not verdict.has_captured:
            with _asked_lock:
                _asked[device].discard(verdict)
        verdict.check()
    verdict_of_lost_rows(device).check()


def is_on_host(device: torch.device) -> bool:
    """Whether what lies there is read, and judged, at once."""
    return bool(device.type == "cpu")


def is_capturing(device: torch.device) -> bool:
    """Whether the device's current stream is being captured in a CUDA graph."""
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return bool(torch.cuda.is_current_stream_capturing())
