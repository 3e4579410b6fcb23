"""For AReaL: its controller's dispatch, and its engines' micro-batches and trees of sequences.

In the script that makes the trainer, a line does all of it:

    + batchplan.integrations.areal.install()
      with PPOTrainer(config, train_dataset) as trainer:

Controllers of `_version: v2` dispatch in processes of their own, which it does not reach, and are refused.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import ArrayLike

import batchplan
from batchplan._checks import whole
from batchplan.integrations import _areal_trees
from batchplan.integrations._after_dispatch import own_part
from batchplan.integrations._agreement import Lengths, gathering_in
from batchplan.integrations._partitions import balanced_partitions
from batchplan.integrations._replace import replace, wrap

__all__ = ["allocate_balanced_mbs_synced", "dispatch_tensors", "install", "install_in_worker"]

# Of the engines whose batch a controller is dispatching: their budget, 0 without one, and whether they share prefixes.
_engines = contextvars.ContextVar("batchplan_areal_engines", default=(0, False))


def dispatch_tensors(
    item_list: Sequence[dict[str, Any]],
    dp_size: int,
    group_size: int = 1,
    *,
    max_tokens_per_mb: int | None = None,
    trees: bool = False,
    cost: batchplan.CostModel | None = None,
) -> tuple[list[list[dict[str, Any]]], list[list[int]]]:
    """areal.infra.controller.train_controller._dispatch_tensors: as many trajectories for each rank. With a
    budget those that make micro-batches alike on all ranks, else ranks alike in cost.

    Args:
        item_list: trajectories of tensors. Sequences are as long as "attention_mask" says, or where that is
            on another machine, as wide as it is; without it, as the first tensor of two dimensions.
        dp_size: data-parallel ranks.
        group_size: so many trajectories in a row stay on one rank; dp_size times it divides their number.
        max_tokens_per_mb: the engines' budget.
        trees: whether the engines share prefixes. All trees are as wide as the budget, so that ranks are made alike
            in tokens, those once that a trajectory's sequences share; not where they are on another machine.
        cost: what is balanced; that of a model of 7B parameters unless given.

    Returns:
        the ranks' trajectories, and their positions in item_list.

    Raises:
        ValueError: the numbers do not divide each other.
    """
    items = len(item_list)
    for name, size in (("dp_size", dp_size), ("group_size", group_size)):
        if whole(name, size) < 1:
            raise batchplan.InvalidRequest(f"{name} is {size}; must be at least 1")
    for divisor, sizes in (
        (group_size, f"group_size, {group_size}"),
        (dp_size * group_size, f"dp_size times group_size, {dp_size} times {group_size}"),
    ):
        if items == 0 or items % divisor:
            raise batchplan.InvalidRequest(
                f"item_list has {items} trajectories; their number must be divisible by {sizes}"
            )
    groups = [
        numpy.concatenate([_rows_of(item) for item in item_list[begin : begin + group_size]])
        for begin in range(0, items, group_size)
    ]
    model = cost or batchplan.DEFAULT_COST
    if trees and all(map(_areal_trees.has_tokens, item_list)):
        begins = range(0, items, group_size)
        tokens = [_areal_trees.tree_tokens(item_list[begin : begin + group_size]) for begin in begins]
        ranks = balanced_partitions(tokens, dp_size, True)
    elif max_tokens_per_mb and len({len(rows) for rows in groups}) == 1:
        ranks = _ranks_of_plan(groups, dp_size, max_tokens_per_mb, model)
    else:
        ranks = balanced_partitions([_cost_of(model, rows) for rows in groups], dp_size, True)
    indices = [
        [group * group_size + place for group in rank for place in range(group_size)] for rank in ranks
    ]
    return [[item_list[index] for index in rank] for rank in indices], indices


def allocate_balanced_mbs_synced(
    mb_spec: Any, lens: ArrayLike, group: Any = None, *, cost: batchplan.CostModel | None = None
) -> list[list[int]]:
    """areal.utils.data.allocate_balanced_mbs_synced: ranks tell each other their lengths, and divide them
    by one plan, so that micro-batches that run at the same time are alike.

    Args:
        mb_spec: a MicroBatchSpec. Without a budget, or where all fits in it, the micro-batches of a rank
            are alike, as PPO's mini-batches should be, and where it can be had of equal number.
        lens: tokens of each of this rank's sequences, or runs of sequences. What has none counts as one.
        group: whose ranks have as many micro-batches, where torch.distributed is initialized; None: all
            ranks.
        cost: what is balanced; that of a model of 7B parameters unless given.

    Returns:
        micro-batches of positions in lens.

    Raises:
        ValueError: a sequence is longer than the budget, or there are fewer than micro-batches; of any
            rank.
    """

    def lengths() -> Lengths:
        at_least_one: Lengths = numpy.maximum(numpy.asarray(lens).astype(numpy.int64), 1)
        return at_least_one

    gather = gathering_in(group)
    own, everyone = (lengths(), [lengths()]) if gather is None else gather(lengths)
    divisor = mb_spec.n_mbs_divisor or 1
    least = -(-(mb_spec.n_mbs or 1) // divisor) * divisor
    model = cost or batchplan.DEFAULT_COST
    budget = mb_spec.max_tokens_per_mb
    if budget is None or budget >= max(int(rank.sum()) for rank in everyone):
        fewest = min(range(len(everyone)), key=lambda rank: len(everyone[rank]))
        if len(everyone[fewest]) < least:
            raise batchplan.InvalidRequest(
                f"n_mbs is {least}, with n_mbs_divisor {divisor}; rank {fewest} of the process group has "
                f"{len(everyone[fewest])} sequences, one a micro-batch at least"
            )
        return balanced_partitions(model.of_sequences(own), least, len(own) % least == 0)
    one = batchplan.Pass(budget, min_microbatches=least, microbatch_count_multiple=divisor)
    return own_part(own, everyone, one, {"cost": model})


def install(*, cost: batchplan.CostModel | None = None) -> None:
    """Puts both in the place of AReaL's, in this process and in those of the engines that its controllers
    make afterwards. Engines of a script that torchrun runs on every rank need no more than that. With
    enable_tree_training, which sequences share a tree is planned too, on all ranks at once.

    Args:
        cost: what is balanced; that of a model of 7B parameters unless given.

    Raises:
        ImportError: there is no AReaL.
        FailedPrecondition: by a controller of _version v2, if one is made.
    """
    controllers = importlib.import_module("areal.infra.controller.train_controller")

    def dispatching(stock: Any) -> Any:
        @functools.wraps(dispatch_tensors)
        def dispatch(item_list: Any, dp_size: int, group_size: int = 1) -> Any:
            budget, trees = _engines.get()
            if trees and not all(map(_areal_trees.has_tokens, item_list)):
                # A plan by shapes alone is sometimes worse for trees.
                return stock(item_list, dp_size, group_size=group_size)
            return dispatch_tensors(
                item_list, dp_size, group_size, max_tokens_per_mb=budget, trees=trees, cost=cost
            )

        return dispatch

    wrap(controllers, "_dispatch_tensors", dispatching)
    kind = controllers.TrainController

    def partitioning(partition: Any) -> Any:
        @functools.wraps(partition)
        def partition_inputs(self: Any, *args: Any, **kwargs: Any) -> Any:
            before = _engines.set((
                getattr(self.config.mb_spec, "max_tokens_per_mb", None) or 0,
                bool(getattr(self.config, "enable_tree_training", False)),
            ))
            try:
                return partition(self, *args, **kwargs)
            finally:
                _engines.reset(before)

        return partition_inputs

    def creating(create: Any) -> Any:
        @functools.wraps(create)
        async def create_engines(self: Any, engine: str) -> Any:
            from batchplan.integrations import _areal_engines

            return await create(self, _areal_engines.planned(engine, cost))

        return create_engines

    wrap(kind, "_partition_inputs", partitioning)
    wrap(kind, "_async_create_engines", creating)
    try:
        gateways = importlib.import_module("areal.experimental.training_service.controller.controller")
    except ImportError:
        pass  # a version without it
    else:
        gateways.GatewayTrainController.__init__ = _refuse_gateway
    install_in_worker(cost=cost)


def _refuse_gateway(self: Any, *_: Any, **__: Any) -> None:
    raise batchplan.FailedPrecondition(
        f'_version is "v2", whose {type(self).__name__} dispatches in processes that areal.install() does not '
        'reach; must be "v1", or leave install() out'
    )


def install_in_worker(*, cost: batchplan.CostModel | None = None) -> None:
    """The part of `install` that an engine's process needs, where no controller sees to it.

    Raises:
        ImportError: there is no AReaL.
    """

    @functools.wraps(allocate_balanced_mbs_synced)
    def allocate(*args: Any, **kwargs: Any) -> list[list[int]]:
        return allocate_balanced_mbs_synced(*args, cost=cost, **kwargs)

    replace(importlib.import_module("areal.utils.data"), "allocate_balanced_mbs_synced", allocate)
    _areal_trees.install(cost)


def _rows_of(item: dict[str, Any]) -> Lengths:
    """Tokens of each sequence of a trajectory, at least one."""
    import torch

    mask = item.get("attention_mask")
    if isinstance(mask, torch.Tensor):
        lengths = mask.reshape(-1, mask.shape[-1]).sum(-1).cpu().numpy()
    else:
        # Tensors on other machines have one of theirs that says no more than its shape.
        shapes = [_shape(one) for one in ([mask] if mask is not None else item.values())]
        sequences, width = next((shape[:2] for shape in shapes if len(shape) > 1), (1, 1))
        lengths = numpy.full(sequences, width)
    at_least_one: Lengths = numpy.maximum(lengths.astype(numpy.int64), 1)
    return at_least_one


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(getattr(value, "data", None), "shape", ()))


def _ranks_of_plan(
    groups: Sequence[Lengths], dp_size: int, budget: int, cost: batchplan.CostModel
) -> list[list[int]]:
    size = len(groups[0])
    lengths = numpy.concatenate(groups)
    # One that all fit in is none.
    budget = min(budget, int(lengths.sum()))
    options: batchplan.PlanOptions = {
        "dp": dp_size,
        "cost": cost,
        "passes": [batchplan.Pass(budget, equal_sequence_counts=True)],
    }
    if size > 1:
        options["group_ids"] = numpy.repeat(numpy.arange(len(groups)), size)
        options["groups"] = "same_rank"
    # What is too long for the engines is theirs to refuse.
    plan = batchplan.plan(numpy.minimum(lengths, budget), **options)
    return [
        sorted({int(index) // size for one in plan.rank(rank) for index in one.indices})
        for rank in range(dp_size)
    ]


def _cost_of(cost: batchplan.CostModel, lengths: Lengths) -> float:
    squares = float((lengths.astype(numpy.float64) ** 2).sum())
    linear = cost.per_token * int(lengths.sum()) + cost.per_sequence * len(lengths)
    return linear + cost.per_token_squared * squares
