"""For miles, a fork of slime: build_dp_schedule of miles.utils.dp_schedule, as batchplan.integrations.slime has it.

    + import batchplan.integrations.miles
    + batchplan.integrations.miles.install()

in train.py, before the rollout manager is made. With --use-dynamic-batch-size; the rest stays as it is, also
--allow-partial-train-step. Samples with images or of several LoRA adapters, and rollouts that make no whole step,
miles divides where it trains, by its own rule: a warning says so. With --ft-components train it always does, which is
refused.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

import batchplan
from batchplan.integrations._replace import replace, wrap
from batchplan.integrations._slots import options_of
from batchplan.integrations.slime import build_dp_schedule

__all__ = ["install"]

_log = logging.getLogger("batchplan")
_MANAGER = "miles.ray.rollout.rollout_manager"
_CONVERSION = "miles.ray.rollout.train_data_conversion"
_SPLIT = "split_train_data_by_dp"


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Makes miles' rollout manager plan by slime.build_dp_schedule. The manager is a Ray actor: it is to be made
    afterwards, and batchplan to be there where it runs.

    Args:
        cost, synchronization, effort: build_dp_schedule's.

    Raises:
        ImportError: miles is not there.
        FailedPrecondition: its version divides samples elsewhere.
        ValueError: an option is none that there is; when the manager is made, --ft-components train.
    """
    options_of(cost, synchronization, effort)
    manager = importlib.import_module(_MANAGER)
    if not hasattr(manager, _SPLIT):
        raise batchplan.FailedPrecondition(f"{_MANAGER} has no {_SPLIT}; miles of August 2026 has")
    planned = functools.partial(
        build_dp_schedule, cost=cost, synchronization=synchronization, effort=effort
    )
    # Ray sends the actor what its class uses of this module, and not what that uses of others.
    setattr(manager, _SPLIT, functools.partial(_split, planned))
    groups: Any = importlib.import_module("miles.ray.placement_group")
    wrap(groups, "create_rollout_manager", _checked)


def _checked(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def create_rollout_manager(args: Any, *more: Any, **named: Any) -> Any:
        if getattr(args, "delay_split_train_data_by_dp", False):
            raise batchplan.InvalidRequest(
                "delay_split_train_data_by_dp is True, as with --ft-components train: miles then divides samples "
                "where it trains, by its own rule; leave that out, or batchplan.integrations.miles.install()"
            )
        return create(args, *more, **named)

    return create_rollout_manager


def _split(planned: Callable[..., Any], args: Any, data: Any, train_parallel_config: Any) -> Any:
    """split_train_data_by_dp, in the process of the manager."""
    replace(importlib.import_module("miles.utils.dp_schedule"), "build_dp_schedule", planned)
    conversion: Any = importlib.import_module(_CONVERSION)
    if not conversion.can_schedule_on_rollout_side(args, data, train_parallel_config):
        _log.warning(
            "batchplan: miles divides these samples where it trains, by its own rule: they have images or several "
            "LoRA adapters, or they make no whole training step"
        )
    return getattr(conversion, _SPLIT)(args, data, train_parallel_config)
