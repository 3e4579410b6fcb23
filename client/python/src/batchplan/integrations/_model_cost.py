"""What sequences cost by a model's shape, as Megatron and what is built on it name it."""

from __future__ import annotations

from typing import Any

import batchplan

# What stands for layers of which attention is another, or none.
_OTHER_SHAPES = (
    "multi_latent_attention", "experimental_attention_variant", "hybrid_layer_pattern",
    "hybrid_override_pattern", "window_size",
)  # fmt: skip


def cost_of(args: Any) -> batchplan.CostModel | None:
    """What a sample costs by the model's shape, in 10^9 floating-point operations of a forward pass.

    Args:
        args: as Megatron names the shape: num_layers, hidden_size, num_attention_heads,
            num_query_groups, kv_channels, ffn_hidden_size, padded_vocab_size or vocab_size, and of experts
            num_experts, moe_router_topk, moe_ffn_hidden_size, moe_layer_freq. Its arguments, or a
            TransformerConfig that has the vocabulary, as Megatron-Bridge's have.

    Returns:
        None where a name is missing, and for models whose layers are others: with multi-latent attention,
        with windows, hybrid ones.
    """
    names = (
        "num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels",
        "ffn_hidden_size",
    )  # fmt: skip
    if any(getattr(args, name, None) for name in _OTHER_SHAPES):
        return None
    vocabulary = getattr(args, "padded_vocab_size", None) or getattr(args, "vocab_size", None)
    if vocabulary is None or any(getattr(args, name, None) is None for name in names):
        return None
    layers, hidden, heads, groups, channels, ffn = (getattr(args, name) for name in names)
    if not getattr(args, "group_query_attention", True):
        groups = heads
    sparse = 0
    sparse_ffn = 0
    if (getattr(args, "num_experts", None) or getattr(args, "num_moe_experts", None)) is not None:
        every = getattr(args, "moe_layer_freq", 1)
        sparse = sum(every) if isinstance(every, list) else -(-layers // every)
        sparse_ffn = (getattr(args, "moe_ffn_hidden_size", None) or ffn) * args.moe_router_topk
        sparse_ffn += getattr(args, "moe_shared_expert_intermediate_size", None) or 0
    # Query, key and value, output: matrices; a gated MLP has three.
    projections = 2 * hidden * channels * (2 * heads + 2 * groups)
    matrices = 3 if getattr(args, "swiglu", getattr(args, "gated_linear_unit", True)) else 2
    mlps = 2 * matrices * hidden * ((layers - sparse) * ffn + sparse * sparse_ffn)
    per_token = (layers * projections + mlps + 2 * hidden * vocabulary) * 1e-9
    # Scores and values, of which a causal mask leaves half.
    per_token_squared = layers * 2 * heads * channels * 1e-9
    return batchplan.CostModel(per_token, per_token_squared)
