"""For NeMo-RL: a packer with the interface of nemo_rl.data.packing.

    - from nemo_rl.data.packing import get_packer
    + from batchplan.integrations.nemo_rl import get_packer
"""

from __future__ import annotations

from numpy.typing import ArrayLike

import batchplan

_ALGORITHMS = (
    "balanced",
    "concatenative",
    "first_fit_decreasing",
    "first_fit_shuffle",
    "modified_first_fit_decreasing",
)


class SequencePacker:
    """Packs sequences into bins of at most `bin_capacity` tokens.

    NeMo-RL deals bin i to rank i mod DP, which its bin_count_multiple is. Bins are in such an order
    that ranks then get what the plan gave them: alike in cost at every micro-batch.
    """

    def __init__(
        self,
        bin_capacity: int,
        collect_metrics: bool = False,
        min_bin_count: int | None = None,
        bin_count_multiple: int | None = None,
        *,
        algorithm: str = "balanced",
        seed: int = 0,
        cost: batchplan.CostModel | None = None,
        effort: str = "default",
    ) -> None:
        """
        Args:
            bin_capacity: tokens of a bin, at most.
            collect_metrics: keep the metrics of every plan in `metrics`.
            min_bin_count: bins, at least.
            bin_count_multiple: the number of bins is a multiple of it: the data-parallel size.
            algorithm: "balanced", or one of NeMo-RL's: "concatenative", "first_fit_decreasing",
                "first_fit_shuffle", "modified_first_fit_decreasing".
            seed: of first_fit_shuffle.
            cost: what "balanced" balances by.
            effort: how hard it tries.
        """
        # NeMo-RL's enumeration has the names as its values.
        algorithm = str(getattr(algorithm, "value", algorithm))
        name = algorithm.lower()
        if name not in _ALGORITHMS:
            raise batchplan.InvalidRequest(
                f'algorithm is "{algorithm}", which is none of {", ".join(_ALGORITHMS)}'
            )
        self.bin_capacity = bin_capacity
        self.collect_metrics = collect_metrics
        self.metrics: list[batchplan.PlanMetrics] = []
        ranks = bin_count_multiple or 1
        least = -(-max(min_bin_count or 1, 1) // ranks)
        self._options: batchplan.PlanOptions = {
            "dp": ranks,
            "preset": "balanced" if name == "balanced" else "nemo_rl_packing",
            "passes": [
                batchplan.Pass(
                    bin_capacity,
                    min_microbatches=least,
                    packer=None if name == "balanced" else name,
                )
            ],
            "seed": seed,
            "effort": effort,
        }
        if cost is not None:
            self._options["cost"] = cost

    def pack(self, sequence_lengths: ArrayLike) -> list[list[int]]:
        """Bins of positions in `sequence_lengths`, each sequence in one.

        Raises:
            ValueError: a sequence is longer than a bin, or there are fewer sequences than bins.
        """
        plan = batchplan.plan(sequence_lengths, **self._options)
        if self.collect_metrics:
            self.metrics.append(plan.metrics)
        of_ranks = [list(plan.rank(rank)) for rank in range(self._options["dp"])]
        return [one.indices.tolist() for slot in zip(*of_ranks) for one in slot]


def get_packer(
    algorithm: str,
    bin_capacity: int,
    collect_metrics: bool = False,
    min_bin_count: int | None = None,
    bin_count_multiple: int | None = None,
) -> SequencePacker:
    """The packer, by NeMo-RL's arguments."""
    return SequencePacker(
        bin_capacity, collect_metrics, min_bin_count, bin_count_multiple, algorithm=algorithm
    )
