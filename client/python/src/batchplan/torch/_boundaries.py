"""Whether a model of Hugging Face's transformers keeps the sequences of a packed row apart."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from batchplan._local import plan

# Of two sequences that are tried; longer than the convolutions of state-space models.
_LENGTHS = (6, 7)
# By model: how it computes attention, and whether it takes seq_idx.
_tried: weakref.WeakKeyDictionary[torch.nn.Module, tuple[str, bool]] = weakref.WeakKeyDictionary()


def needs_seq_idx(model: Any, device: torch.device) -> bool:
    """Whether the model keeps sequences apart by seq_idx, and not without.

    It is tried once, on two sequences. The output of one must have no gradient, not the smallest, at the
    embeddings of the other. Gradients of parameters are not touched.

    Raises:
        ValueError: it does not keep them apart; or it is no such model, or has no output of each token.
    """
    model = _innermost(model)
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "get_input_embeddings"):
        raise ValueError(f"model is a {type(model).__name__}; must be one of transformers")
    attention = str(getattr(model.config, "_attn_implementation", None))
    known = _tried.get(model)
    if known is None or known[0] != attention:
        known = _tried[model] = attention, _find(model, device, attention)
    return known[1]


def _innermost(model: Any) -> Any:
    """Of wrappers that do not divide its parameters."""
    while True:
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def _find(model: Any, device: torch.device, attention: str) -> bool:
    refusal: Exception | None = None
    for seq_idx in (False, True):
        try:
            if not _mixes(model, device, seq_idx):
                return seq_idx
        except (ValueError, NotImplementedError) as error:
            # As transformers', where kernels are missing.
            refusal = error
    name = type(model).__name__
    if refusal is not None:
        raise ValueError(f"{name} can't be given packed sequences: {refusal}") from refusal
    raise ValueError(
        f"{name} lets packed sequences see each other, with seq_idx as without (its attention is {attention}): "
        "give it each sequence by itself, or a padded batch; or, of a model without state, another "
        "attn_implementation"
    )


def _mixes(model: Any, device: torch.device, seq_idx: bool) -> bool:
    embedded: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        embedded.append(output if output.requires_grad else output.detach().requires_grad_())
        return embedded[-1]

    with _evaluated(model), torch.inference_mode(False), torch.enable_grad():
        packed = _two_sequences(model, device)
        more = {"seq_idx": packed.seq_idx()} if seq_idx else {}
        hook = model.get_input_embeddings().register_forward_hook(keep)
        try:
            output = model(**packed.transformers_arguments(), **more)[0]
        finally:
            hook.remove()
        if output.ndim != 3 or output.shape[1] != packed.row.width:
            raise ValueError(f"its output has shape {tuple(output.shape)}; must be [1, tokens, ...]")
        first = int(packed.row.microbatch.cu_seqlens[1])
        weights = torch.linspace(-1, 1, output.shape[-1], device=output.device)
        for own, other in (
            (slice(first, None), slice(None, first)),
            (slice(None, first), slice(first, None)),
        ):
            total = (output[0, own].float() * weights).sum()
            (gradient,) = torch.autograd.grad(total, embedded[0], retain_graph=True)
            if bool(gradient.reshape(output.shape[1], -1)[other].any()):
                return True
    return False


def _two_sequences(model: Any, device: torch.device) -> Any:
    from batchplan.torch._packed_batch import PackedBatch

    words = int(model.config.get_text_config().vocab_size)
    ids = [(torch.arange(length, device=device) * 7 + 5) % words for length in _LENGTHS]
    (microbatch,) = plan(_LENGTHS, max_tokens=sum(_LENGTHS)).rank(0)
    return PackedBatch(microbatch, {"input_ids": ids})


@contextlib.contextmanager
def _evaluated(model: torch.nn.Module) -> Iterator[None]:
    """Without dropout."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
