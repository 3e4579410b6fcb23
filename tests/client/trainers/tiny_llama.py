"""A Llama that is trained in no time, and what it says of sequences that it sees alone."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 128


def tiny_llama(attention="sdpa"):
    """Random weights, the same ones in every process."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            attn_implementation=attention,
        )
    )


def token_losses(logits, ids):
    """Of all tokens of a sequence [L] but the first one, from its logits [L, vocabulary]."""
    return torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")


@torch.no_grad()
def losses_alone(model, sequences):
    """token_losses of each sequence, which the model sees by itself."""
    return [token_losses(model(input_ids=ids[None], use_cache=False).logits[0], ids) for ids in sequences]
