"""A planned micro-batch, and what it needs while TRL computes its loss."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from typing import Any

import torch

from batchplan.integrations._grpo._weights import has_token_ratios

# Metrics that are means over tokens, and those that are over what importance ratios are of.
_OF_TOKENS = ("kl", "entropy")
_OF_RATIOS = ("clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "cispo_clip_ratio",
              "vespo/phi_seq_mean")  # fmt: skip


class PlannedBatch(dict[str, Any]):
    """A micro-batch as TRL's loss takes it.

    Attributes:
        scale: what its loss is multiplied by, so that each sequence has its weight.
        share: its part of one of TRL's micro-batches, which may become several.
        most_rows: rows of the micro-batch at this time, of the rank that has most.
        token_weight, row_weight: tokens of completions, and rows, of all ranks at this time, over the mean of the
            optimizer step's micro-batches.
    """

    scale: float = 1.0
    share: float = 1.0
    most_rows: int = 0
    token_weight: float = 1.0
    row_weight: float = 1.0


@contextlib.contextmanager
def amid_a_step(accelerator: Any, model: Any) -> Iterator[None]:
    """Gradients stay on this rank, as for any but the last micro-batch of an optimizer step."""
    state = accelerator.gradient_state
    synchronizes = state.sync_gradients
    # DeepSpeed is told by the state alone, and what does not synchronize is in Trainer's own no_sync.
    is_told = str(accelerator.distributed_type.value) == "DEEPSPEED" or not synchronizes
    state._set_sync_gradients(False)
    try:
        with contextlib.nullcontext() if is_told else accelerator.no_sync(model):
            yield
    finally:
        state._set_sync_gradients(synchronizes)


@contextlib.contextmanager
def of_different_rows(trainer: Any, batch: PlannedBatch) -> Iterator[None]:
    """While TRL computes a loss. Its metrics gather one value a row from all ranks, which must have as many: NaNs,
    which it leaves out, fill up. Those that are means over tokens or rows weigh by the micro-batch's: by the tokens of
    its completions, also where some of these are masked. What routers of experts add stays the mean over TRL's
    micro-batches."""
    accelerator, metrics = trainer.accelerator, trainer._metrics["train"]
    gather, coefficient = accelerator.gather, getattr(trainer, "router_aux_loss_coef", None)
    before = {name: len(values) for name, values in metrics.items()}

    @functools.wraps(gather)
    def gather_filled(values: torch.Tensor) -> Any:
        if values.ndim and values.is_floating_point():
            missing = values.new_full((batch.most_rows - len(values), *values.shape[1:]), math.nan)
            values = torch.cat([values, missing])
        return gather(values)

    accelerator.gather = gather_filled
    if coefficient:
        trainer.router_aux_loss_coef = coefficient * batch.share / batch.scale
    try:
        yield
    finally:
        del accelerator.gather
        if coefficient:
            trainer.router_aux_loss_coef = coefficient
    ratio_weight = batch.token_weight if has_token_ratios(trainer) else batch.row_weight
    weights = {**dict.fromkeys(_OF_TOKENS, batch.token_weight), **dict.fromkeys(_OF_RATIOS, ratio_weight)}
    for name, weight in weights.items():
        if len(metrics.get(name, ())) > before.get(name, 0):
            metrics[name][-1] *= weight
