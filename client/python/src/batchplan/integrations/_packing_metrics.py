"""How full and how alike bins are, summed up over many packings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
from numpy.typing import ArrayLike

Bins = Sequence[Sequence[int]]


class PackingMetrics:
    """Of the packings that `update` was told; the interface of nemo_rl.data.packing.metrics.

    Attributes:
        bin_counts, bin_utilizations: of each packing, how many bins and their average utilization.
        packing_times: in seconds, of those whose time was told.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets them."""
        self.total_sequences = 0
        self.total_bins = 0
        self.total_sequence_length = 0
        self.total_bin_capacity = 0
        self.total_waste = 0
        self.bin_counts: list[int] = []
        self.bin_utilizations: list[float] = []
        self.packing_times: list[float] = []

    def update(
        self,
        sequence_lengths: ArrayLike,
        bins: Bins,
        bin_capacity: int,
        packing_time: float | None = None,
    ) -> dict[str, float]:
        """Adds one packing, and returns what calculate_stats_only makes of it."""
        stats = self.calculate_stats_only(sequence_lengths, bins, bin_capacity)
        self.total_sequences += int(stats["num_sequences"])
        self.total_bins += int(stats["num_bins"])
        self.total_sequence_length += int(stats["total_sequence_length"])
        self.total_bin_capacity += int(stats["total_bin_capacity"])
        self.total_waste += int(stats["total_waste"])
        self.bin_counts.append(int(stats["num_bins"]))
        self.bin_utilizations.append(stats["average_utilization"])
        if packing_time is not None:
            self.packing_times.append(packing_time)
        return stats

    def calculate_stats_only(
        self, sequence_lengths: ArrayLike, bins: Bins, bin_capacity: int
    ) -> dict[str, float]:
        """Of one packing, which is not added: counts, tokens, the utilization of bins and what of
        them is waste, 1 - standard deviation / average of the utilization (bin_balance), and the bins
        that the tokens alone would need, also as a share of the bins (bin_efficiency). Zeros without
        bins."""
        lengths = numpy.asarray(sequence_lengths, dtype=numpy.int64)
        loads = numpy.array([lengths[list(one)].sum() for one in bins], dtype=numpy.int64)
        tokens = int(lengths.sum()) if len(bins) else 0
        capacity = len(bins) * bin_capacity
        used = tokens / capacity if capacity else 0.0
        spread = float(numpy.std(loads / bin_capacity, ddof=1)) if len(bins) > 1 else 0.0
        needed = math.ceil(tokens / bin_capacity)
        return {
            "num_sequences": len(lengths) if len(bins) else 0,
            "num_bins": len(bins),
            "total_sequence_length": tokens,
            "total_bin_capacity": capacity,
            "total_waste": capacity - tokens,
            "average_utilization": used,
            "waste_ratio": 1 - used if capacity else 0.0,
            "bin_balance": 1 - spread / used if used else 0.0,
            "theoretical_min_bins": needed,
            "bin_efficiency": needed / len(bins) if len(bins) else 0.0,
        }

    def get_aggregated_stats(self) -> dict[str, float]:
        """Of all packings together, with the least and the greatest average of one; empty without
        any."""
        if not self.total_bins:
            return {}
        used = self.total_sequence_length / self.total_bin_capacity
        least, most = min(self.bin_utilizations), max(self.bin_utilizations)
        needed = math.ceil(used * self.total_bins)
        stats = {
            "total_sequences": self.total_sequences,
            "total_bins": self.total_bins,
            "average_utilization": used,
            "min_utilization": least,
            "max_utilization": most,
            "average_waste_ratio": 1 - used,
            "min_waste_ratio": 1 - most,
            "max_waste_ratio": 1 - least,
            "average_bin_count": self.total_bins / len(self.bin_counts),
            "bin_efficiency": needed / self.total_bins,
        }
        if self.packing_times:
            stats["average_packing_time"] = sum(self.packing_times) / len(self.packing_times)
        return stats

    def print_aggregated_stats(self) -> None:
        """One a line, on stdout."""
        for name, value in self.get_aggregated_stats().items():
            print(f"{name}: {value:g}")
