"""How long a call takes on a device and on the host, and what it launches.

On CUDA the time is what passes on the stream between two events, the median of many calls, each
with a cold L2: two buffers larger than it are written and read in between, so that the lines left
in it are clean and nobody's. The stream is busy with that while the call is enqueued, so a call of
few launches is not charged for its way there; one that waits for the host, or whose launches take
the host longer than the device, is. Two events around nothing are a microsecond or two apart.

On the CPU the time is wall time, and caches are as the call before left them.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from typing import Callable

import torch

Call = Callable[[], object]

# Above the L2 of any device so far.
_FLUSH_BYTES = 256 << 20
_WARM_UPS = 5


@dataclasses.dataclass(frozen=True)
class Measurement:
    seconds: float
    # From the call to its return, with nothing enqueued before; equal to `seconds` on the CPU.
    host_seconds: float
    # Kernels, copies and fills that the device ran, those of a graph too. None: not known.
    launches: int | None
    # How often the host waited for the device. None: not known.
    waits: int | None


class Meter:
    def __init__(self, device: torch.device, repetitions: int) -> None:
        self._device = device
        self._repetitions = repetitions
        if device.type == "cuda":
            self._written = torch.empty(_FLUSH_BYTES // 4, dtype=torch.int32, device=device)
            self._read = torch.zeros_like(self._written)

    def measure(self, call: Call) -> Measurement:
        for _ in range(_WARM_UPS):
            call()
        if self._device.type != "cuda":
            seconds = statistics.median(_wall(call) for _ in range(self._repetitions))
            return Measurement(seconds, seconds, None, None)
        launches, waits = self._count(call)
        return Measurement(
            statistics.median(self._on_stream(call) for _ in range(self._repetitions)),
            statistics.median(self._on_host(call) for _ in range(self._repetitions)),
            launches,
            waits,
        )

    def _flush_l2(self) -> None:
        self._written.zero_()
        self._read.max()

    def _on_stream(self, call: Call) -> float:
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        self._flush_l2()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def _on_host(self, call: Call) -> float:
        torch.cuda.synchronize(self._device)
        seconds = _wall(call)
        torch.cuda.synchronize(self._device)
        return seconds

    def _count(self, call: Call) -> tuple[int | None, int | None]:
        """By the profiler; None where it sees nothing, as in some sandboxes."""
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        try:
            torch.cuda.synchronize(self._device)
            with torch.profiler.profile(activities=activities) as profile:
                call()
                torch.cuda.synchronize(self._device)
            events = list(profile.events())
        except RuntimeError:
            return None, None
        on_device = torch.autograd.DeviceType.CUDA
        launches = sum(event.device_type == on_device for event in events)
        # This function and the profiler wait for the device, and not for a stream.
        waits = sum(event.name == "cudaStreamSynchronize" for event in events)
        return (launches, waits) if launches > 0 else (None, None)


def _wall(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
