"""For NeMo-RL: the packer of its sequence packing, whose bins are the micro-batches of all ranks.

    + import batchplan.integrations.nemo_rl
    + batchplan.integrations.nemo_rl.install()

in the script that makes the policy, such as examples/run_grpo.py: its process divides the batch, workers
take what they are sent. The configuration stays as it is, sequence_packing.enabled included.

examples/run_grpo_single_controller.py has an actor of its own divide batches, in another process: there it is
refused, and the line belongs into SingleControllerActor.__init__, of nemo_rl/algorithms/single_controller.py.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy
from numpy.typing import ArrayLike

import batchplan
from batchplan._checks import whole
from batchplan.integrations._packing_metrics import PackingMetrics
from batchplan.integrations._replace import replace
from batchplan.integrations._slots import options_of, slots_of

__all__ = ["PackingMetrics", "SequencePacker", "get_packer", "install"]

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

    Attributes:
        bin_capacity, collect_metrics, min_bin_count, bin_count_multiple: as they were given.
        metrics: of all that was packed, or None if they are not collected.
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
        synchronization: str | None = None,
        effort: str | None = None,
    ) -> None:
        """
        Args:
            bin_capacity: tokens of a bin, at most.
            collect_metrics: keep what `metrics` is made of.
            min_bin_count: bins, at least.
            bin_count_multiple: the number of bins is a multiple of it: the data-parallel size.
            algorithm: "balanced", or one of NeMo-RL's: "concatenative", "first_fit_decreasing",
                "first_fit_shuffle", "modified_first_fit_decreasing".
            seed: of first_fit_shuffle.
            cost: what "balanced" balances by.
            synchronization: "lockstep", the default, where ranks wait for each other at every
                micro-batch, or "accumulated", where they do at the end.
            effort: how hard "balanced" tries: "fast", "default" or "thorough".

        Raises:
            ValueError: min_bin_count is negative, bin_count_multiple less than 1, or the algorithm
                none of these.
        """
        # NeMo-RL's enumeration has the names as its values.
        algorithm = str(getattr(algorithm, "value", algorithm))
        name = algorithm.lower()
        if name not in _ALGORITHMS:
            raise batchplan.InvalidRequest(
                f'algorithm is "{algorithm}", which is none of {", ".join(_ALGORITHMS)}'
            )
        if min_bin_count is not None and whole("min_bin_count", min_bin_count) < 0:
            raise batchplan.InvalidRequest(f"min_bin_count is {min_bin_count}; must be at least 0")
        if bin_count_multiple is not None and whole("bin_count_multiple", bin_count_multiple) < 1:
            raise batchplan.InvalidRequest(
                f"bin_count_multiple is {bin_count_multiple}; must be at least 1"
            )
        self.bin_capacity = bin_capacity
        self.collect_metrics = collect_metrics
        self.min_bin_count = min_bin_count
        self.bin_count_multiple = bin_count_multiple
        self.metrics = PackingMetrics() if collect_metrics else None
        self._ranks = bin_count_multiple or 1
        self._options: batchplan.PlanOptions = {
            **options_of(cost, synchronization, effort),
            "dp": self._ranks,
            "preset": "balanced" if name == "balanced" else "nemo_rl_packing",
            "passes": [
                batchplan.Pass(
                    bin_capacity,
                    min_microbatches=max(-(-(min_bin_count or 0) // self._ranks), 1),
                    packer=None if name == "balanced" else name,  # type: ignore[arg-type]
                )
            ],
            "seed": seed,
        }

    def pack(self, sequence_lengths: ArrayLike) -> list[list[int]]:
        """Bins of positions in `sequence_lengths`, each sequence in one; none for none.

        Raises:
            ValueError: a sequence is longer than a bin, or there are fewer sequences than bins.
        """
        number = int(numpy.size(sequence_lengths))
        # As many at least, and none empty.
        least = -(-max(self.min_bin_count or 0, min(number, 1)) // self._ranks) * self._ranks
        if number < least:
            raise batchplan.InvalidRequest(
                f"min_bin_count is {self.min_bin_count}, bin_count_multiple {self.bin_count_multiple}: "
                f"Cannot create {least} bins with only {number} sequences, none of them empty"
            )
        bins: list[list[int]] = []
        if number > 0:
            plan = batchplan.plan(sequence_lengths, **self._options)
            bins = [one for slot in slots_of(plan, self._ranks) for one in slot]
        if self.metrics is not None:
            self.metrics.update(sequence_lengths, bins, self.bin_capacity)
        return bins

    def reset_metrics(self) -> None:
        """Forgets what was collected."""
        if self.metrics is not None:
            self.metrics.reset()

    def compute_metrics(
        self, sequence_lengths: ArrayLike, bins: list[list[int]]
    ) -> dict[str, float]:
        """Those of one packing, which are not collected."""
        return PackingMetrics().calculate_stats_only(sequence_lengths, bins, self.bin_capacity)

    def get_aggregated_metrics(self) -> dict[str, float]:
        """Those of all that was packed; empty if they are not collected."""
        return {} if self.metrics is None else self.metrics.get_aggregated_stats()

    def print_metrics(self) -> None:
        """The same on stdout."""
        if self.metrics is None:
            print("Metrics are not collected: collect_metrics is False")
        else:
            self.metrics.print_aggregated_stats()


def get_packer(
    algorithm: str,
    bin_capacity: int,
    collect_metrics: bool = False,
    min_bin_count: int | None = None,
    bin_count_multiple: int | None = None,
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> SequencePacker:
    """The packer, by NeMo-RL's arguments; those after them are SequencePacker's."""
    return SequencePacker(
        bin_capacity,
        collect_metrics,
        min_bin_count,
        bin_count_multiple,
        algorithm=algorithm,
        cost=cost,
        synchronization=synchronization,
        effort=effort,
    )


def install(
    algorithm: str | None = "balanced",
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Makes every BatchedDataDict.shard_by_batch_size of this process pack by it.

    Args:
        algorithm: packs whatever the configuration names; None: what the configuration names, one of
            NeMo-RL's, by batchplan.
        cost, synchronization, effort: SequencePacker's.

    Raises:
        ImportError: NeMo-RL is not there.
        ValueError: the algorithm, or what stands beside it, is none that there is.
        FailedPrecondition: by NeMo-RL's setup_single_controller, if this process calls that.
    """

    chosen = algorithm

    def packer_of(algorithm: str, *args: Any, **kwargs: Any) -> SequencePacker:
        kwargs.update(cost=cost, synchronization=synchronization, effort=effort)
        return get_packer(algorithm if chosen is None else chosen, *args, **kwargs)

    # What is wrong is told here, and not by the first batch.
    packer_of("balanced", 1)
    packing: Any = importlib.import_module("nemo_rl.data.packing.algorithms")
    replace(packing, "get_packer", packer_of)
    # isinstance of theirs holds.
    packing.SequencePacker.register(SequencePacker)
    try:
        controllers = importlib.import_module("nemo_rl.algorithms.single_controller_utils.setup")
    except ImportError:
        return  # a version without it
    replace(controllers, "setup_single_controller", _refuse_single_controller)


def _refuse_single_controller(*_: Any, **__: Any) -> None:
    raise batchplan.FailedPrecondition(
        "nemo_rl.install() was called in the process that makes the single controller, which divides batches "
        "in another one, by NeMo-RL's packer: call it in SingleControllerActor.__init__, of "
        "nemo_rl/algorithms/single_controller.py, and not here"
    )
