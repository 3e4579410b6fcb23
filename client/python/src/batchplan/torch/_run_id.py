"""A name for a run, where the launcher gives none that is the same on all ranks."""

from __future__ import annotations

import secrets
from typing import Any

from torch import distributed


def run_id(group: Any = None) -> str:
    """A random name for this run of the job, for the run_id of its joins: made on the group's first
    rank, and the same on all. Every rank of it has to call this, once after each start.

        run = batchplan.torch.run_id()
        plan = client.join(lengths, job_id="grpo-7b", run_id=run, step=step, ...)

    Of use under torchrun above all, whose nodes count restarts differently.

    Args:
        group: of torch.distributed, initialised; None: all ranks.
    """
    made = [secrets.token_hex(16)]
    first = 0 if group is None else distributed.get_global_rank(group, 0)
    distributed.broadcast_object_list(made, src=first, group=group)
    return made[0]
