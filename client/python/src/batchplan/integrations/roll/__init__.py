"""For ROLL: ranks, mini-batches and micro-batches planned at once, and its functions one by one.

In the program that starts the pipeline, before it makes that, a line does all that `install` says:

    + batchplan.integrations.roll.install()
      pipeline = RLVRPipeline(pipeline_config=config)

Or the functions of roll.utils, with ROLL's signatures, over DataProto: `batch_balance`,
`dynamic_batching_shard` and `make_micro_batch_iter_for_sequence_packing`. Below them, over lengths:
`plan_dynamic_batching` and `load_balance`.
"""

from __future__ import annotations

from batchplan.integrations._agreement import by_all_reduce
from batchplan.integrations.roll._balance import batch_balance
from batchplan.integrations.roll._dynamic_batching import (
    DynamicBatching,
    dynamic_batching_shard,
    plan_dynamic_batching,
)
from batchplan.integrations.roll._install import install, install_in_worker
from batchplan.integrations.roll._packing import (
    Packing,
    load_balance,
    make_micro_batch_iter_for_sequence_packing,
    pad_factor,
)

__all__ = [
    "DynamicBatching",
    "Packing",
    "batch_balance",
    "by_all_reduce",
    "dynamic_batching_shard",
    "install",
    "install_in_worker",
    "load_balance",
    "make_micro_batch_iter_for_sequence_packing",
    "pad_factor",
    "plan_dynamic_batching",
]
