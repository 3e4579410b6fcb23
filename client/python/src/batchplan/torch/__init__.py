"""Micro-batches of a plan as PyTorch tensors: packed in one launch, and back, with their gradients.

    from batchplan.torch import PackedBatch, PackedLoss

    for microbatch in plan.rank(rank):
        packed = PackedBatch(microbatch, {"input_ids": input_ids, "mask": mask})
        logits = model(packed["input_ids"], packed.position_ids, **packed.flash_attention())
        PackedLoss(loss)(packed, logits, global_tokens=plan.metrics.true_tokens).backward()

Tensors in host memory and on CUDA devices, of any dtype, are read and written where they are, by the
kernels that come with the package; on CUDA the work is enqueued on the current stream. Where the kernels
can't run, and on other devices, torch's own operations do the same: `backend()` says which, and why.
"""

from batchplan.torch._backend import Backend, backend
from batchplan.torch._batch_sampler import BatchSampler
from batchplan.torch._batch_size_schedule import BatchSizeSchedule
from batchplan.torch._calibrate import Calibration, calibrate
from batchplan.torch._dummy_batch import DummyBatchCollator
from batchplan.torch._mixture import Mixture
from batchplan.torch._moves import pack, unpack
from batchplan.torch._packed_batch import PackedBatch
from batchplan.torch._packed_loss import PackedLoss
from batchplan.torch._row import PackedRow
from batchplan.torch._run_id import run_id
from batchplan.torch._sums import sums
from batchplan.torch._verdict import check

__all__ = [
    "Backend",
    "BatchSampler",
    "BatchSizeSchedule",
    "Calibration",
    "DummyBatchCollator",
    "Mixture",
    "PackedBatch",
    "PackedLoss",
    "PackedRow",
    "backend",
    "calibrate",
    "check",
    "pack",
    "run_id",
    "sums",
    "unpack",
]
