"""What one of TRL's trainers does that planned batches would not keep."""

from __future__ import annotations

from typing import Any

from batchplan.integrations._grpo._weights import LOSS_TYPES, loss_type
from batchplan.integrations.transformers import check_ranks
from batchplan.torch._boundaries import needs_seq_idx

# By the method that a plan stands in place of, or relies on, the classes whose it may be.
_OF_TRL = ("GRPOTrainer", "RLOOTrainer")
_METHODS = {
    "_prepare_inputs": _OF_TRL,
    "training_step": _OF_TRL,
    "compute_loss": _OF_TRL,
    "_compute_loss": (*_OF_TRL, "GMPOTrainer"),
    "_get_per_token_logps_and_entropies": _OF_TRL,
}
_IMAGES = ("image", "images")


def generates(kind: type) -> bool:
    """Whether a trainer's class is TRL's GRPOTrainer or RLOOTrainer, or builds on one."""
    return any(
        base.__name__ in _OF_TRL and base.__module__.startswith("trl.trainer.") for base in kind.__mro__
    )


def check(trainer: Any) -> None:
    """Raises ValueError where planned batches would not be what the trainer is asked for."""
    name = type(trainer).__name__
    for method, known in _METHODS.items():
        owner = next((base for base in type(trainer).__mro__ if method in vars(base)), None)
        if owner is None:
            raise ValueError(f"{name} has no {method}: this TRL is not known; must be 1.16 or later")
        if owner.__name__ not in known or not owner.__module__.startswith("trl."):
            raise ValueError(
                f"{owner.__name__}.{method} is the trainer's own, and a plan, which stands between generation and "
                f"loss, is made for that of TRL's {' and '.join(_OF_TRL)}: such trainers can't be planned"
            )
    kind = loss_type(trainer)
    if kind is not None and kind not in LOSS_TYPES:
        raise ValueError(f'loss_type is "{kind}"; must be one of {", ".join(LOSS_TYPES)}')
    quantile = getattr(trainer, "top_entropy_quantile", 1.0)
    if quantile < 1:
        raise ValueError(
            f"top_entropy_quantile is {quantile}; must be 1.0: which tokens are above it depends on which sequences "
            "share a micro-batch"
        )
    if getattr(trainer, "_entropy_bonus_enabled", False):
        raise ValueError(
            "entropy_coef or use_adaptive_entropy is set, whose entropy is the mean of a micro-batch's tokens, and "
            "planned ones have different numbers: leave it out, or plan_batches"
        )
    columns = getattr(trainer.train_dataset, "column_names", None) or ()
    for column in _IMAGES:
        if column in columns:
            raise ValueError(f"train_dataset has {column}; only sequences of tokens can be planned")
    check_ranks(trainer)


def check_model(trainer: Any, padded: bool | None) -> tuple[bool, bool]:
    """Whether rows are padded, and whether packed ones need seq_idx.

    Raises:
        ValueError: padded is False, and the model does not keep packed sequences apart.
    """
    model = trainer.model
    attention = str(getattr(model.config, "_attn_implementation", None))
    # Others compute attention over the whole row, and mask it.
    is_cheap = "flash" in attention or "flex" in attention
    if padded or padded is None and not is_cheap:
        return True, False
    if not (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
        try:
            return False, needs_seq_idx(model, next(model.parameters()).device)
        except ValueError:
            if padded is None:
                return True, False
            raise
        except Exception:
            pass  # It does not run where it is yet.
    # What can't be tried keeps sequences apart by its attention alone.
    is_stateful = bool(getattr(model, "_is_stateful", False))
    if is_stateful and padded is False:
        raise ValueError(
            f"padded is False, and {type(model).__name__} has a state, which is not tried before its parameters are "
            "divided among ranks: leave padded out"
        )
    return is_stateful, False
