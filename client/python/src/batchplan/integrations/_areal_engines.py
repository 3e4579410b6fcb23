"""AReaL's engine classes by names that have batchplan installed in the process that looks them up.

A controller sends its workers the dotted name of an engine's class. `planned` makes it one of this module.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import batchplan


def planned(engine: str, cost: batchplan.CostModel | None) -> str:
    """The name for the workers. It has the costs, and has no dot of its own in its last part."""
    told = json.dumps([engine, None if cost is None else vars(cost)], default=float)
    return f"{__name__}.{told.encode().hex()}"


def __getattr__(name: str) -> Any:
    try:
        engine, cost = json.loads(bytes.fromhex(name))
    except ValueError:
        raise AttributeError(name) from None
    from batchplan.integrations import areal

    areal.install_in_worker(cost=None if cost is None else batchplan.CostModel(**cost))
    module, _, kind = engine.rpartition(".")
    return getattr(importlib.import_module(module), kind)
