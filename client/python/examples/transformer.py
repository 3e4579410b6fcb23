"""A decoder as they are trained today (rotary positions, RMSNorm, SwiGLU), over packed rows: attention
stays within each sequence, and its cost is that of the sequences, not of the row."""

from __future__ import annotations

import dataclasses
import functools
import inspect

import torch
from torch import nn
from torch.nn import functional

try:
    # PyTorch's own flash attention over packed rows, in those that have it.
    from torch.nn.attention.varlen import varlen_attn
except ImportError:
    varlen_attn = None
else:
    # Its first version has a name for it, later ones a window: all that came before, nothing after.
    has_name = "is_causal" in inspect.signature(varlen_attn).parameters
    varlen_attn = functools.partial(varlen_attn, **({"is_causal": True} if has_name else {"window_size": (-1, 0)}))

try:
    from torch.nn.attention.flex_attention import flex_attention
except ImportError:
    flex_attention = None


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    vocabulary: int


# About 1.0 B parameters; what a CPU trains in no time, and in minutes.
ONE_BILLION = Shape(layers=16, width=2048, heads=16, vocabulary=32_000)
TINY = Shape(layers=2, width=64, heads=4, vocabulary=256)
SMALL = Shape(layers=4, width=256, heads=4, vocabulary=1024)


class Transformer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape.width, shape.heads) for _ in range(shape.layers))
        self.norm = RmsNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, input_ids, position_ids, *, cu_seqlens_q=None, max_seqlen_q=0, attend=None, **_):
        """Logits [tokens, vocabulary] of a packed row [tokens]. The rest is as PackedBatch.flash_attention()
        gives it, or attend(query, key, value), of [tokens, heads, head_width] each, is what mixes tokens."""
        if attend is None:
            attend = functools.partial(attention, cu_seqlens=cu_seqlens_q, max_seqlen=max_seqlen_q)
        hidden = self.embedding(input_ids)
        frequencies = rotary(position_ids, self.layers[0].head_width)
        for layer in self.layers:
            hidden = layer(hidden, frequencies, attend)
        return self.head(self.norm(hidden))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        inner = 8 * width // 3 // 64 * 64
        self.attention_norm, self.mlp_norm = RmsNorm(width), RmsNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, hidden, frequencies, attend):
        made = self.query_key_value(self.attention_norm(hidden))
        query, key, value = made.view(len(hidden), 3, self.heads, self.head_width).unbind(1)
        mixed = attend(turn(query, frequencies), turn(key, frequencies), value)
        hidden = hidden + self.out(mixed.reshape(len(hidden), -1))
        gate, up = self.gate_up(self.mlp_norm(hidden)).chunk(2, dim=-1)
        return hidden + self.down(functional.silu(gate) * up)


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, hidden):
        mean_square = hidden.float().pow(2).mean(dim=-1, keepdim=True)
        return (hidden.float() * torch.rsqrt(mean_square + 1e-6)).to(hidden.dtype) * self.scale


def rotary(position_ids, head_width):
    """Cosines and sines, [tokens, 1, head_width / 2]."""
    places = torch.arange(0, head_width, 2, device=position_ids.device)
    angles = position_ids[:, None, None] * 10_000 ** (-places / head_width)
    return angles.cos(), angles.sin()


def turn(heads, frequencies):
    cosine, sine = (one.to(heads.dtype) for one in frequencies)
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def attention(query, key, value, cu_seqlens, max_seqlen):
    """Causal, within each sequence: [tokens, heads, head_width]."""
    if query.device.type == "cuda":
        if varlen_attn is not None:
            return varlen_attn(query, key, value, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
        return jagged_attention(query, key, value, cu_seqlens, max_seqlen)
    bounds = cu_seqlens.tolist()
    parts = [
        dense_attention(query[begin:end], key[begin:end], value[begin:end])
        for begin, end in zip(bounds, bounds[1:])
    ]
    return torch.cat(parts) if parts else query


def jagged_attention(query, key, value, cu_seqlens, max_seqlen):
    """Flash attention over a nested tensor, for PyTorch from 2.4 on."""
    query, key, value = (
        torch.nested.nested_tensor_from_jagged(one.contiguous(), cu_seqlens.long(), max_seqlen=max_seqlen)
        .transpose(1, 2)
        for one in (query, key, value)
    )
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return mixed.transpose(1, 2).values()


def dense_attention(query, key, value):
    """On the host: the last tokens of one sequence, as many as there are queries, see all before them."""
    query, key, value = (one.transpose(0, 1) for one in (query, key, value))
    scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    seen = seen.tril(key.shape[1] - query.shape[1])
    return (scores.masked_fill(~seen, float("-inf")).softmax(dim=-1) @ value).transpose(0, 1)


def tree_attention(packed):
    """attend of a PackedBatch, whether its sequences share prefixes or not."""
    # FlexAttention has no gradient on a CPU.
    if flex_attention is not None and packed.row.device.type == "cuda" and packed.row.width:
        return functools.partial(flexible_attention, block_mask=packed.block_mask())
    # Of each part of the row that is one sequence's own, the parts before it that the sequence has too.
    ranges = packed.ranges()
    paths = {}
    for own, part in zip(ranges["q_ranges"].tolist(), ranges["k_ranges"].tolist()):
        paths.setdefault(tuple(own), []).append(slice(*part))
    return functools.partial(path_attention, paths=paths)


@functools.cache
def compiled_flex_attention():
    return torch.compile(flex_attention, dynamic=True)


def flexible_attention(query, key, value, block_mask):
    query, key, value = (one.transpose(0, 1)[None] for one in (query, key, value))
    return compiled_flex_attention()(query, key, value, block_mask=block_mask)[0].transpose(0, 1)


def path_attention(query, key, value, paths):
    """By dense masks, of which none holds what a sequence does not see."""
    mixed = [
        dense_attention(query[slice(*own)], *(torch.cat([one[part] for part in path]) for one in (key, value)))
        for own, path in paths.items()
    ]
    return torch.cat(mixed) if mixed else query
