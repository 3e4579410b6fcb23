"""A Llama that is trained in no time, and what it says of sequences that it sees alone."""

import numpy
import tokenizers
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 128


def _sequences():
    """100 of 3 to 120 tokens, the first two of which are the sequence's number."""
    random = numpy.random.default_rng(0)
    lengths = random.lognormal(3, 0.8, 100).clip(3, 120).astype(int)
    return [
        [number // 100, number % 100, *random.integers(0, VOCABULARY, length - 2).tolist()]
        for number, length in enumerate(lengths)
    ]


SEQUENCES = _sequences()


def tokenizer():
    """Of as many words as the model knows; the last one ends and pads."""
    words = {f"w{number}": number for number in range(VOCABULARY)}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    last = f"w{VOCABULARY - 1}"
    return PreTrainedTokenizerFast(tokenizer_object=model, eos_token=last, pad_token=last)


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
