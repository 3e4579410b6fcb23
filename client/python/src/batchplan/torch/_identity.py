"""What a place in an epoch depends on, by name; JSON."""

from __future__ import annotations

import re
from typing import Any

from batchplan._checks import whole
from batchplan.torch._capacity import Capacity

# Of options that are not called as their fields in a request.
_NAMES = {
    "passes[0].max_tokens_per_microbatch": "max_tokens",
    "topology.data_parallel": "dp",
    "topology.context_parallel": "cp",
    "topology.tensor_parallel": "tp",
    "topology.pipeline_parallel": "pp",
    "topology.virtual_pipeline": "vpp",
    "topology.sequence_parallel": "sequence_parallel",
    "mini_batches.size": "mini_batch_size",
    "mini_batches.order": "order",
    "mini_batches.seed": "seed",
    "mini_batches.groups": "groups",
    "mini_batches.max_delay": "max_delay",
    "mini_batches.group_count": "mini_batch_groups",
    "mini_batches.last": "last_mini_batch",
    "manifest.pad_to": "pad_to",
}
_BUDGET = re.compile(r"max_tokens|passes\[\d+\]\.max_tokens_per_microbatch")
# What is known only as whether it is the same.
_DIGESTS = ("lengths", "group_ids", "prompt_lengths", "loads", "items", "kinds", "sources")


def flat(where: str, value: Any) -> dict[str, Any]:
    """The values in a message, by the options that they are of."""
    if isinstance(value, dict):
        entries = [(f"{where}.{name}" if where else name, one) for name, one in value.items()]
    elif isinstance(value, list):
        entries = [(f"{where}[{place}]", one) for place, one in enumerate(value)]
    else:
        return {_NAMES.get(where, where): value}
    return {name: one for place, entry in entries for name, one in flat(place, entry).items()}


def check_alike(identity: dict[str, Any], state: dict[str, Any]) -> None:
    """Whether a saved place is one of the same epochs, but for the capacity.

    Raises:
        ValueError: what it depends on differs.
    """
    for name, value in identity.items():
        if name not in ("planned_as", "mixture", "dp", "microbatches_per_step"):
            _check(name, value, state.get(name))
    for kind in ("mixture", "planned_as"):
        own, saved = (one.get(kind, {}) if kind == "mixture" else one.get(kind) for one in (identity, state))
        own, saved = own or {}, {} if saved is None and kind == "mixture" else saved
        if not isinstance(saved, dict):
            raise ValueError(f"{kind} is {saved!r}; must be what a state_dict has there")
        if kind == "mixture" and bool(own) != bool(saved):
            _check(kind, *("set" if one else "unset" for one in (own, saved)))
        for name in sorted(own.keys() | saved.keys()):
            is_capacity = name == "dp" or (_BUDGET.fullmatch(name) and name in own and name in saved)
            if kind == "mixture" or not is_capacity:
                _check(name, own.get(name, "unset"), saved.get(name, "unset"))


def _check(name: str, now: Any, then: Any) -> None:
    if now == then:
        return
    if name in _DIGESTS:
        raise ValueError(f"{name} are not those of when the state was saved")
    raise ValueError(f"{name} is {now}; it was {then} when the state was saved")


def capacity_of(state: dict[str, Any]) -> Capacity:
    """Of the sampler that saved a state, which is alike in all else.

    Raises:
        ValueError: it is none.
    """
    planned: dict[str, Any] = state["planned_as"]
    budgets = [planned.get("max_tokens")]
    while (name := f"passes[{len(budgets)}].max_tokens_per_microbatch") in planned:
        budgets.append(planned[name])
    return Capacity.saved(
        {"dp": state.get("dp"), "max_tokens": budgets, "microbatches_per_step": state.get("microbatches_per_step")}
    )


def parts_of(state: dict[str, Any], saved: Capacity) -> list[tuple[int, Capacity]]:
    """The capacities that divided the epoch of a saved place, each from a step on.

    Args:
        saved: of the sampler that saved it.

    Raises:
        ValueError: they are none.
    """
    given = state.get("divided_by")
    if given is None:
        return [(0, saved)]
    try:
        parts = [(whole("step", one["step"]), Capacity.saved(one)) for one in given]
        steps = [step for step, _ in parts]
        if not steps or steps[0] or steps != sorted(steps):
            raise KeyError
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"divided_by is {given!r}; must be what a state_dict has there") from None
    return parts
