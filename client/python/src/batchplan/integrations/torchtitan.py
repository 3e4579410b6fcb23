"""For torchtitan's RL: the rows of its Batcher, planned for all ranks.

    + import batchplan.integrations.torchtitan
    + batchplan.integrations.torchtitan.install()

at the beginning of main of torchtitan/experiments/rl/train.py, whose process packs for all ranks. The Batcher
fills rows of seq_len tokens with a step's samples in their order, each until the next one does not fit.
Planned, there are fewer rows, so that a step has fewer micro-batches, and rows that run at the same time are
alike in what their attention costs. A step has its samples, and the loss its denominator.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import batchplan
from batchplan.integrations._partitions import balanced_partitions
from batchplan.integrations._slots import options_of, slots_or_none

__all__ = ["assign_rows", "install"]


def assign_rows(
    lengths: Sequence[int],
    *,
    seq_len: int,
    dp_degree: int,
    local_batch_size: int,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> list[list[int]]:
    """Rows of positions in `lengths`, in the order in which the Batcher deals them to micro-batches and ranks.

    Args:
        lengths: tokens of each sample as it is packed.
        seq_len: tokens of a row, at most. Rows are padded to it.
        dp_degree: data-parallel ranks.
        local_batch_size: rows of a micro-batch on one rank.
        cost: what samples cost; that of a model of 7B parameters unless given. What it costs by the token, rows
            cost by seq_len, whatever they hold.
        synchronization: "lockstep", the default, where ranks wait for each other at every micro-batch (FSDP), or
            "accumulated", where they do at the end of a step.
        effort: "fast", "default" or "thorough".

    Returns:
        dp_degree * local_batch_size rows for each micro-batch, none of them empty. Of fewer samples than rows
        fewer ones, which the Batcher pads up.

    Raises:
        ValueError: a sample is longer than a row.
    """
    if len(lengths) == 0:
        return []
    model = cost or batchplan.DEFAULT_COST
    by_row = batchplan.CostModel(
        0.0, model.per_token_squared, model.per_microbatch + model.per_token * seq_len, model.per_sequence
    )

    def cost_of(row: list[int]) -> float:
        return float(by_row.of_sequences([lengths[place] for place in row]).sum())

    at_once = dp_degree * local_batch_size
    options: batchplan.PlanOptions = {
        **options_of(by_row, synchronization, effort),
        "dp": at_once,
        "passes": [batchplan.Pass(seq_len)],
    }
    slots = slots_or_none(lengths, options)
    if slots is None:
        slots = slots_or_none(lengths, {**options, "allow_empty_microbatches": True}) or []
        # Dealt as they come, like rows run at the same time, and as few cells as can be are padding alone.
        rows = [row for slot in slots for row in slot if row]
        return sorted(rows, key=cost_of, reverse=True)
    if local_batch_size > 1:
        slots = [_with_ranks_alike(slot, [cost_of(row) for row in slot], dp_degree) for slot in slots]
    # The Batcher deals the rows to the ranks of all micro-batches in turn, local_batch_size times.
    return [
        slot[rank * local_batch_size + turn]
        for turn in range(local_batch_size)
        for slot in slots
        for rank in range(dp_degree)
    ]


def _with_ranks_alike(slot: list[list[int]], costs: Sequence[float], ranks: int) -> list[list[int]]:
    """A slot's rows, those of one rank after those of another."""
    return [slot[place] for part in balanced_partitions(costs, ranks, True) for place in part]


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Has every Batcher of this process fill its rows by assign_rows.

    Args:
        cost, synchronization, effort: those of assign_rows.

    Raises:
        ImportError: torchtitan's RL is not there.
        ValueError: a cost, synchronization or effort is none that there is; or a subclass of Batcher fills rows
            itself, which would go on to.
    """
    options_of(cost, synchronization, effort)
    kind = importlib.import_module("torchtitan.experiments.rl.components.batcher").Batcher
    name = "_assign_training_samples_to_rows"
    stock = getattr(kind, name)
    for own in _subclasses(kind):
        if name in vars(own):
            raise batchplan.InvalidRequest(
                f"{own.__name__} is a Batcher with a {name} of its own, which install() does not reach: leave one "
                "of them out"
            )

    @functools.wraps(stock)
    def assign(self: Any, training_samples: list[Any]) -> list[list[Any]]:
        rows = assign_rows(
            [self.num_tokens_to_pack(sample) for sample in training_samples],
            seq_len=self.seq_len,
            dp_degree=self._dp_degree,
            local_batch_size=self.local_batch_size,
            cost=cost,
            synchronization=synchronization,
            effort=effort,
        )
        return [[training_samples[place] for place in row] for row in rows]

    setattr(kind, name, assign)


def _subclasses(kind: type) -> list[type]:
    of_kind: list[type] = kind.__subclasses__()
    return [one for own in of_kind for one in (own, *_subclasses(own))]
