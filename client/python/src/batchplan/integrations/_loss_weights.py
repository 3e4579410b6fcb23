"""Whether a transformers Trainer's loss weights planned micro-batches rightly.

They have different numbers of sequences and tokens. Each loss must therefore be a sum over its items, divided by
the items of the whole batch, which Trainer passes as num_items_in_batch. Means of micro-batches would count alike,
whatever is in them.
"""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from typing import Any

# Which divide by num_items_in_batch where they are given it.
_DIVIDING_LOSSES = ("ForCausalLMLoss", "ForMaskedLMLoss")
_COUNTED_ALIKE = (
    "the mean of a micro-batch, and planned ones have different numbers of sequences, whose means would count "
    "alike"
)
_COMPUTE_LOSS_FUNC = "give the trainer a compute_loss_func that divides by num_items_in_batch"
_EQUAL_COUNTS = (
    "have as many sequences in each by plan_batches(..., equal_counts=True), which is right for a mean over "
    "sequences"
)


def check_weights(trainer: Any) -> bool:
    """Whether only trying can tell that the loss is divided by num_items_in_batch.

    Raises:
        ValueError: it is known not to be.
    """
    kind, model = type(trainer), _without_adapters(trainer.model)
    declared = getattr(trainer, "loss_is_scaled_for_ga", None)
    if declared is not None:
        if declared:
            return False
        raise ValueError(
            f"loss_is_scaled_for_ga of {kind.__name__} is False: its loss is {_COUNTED_ALIKE}, with whatever "
            f"compute_loss_func: {_EQUAL_COUNTS}"
        )
    name = type(model).__name__
    loss_of_model = f"the loss of {name} is {_COUNTED_ALIKE}: {_COMPUTE_LOSS_FUNC}, or {_EQUAL_COUNTS}"
    has_function = trainer.compute_loss_func is not None
    if not trainer.model_accepts_loss_kwargs and not has_function:
        raise ValueError(loss_of_model)
    owner = next(base for base in kind.__mro__ if "compute_loss" in vars(base))
    if owner.__module__.partition(".")[0] not in ("transformers", "trl"):
        if not _uses_number_of_items(vars(owner)["compute_loss"]):
            raise ValueError(
                f"{owner.__name__}.compute_loss does not use num_items_in_batch: its loss is {_COUNTED_ALIKE}: "
                f"divide a sum by num_items_in_batch there, or {_EQUAL_COUNTS}"
            )
        return True
    if has_function:
        return True
    if trainer.label_smoother is not None:
        if "num_items_in_batch" in inspect.signature(trainer.label_smoother).parameters:
            return False
        raise ValueError(
            f"label_smoothing_factor is {trainer.args.label_smoothing_factor}: its loss is {_COUNTED_ALIKE}, "
            f"in transformers before 5.15: set it to 0, or {_COMPUTE_LOSS_FUNC}"
        )
    # TRL's divides by itself.
    if not owner.__module__.startswith("transformers."):
        return False
    divides = _divides(model)
    if divides is False:
        raise ValueError(loss_of_model)
    return divides is None


def weigh_losses(trainer: Any, equal_counts: bool) -> None:
    """Called when a training begins. Tries the weights if nothing else can tell. With equal counts, has Trainer
    take the mean of losses that it would add up, because it believes them divided already."""
    try:
        is_unknown = check_weights(trainer)
    except ValueError:
        if not equal_counts:
            raise
        trainer.model_accepts_loss_kwargs = False
    else:
        if is_unknown and not equal_counts:
            _try_weights(trainer)


def _try_weights(trainer: Any) -> None:
    """Has the first micro-batch of the training tried with twice its num_items_in_batch, without gradients. If
    that does not halve the loss, the training raises ValueError."""
    import torch

    original = trainer.compute_loss
    if hasattr(original, "tries"):
        return

    def compute_loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return original(model, inputs, *args, **kwargs)
        del trainer.compute_loss
        items = kwargs.get("num_items_in_batch")
        if items is None:
            raise ValueError(
                "num_items_in_batch is None, as it is where a micro-batch has no labels: its loss would be "
                f"{_COUNTED_ALIKE}. Have the collator make labels"
            )
        losses = []
        devices = [torch.cuda.current_device()] if trainer.args.device.type == "cuda" else []
        with torch.no_grad(), torch.random.fork_rng(devices):
            for number in (items, 2 * items):
                torch.manual_seed(0)
                others = {**kwargs, "num_items_in_batch": number}
                loss = original(model, dict(inputs), *args, **others)
                losses.append(float(loss[0] if isinstance(loss, tuple) else loss))
        # What routers of experts add is a mean, with or without a plan.
        config = getattr(_without_adapters(trainer.model), "config", None)
        allowed = 1.99 if getattr(config, "output_router_logits", False) else 0.02
        if abs(losses[0] - 2 * losses[1]) > allowed * abs(losses[0] - losses[1]):
            raise ValueError(
                f"the loss of {type(trainer).__name__} is {losses[0]:.6g} of a micro-batch and {losses[1]:.6g} "
                "with twice its num_items_in_batch, which must halve it: divide a sum by num_items_in_batch, in "
                f"compute_loss or a compute_loss_func, or {_EQUAL_COUNTS}"
            )
        return original(model, inputs, *args, **kwargs)

    compute_loss.tries = True  # type: ignore[attr-defined]
    trainer.compute_loss = compute_loss


def _without_adapters(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _uses_number_of_items(method: Any) -> bool:
    """Whether a compute_loss reads num_items_in_batch, or *args or **kwargs, which may hold it. True if its code
    can't be seen."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    if code is None:
        return True
    names = {"num_items_in_batch"}
    # The names of *args and **kwargs come after the others.
    others = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    kinds = (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    names.update(others[: sum(bool(code.co_flags & kind) for kind in kinds)])
    loads = (one.argval for one in dis.get_instructions(code) if one.opname.startswith("LOAD"))
    # Some instructions of Python 3.13 load two.
    read = (one for value in loads for one in (value if isinstance(value, tuple) else (value,)))
    return any(isinstance(one, str) and one in names for one in read)


def _divides(model: Any) -> bool | None:
    """Whether a model's forward passes num_items_in_batch to a loss that divides by it. None if the source of
    forward does not say."""
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(model.forward)))
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    except (OSError, TypeError, SyntaxError):
        return None
    names = [getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls]
    losses = [call for call, name in zip(calls, names) if name == "loss_function"]
    if any(word.arg in (None, "num_items_in_batch") for call in losses for word in call.keywords):
        function = getattr(model, "loss_function", None)
        return True if getattr(function, "__name__", "") in _DIVIDING_LOSSES else None
    if "num_items_in_batch" in source:
        return None
    return False if losses or any(name.endswith(("Loss", "cross_entropy")) for name in names) else None
