"""ROLL's sequence packing: one rank's rows, and how a cluster packs them."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy
from numpy.typing import ArrayLike, NDArray

import batchplan
from batchplan._checks import whole
from batchplan.integrations._after_dispatch import own_part
from batchplan.integrations._agreement import Agree, Gather, agreement_in, gathering_in, on_all_ranks
from batchplan.integrations._partitions import divide
from batchplan.integrations.roll._batch import lengths_of, tokens_of
from batchplan.integrations.roll._travel import rows_that_came_along

# Sequences of a packed row begin at multiples of it, and of what the parallel sizes need.
_ROW_ALIGNMENT = 16


def pad_factor(cp_size: int = 1, tp_size: int = 1) -> int:
    """What ROLL pads each sequence of a packed row to a multiple of: lcm(16, 2 * cp * tp), and without
    context parallelism lcm(16, tp)."""
    for name, size in (("cp_size", cp_size), ("tp_size", tp_size)):
        if whole(name, size) < 1:
            raise batchplan.InvalidRequest(f"{name} is {size}; must be at least 1")
    return math.lcm(_ROW_ALIGNMENT, 2 * cp_size * tp_size if cp_size > 1 else tp_size)


@dataclasses.dataclass(frozen=True)
class Packing:
    """How a cluster's workers pack a batch: their sequence_packing_args and parallel sizes."""

    # Tokens of a packed row, at most, after alignment and before it is divided by cp.
    max_packed_sequence_length: int
    # Rows of a gradient update's part; else of a forward pass alone.
    is_train: bool = True
    tp_size: int = 1
    cp_size: int = 1
    # The number of rows is a multiple of it.
    vp_size: int = 1
    min_num_micro_batches: int = 1

    @classmethod
    def of(cls, config: Any, is_train: bool, tp_size: int, cp_size: int, vp_size: int | None) -> Packing:
        """That of a SequencePackingConfig.

        Raises:
            ValueError: its capacity is not set.
        """
        use = "train" if is_train else "forward"
        capacity = getattr(config, f"max_packed_sequence_length_{use}")
        if capacity is None:
            raise batchplan.InvalidRequest(
                f"max_packed_sequence_length_{use} is None; must be the tokens of a packed row"
            )
        least = getattr(config, f"min_num_micro_batches_{use}")
        return cls(capacity, is_train, tp_size, cp_size, vp_size or 1, least or 1)

    def key(self) -> tuple[Any, ...]:
        """What a plan for it is found by, of plain values, which travel anywhere."""
        return dataclasses.astuple(self)

    def to_pass(self, name: str = "", **options: Any) -> batchplan.Pass:
        """As one use of the batch in a plan, with these options of a pass besides."""
        return batchplan.Pass(
            self.max_packed_sequence_length,
            name,
            length_multiple=pad_factor(self.cp_size, self.tp_size),
            min_microbatches=self.min_num_micro_batches,
            microbatch_count_multiple=self.vp_size,
            order="small_at_both_ends",
            **options,
        )

    def holds(self, tokens: NDArray[numpy.int64]) -> bool:
        """Whether sequences of so many tokens fit in a row."""
        multiple = pad_factor(self.cp_size, self.tp_size)
        return int((-(-tokens // multiple) * multiple).sum()) <= self.max_packed_sequence_length


def load_balance(
    seq_lens: ArrayLike,
    max_packed_sequence_length: int,
    *,
    cp_size: int = 1,
    tp_size: int = 1,
    min_num_micro_batches: int | None = None,
    num_batches_divided_by: int | None = None,
    agree: Agree | None = None,
    cost: batchplan.CostModel | None = None,
) -> list[list[int]]:
    """Packs one rank's batch as `load_balance` does, within the capacity also after the ranks have
    agreed on a number.

    Args:
        seq_lens: tokens of each of this rank's sequences.
        max_packed_sequence_length: tokens of a packed row, at most, after alignment.
        cp_size, tp_size: every sequence is aligned to pad_factor of them.
        min_num_micro_batches: rows, at least.
        num_batches_divided_by: their number is a multiple of it, for virtual pipelines.
        agree: by_all_reduce(dp_group), so that all ranks have as many rows. Called as often on every
            rank, twice or more.
        cost: what rows are balanced by; that of a model of 7B parameters unless given.

    Returns:
        rows of positions in seq_lens, small ones at both ends.

    Raises:
        ValueError: a sequence is longer than a row, or there are fewer than rows; with `agree`, on any
            rank.
    """
    options: batchplan.PlanOptions = {"preset": "roll_packing", "cp": cp_size, "tp": tp_size}
    if cost is not None:
        options["cost"] = cost
    return divide(
        seq_lens,
        max_packed_sequence_length,
        options,
        at_least=min_num_micro_batches,
        multiple=num_batches_divided_by,
        agree=agree,
        length_multiple=pad_factor(cp_size, tp_size),
        balance_on="cost",
    )


def make_micro_batch_iter_for_sequence_packing(
    mini_batch: Any,
    tp_size: int,
    cp_size: int,
    vp_size: int | None,
    is_train: bool = False,
    dp_group: Any = None,
    micro_batch_size: int | None = None,
    config: Any = None,
    *,
    cost: batchplan.CostModel | None = None,
) -> Iterator[Any]:
    """roll.utils.sequence_packing's function for the algorithm "load_balance": rows that `batch_balance`
    has planned for all ranks where they came along; else the ranks tell each other their lengths, and make
    one plan of their rows.

    Args:
        mini_batch: a DataProto with "attention_mask"; its meta_info gets "partition_indices_list", by
            which restore_results_order works.
        tp_size, cp_size, vp_size: parallel sizes of the worker.
        is_train: which of the config's capacities holds.
        dp_group: whose ranks have as many rows, where torch.distributed is initialized.
        micro_batch_size: not used; rows hold what fits.
        config: a SequencePackingConfig.
        cost: what rows are balanced by that did not come along.

    Yields:
        a DataProto a row, with the meta_info that ROLL gives it.

    Raises:
        ValueError: a sequence is longer than a row after alignment, or there are fewer sequences than rows,
            of any rank; or the config has no capacity.
    """
    packing = Packing.of(config, is_train, tp_size, cp_size, vp_size)
    rows = _planned_rows(mini_batch, packing, agreement_in(dp_group))
    if rows is None:
        rows = _own_rows(mini_batch, packing, gathering_in(dp_group), cost)
    mini_batch.meta_info["partition_indices_list"] = rows
    for number, row in enumerate(rows):
        micro_batch = mini_batch.select_idxs(row)
        micro_batch.meta_info = copy.deepcopy(mini_batch.meta_info)
        micro_batch.meta_info.update(
            micro_batch_idx=number,
            is_padding_batch=False,
            partition_indices=row,
            num_micro_batchs=len(rows),
            mini_batch_size=len(mini_batch),
        )
        yield micro_batch


def _planned_rows(mini_batch: Any, packing: Packing, agree: Agree | None) -> list[list[int]] | None:
    """Those that came along; None on all ranks where any has not got all of its own, or not as many."""

    def held() -> list[list[int]]:
        rows = rows_that_came_along(mini_batch, packing.key()) or []
        tokens = tokens_of(mini_batch)
        return rows if all(packing.holds(tokens[row]) for row in rows) else []

    if agree is None:
        return held() or None
    rows, most = on_all_ranks(agree, held)
    least = -agree(-len(rows))
    return rows if 0 < least == most else None


def _own_rows(
    mini_batch: Any, packing: Packing, gather: Gather | None, cost: batchplan.CostModel | None
) -> list[list[int]]:
    """The rank's part of the plan that all ranks make of what they have."""

    def lengths() -> NDArray[numpy.int64]:
        return lengths_of(mini_batch)[0]

    if gather is not None:
        options: batchplan.PlanOptions = {} if cost is None else {"cost": cost}
        return own_part(*gather(lengths), packing.to_pass(), options)
    return load_balance(
        lengths(),
        packing.max_packed_sequence_length,
        cp_size=packing.cp_size,
        tp_size=packing.tp_size,
        min_num_micro_batches=packing.min_num_micro_batches,
        num_batches_divided_by=packing.vp_size,
        cost=cost,
    )
