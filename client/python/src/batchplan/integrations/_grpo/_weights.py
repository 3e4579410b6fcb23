"""The weight of a sequence in the losses of TRL's trainers, whichever micro-batch it is in.

TRL's micro-batches have equal numbers of sequences, and most of its losses are means over them; those that are sums
are divided by the tokens of the whole generation batch. Planned micro-batches differ in numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# By loss_type, of what the loss of a micro-batch is the mean.
_MEANS = {
    "grpo": "sequences",
    "sapo": "sequences",
    "dr_grpo": "sequences",
    "luspo": "sequences",
    "bnpo": "tokens",
    "dapo": None,
    "cispo": None,
    "vespo": None,
}
# TRL divides by sums of masks that it takes to be at least 1: weights are so large that they are.
_SCALE = 2.0**24
LOSS_TYPES = tuple(_MEANS)


def loss_type(trainer: Any) -> str | None:
    """The loss type of a GRPOTrainer; None: the loss is a mean over sequences, whatever the options say."""
    owner = next(kind for kind in type(trainer).__mro__ if "_compute_loss" in vars(kind))
    return str(trainer.loss_type) if owner.__name__ == "GRPOTrainer" else None


def with_weights(trainer: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """A micro-batch of TRL, in which each token knows its weight where that depends on the micro-batch.

    In the mean over its tokens that is one over their number. It takes the place of tool_mask, by which the loss
    multiplies tokens, and sums of tokens."""
    if _MEANS.get(loss_type(trainer) or "") != "tokens":
        return dict(batch)
    mask = batch["completion_mask"].float()
    if batch.get("tool_mask") is not None:
        mask = mask * batch["tool_mask"]
    return {**batch, "tool_mask": mask * (_SCALE / mask.sum().clamp(min=1))}


def scale_of(trainer: Any, batch: Mapping[str, Any], each: int) -> float:
    """The factor for the loss of a planned micro-batch.

    Args:
        each: sequences in a micro-batch of TRL.
    """
    kind = loss_type(trainer)
    mean = "sequences" if kind is None else _MEANS[kind]
    if mean == "tokens":
        # TRL takes no fewer than 1.
        return float((batch["completion_mask"] * batch["tool_mask"]).sum().clamp(min=1)) / _SCALE
    return len(batch["prompt_ids"]) / each if mean == "sequences" else 1.0


def has_token_ratios(trainer: Any) -> bool:
    """Whether each token has an importance ratio; otherwise each sequence has one."""
    kind = loss_type(trainer)
    return kind not in (None, "vespo") and trainer.importance_sampling_level == "token"
