"""Whether a model of Hugging Face's transformers keeps the sequences of a packed row apart."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

from batchplan._local import plan
from batchplan._micro_batch import MicroBatch

# Of two sequences that are tried; longer than the convolutions of state-space models.
_LENGTHS = (6, 7)
# By model: how it computes attention, and whether it takes seq_idx.
_tried: weakref.WeakKeyDictionary[torch.nn.Module, tuple[str, bool]] = weakref.WeakKeyDictionary()
# Those that keep branches of shared prefixes apart, by how they compute attention.
_branching: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
# What takes a mask of any form.
_MASKED = ("flex_attention", "sdpa", "eager")


def needs_seq_idx(model: Any, device: torch.device) -> bool:
    """Whether the model keeps sequences apart by seq_idx, and not without.

    It is tried once, on two sequences. The output of one must have no gradient, not the smallest, at the
    embeddings of the other. Gradients of parameters are not touched.

    Raises:
        ValueError: it does not keep them apart; or it is no such model, or has no output of each token.
    """
    model, attention = _model_and_attention(model)
    known = _tried.get(model)
    if known is None or known[0] != attention:
        known = _tried[model] = attention, _find(model, device, attention)
    return known[1]


def mask_for(model: Any, packed: Any) -> Any:
    """The attention_mask of a row that shares prefixes, for the model's attention. The model is tried once, on two
    sequences that share some tokens.

    Raises:
        ValueError: its attention takes no such mask; it lets branches see each other, as one with a state does that
            goes from token to token; or it is no such model.
    """
    model, attention = _model_and_attention(model)
    if attention not in _MASKED:
        raise ValueError(
            f"attn_implementation is {attention}; must be {', '.join(_MASKED)} where prefixes are shared"
        )
    if _branching.get(model) != attention:
        def arguments() -> dict[str, Any]:
            tree = _two_branches(model, packed.row.device)
            return {**tree.row_arguments(), "attention_mask": _mask(model, attention, tree)}

        if _mixes(model, arguments, (slice(3, 6), slice(6, None))):
            raise ValueError(
                f"{type(model).__name__} lets sequences that share a prefix see each other: a state that goes from "
                "token to token can't go on from the prefix; give the pass ignore_shared_prefixes"
            )
        _branching[model] = attention
    return _mask(model, attention, packed)


def _mask(model: Any, attention: str, packed: Any) -> Any:
    if attention == "flex_attention":
        return packed.block_mask()
    place = torch.arange(packed.row.width, device=packed.row.device)
    seen = (place <= place[:, None]) & (place[:, None] < packed.subtree_end)
    mask = torch.zeros(1, 1, *seen.shape, dtype=model.dtype, device=packed.row.device)
    return mask.masked_fill_(~seen, torch.finfo(model.dtype).min)


def _model_and_attention(model: Any) -> tuple[Any, str]:
    """Without wrappers, and how it computes attention."""
    model = _innermost(model)
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "get_input_embeddings"):
        raise ValueError(f"model is a {type(model).__name__}; must be one of transformers")
    return model, str(getattr(model.config, "_attn_implementation", None))


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
            arguments = functools.partial(_two_sequences, model, device, seq_idx)
            if not _mixes(model, arguments, (slice(None, _LENGTHS[0]), slice(_LENGTHS[0], None))):
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


def _mixes(
    model: Any, make_arguments: Callable[[], dict[str, Any]], parts: tuple[slice, slice]
) -> bool:
    """Whether the outputs of one part of the row have gradients at the embeddings of the other."""
    embedded: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        embedded.append(output if output.requires_grad else output.detach().requires_grad_())
        return embedded[-1]

    with _evaluated(model), torch.inference_mode(False), torch.enable_grad():
        arguments = make_arguments()
        hook = model.get_input_embeddings().register_forward_hook(keep)
        try:
            output = model(**arguments)[0]
        finally:
            hook.remove()
        if output.ndim != 3 or output.shape[1] != arguments["input_ids"].shape[1]:
            raise ValueError(f"its output has shape {tuple(output.shape)}; must be [1, tokens, ...]")
        weights = torch.linspace(-1, 1, output.shape[-1], device=output.device)
        for own, other in (parts, parts[::-1]):
            total = (output[0, own].float() * weights).sum()
            (gradient,) = torch.autograd.grad(total, embedded[0], retain_graph=True)
            if bool(gradient.reshape(output.shape[1], -1)[other].any()):
                return True
    return False


def _two_sequences(model: Any, device: torch.device, seq_idx: bool) -> dict[str, Any]:
    from batchplan.torch._packed_batch import PackedBatch

    words = int(model.config.get_text_config().vocab_size)
    ids = [(torch.arange(length, device=device) * 7 + 5) % words for length in _LENGTHS]
    (microbatch,) = plan(_LENGTHS, max_tokens=sum(_LENGTHS)).rank(0)
    packed = PackedBatch(microbatch, {"input_ids": ids})
    return {**packed.transformers_arguments(), **({"seq_idx": packed.seq_idx()} if seq_idx else {})}


def _two_branches(model: Any, device: torch.device) -> Any:
    """Of six and seven tokens, of which they share three."""
    from batchplan.torch._packed_batch import PackedBatch

    words = int(model.config.get_text_config().vocab_size)
    places, lengths, shared = (numpy.array(pair, numpy.uint32) for pair in ((0, 1), _LENGTHS, (0, 3)))
    microbatch = MicroBatch(0, 0, 0, places, lengths, 10, 1, shared_tokens=shared)
    ids = (torch.arange(7, device=device) * 7 + 5) % words
    return PackedBatch(microbatch, {"input_ids": ids.repeat(2, 1)})


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
