"""For Unsloth: the token-balanced batches of its SFTTrainer, planned for all ranks.

      from unsloth import FastLanguageModel
    + import batchplan.integrations.unsloth
    + batchplan.integrations.unsloth.install()

before the trainer is made, with padding_free=True or what else Unsloth balances; it prints where it does not.
It stands in the place of UNSLOTH_TOKEN_BALANCE=1, by which Unsloth gives ranks equal numbers of tokens, and
then each rank's micro-batches equal numbers. Planned, the micro-batches that ranks run at the same time are alike in
cost, and none has over a tenth more tokens than the largest of Unsloth's. An optimizer step has its rows,
each micro-batch per_device_train_batch_size of them, so that one with a long row may be above
UNSLOTH_TOKEN_BUDGET, as it is by Unsloth itself. One process, and ranks that keep their rows since
average_tokens_across_devices is False, have Unsloth's own order.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

import batchplan
from batchplan._checks import number
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import options_of, slots_of_count

__all__ = ["balance_step_indices", "install"]

_SWITCH = "UNSLOTH_TOKEN_BALANCE"
Rows = list[int]


def balance_step_indices(
    indices: Sequence[int],
    lengths: Sequence[int],
    batch_size: int,
    grad_accum: int,
    world_size: int = 1,
    cross_rank: bool = True,
    *,
    stock: Callable[..., Rows],
    slack: float = 0.1,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> Rows:
    """unsloth.utils.token_budget.balance_step_indices: the rows of an optimizer step, in the order in which
    accelerate deals batches of batch_size to the ranks in turn.

    Args:
        indices: rows of the dataset, world_size * grad_accum * batch_size of them.
        lengths: tokens of each row of the dataset.
        batch_size: rows of a micro-batch on one rank.
        grad_accum: micro-batches of a rank.
        world_size: data-parallel ranks.
        cross_rank: rows may go to other ranks; otherwise the order is Unsloth's.
        stock: Unsloth's function, whose order is kept where no plan is faster.
        slack: how many more tokens a micro-batch may have than the largest of Unsloth's in the step, as a part of
            these. With 0 some steps can't be planned, and keep Unsloth's order.
        cost: what is balanced; that of a model of 7B parameters unless given.
        synchronization: "lockstep", the default, which is good where ranks wait at the end of a step alone too,
            or "accumulated".
        effort: "fast", "default" or "thorough".

    Returns:
        `indices` in another order, of micro-batches that every rank makes alike.

    Raises:
        ValueError: Unsloth's, where the numbers do not match.
    """
    order = stock(indices, lengths, batch_size, grad_accum, world_size, cross_rank)
    if world_size == 1 or not cross_rank:
        return order
    tokens = numpy.array([max(int(lengths[index]), 1) for index in indices])
    dealt = numpy.array([max(int(lengths[index]), 1) for index in order])
    shape = (grad_accum, world_size, batch_size)
    options: batchplan.PlanOptions = {**options_of(cost, synchronization, effort), "dp": world_size}
    largest = int(dealt.reshape(shape).sum(-1).max())
    for part in sorted({0.0, slack / 2, slack}):
        one = batchplan.Pass(int(largest * (1 + part)), max_sequences=batch_size)
        slots = slots_of_count(tokens, grad_accum, one, options)
        if slots is not None:
            break
    else:
        return order
    planned = numpy.array(slots).reshape(-1)

    def time(rows: NDArray[numpy.int64]) -> float:
        costs = (cost or batchplan.DEFAULT_COST).of_sequences(rows.reshape(shape)).sum(-1)
        waits = costs.sum(0).max() if synchronization == "accumulated" else costs.max(-1).sum()
        return float(waits)

    if time(tokens[planned]) > time(dealt):
        return order
    return [indices[place] for place in planned]


def install(
    *,
    slack: float = 0.1,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Puts it in the place of Unsloth's, and sets UNSLOTH_TOKEN_BALANCE=1, for trainers made afterwards.

    Args:
        slack, cost, synchronization, effort: those of balance_step_indices.

    Raises:
        ImportError: Unsloth is not there, or older than its token balance: 2026.10 has it.
        ValueError: UNSLOTH_TOKEN_BALANCE is set, and not to 1; slack is below 0; or a cost, synchronization or
            effort is none that there is.
    """
    options_of(cost, synchronization, effort)
    if not number("slack", slack) >= 0:
        raise batchplan.InvalidRequest(f"slack is {slack}; must be at least 0")
    switch = os.environ.get(_SWITCH, "1")
    if switch.lower() not in ("1", "true", "yes", "on"):
        raise batchplan.InvalidRequest(f'{_SWITCH} is "{switch}"; must be 1, or leave install() out')
    module: Any = importlib.import_module("unsloth.utils.token_budget")
    planned = functools.partial(
        balance_step_indices, slack=slack, cost=cost, synchronization=synchronization, effort=effort
    )
    wrap(module, "balance_step_indices", lambda stock: functools.partial(planned, stock=stock))
    os.environ[_SWITCH] = "1"
