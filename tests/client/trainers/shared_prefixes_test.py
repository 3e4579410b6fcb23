"""Rows that share prefixes under torch's FlexAttention, and in models of transformers, on a CPU."""

import numpy
import pytest
import torch
import transformers
from batchplan.torch import PackedBatch
from forests import comb, forests, micro_batch, seen, star, token_ids
from shared_training import Batch, difference, flex, two_ranks_differ_by, with_sharing, without_sharing
from tiny_llama import VOCABULARY, losses_alone, tiny_llama, token_losses
from torch.nn.attention.flex_attention import create_mask


def test_block_masks_let_tokens_see_their_paths():
    for number, (lengths, shared) in enumerate(forests(2)):
        packed = PackedBatch(micro_batch(lengths, shared, number % 3), {"x": torch.zeros(len(lengths), 60)})
        if not packed.row.width:
            with pytest.raises(ValueError, match="the row has no tokens"):
                packed.block_mask()
            continue
        width = packed.row.width
        blocks = packed.block_mask()
        assert blocks.shape == (1, 1, width, width)
        found = create_mask(blocks.mask_mod, None, None, width, width, device="cpu")[0, 0]
        assert torch.equal(found, seen(lengths, shared, number % 3))


@pytest.mark.parametrize("dtype, most", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_loss_and_gradients_are_those_of_each_sequence_alone(dtype, most):
    batch = Batch(7, dtype)
    assert difference(with_sharing(batch, dtype, attention=flex), without_sharing(batch, dtype)) < most


def test_two_ranks_add_up_to_each_sequence_alone(tmp_path):
    for double, single in two_ranks_differ_by("flex", tmp_path):
        assert double < 1e-10 and single < 1e-5


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_each_token_has_the_loss_in_a_llama_that_it_has_alone(attention):
    model = tiny_llama(attention)
    random = numpy.random.default_rng(1)
    for lengths, shared in (star(random), comb(6)):
        ids = token_ids(random, lengths, shared, VOCABULARY)
        sequences = [own[:length] for own, length in zip(ids, lengths)]
        packed = PackedBatch(micro_batch(lengths, shared, 3), {"input_ids": ids}, equal_prefixes=["input_ids"])
        with torch.no_grad():
            whole = packed.unpack(model(**packed.transformers(model)).logits[0])
        alone = losses_alone(model, sequences)
        for place, sequence in enumerate(sequences):
            found = token_losses(whole[place, : len(sequence)], sequence)
            torch.testing.assert_close(found, alone[place], rtol=0, atol=1e-5)


def test_models_that_can_not_are_refused_by_name():
    packed = PackedBatch(micro_batch([5, 7], [0, 3]), {"input_ids": torch.zeros(2, 7, dtype=torch.int64)})
    shape = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "pad_token_id": 0,
             "num_attention_heads": 4, "num_key_value_heads": 2}
    mamba = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_chunk_size": 16}
    model = transformers.BambaForCausalLM(transformers.BambaConfig(**shape, **mamba, attn_layer_indices=[1])).eval()
    with pytest.raises(ValueError, match="BambaForCausalLM lets sequences that share a prefix see each other"):
        packed.transformers(model)
    llama = tiny_llama()
    llama.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="is flash_attention_2; must be flex_attention, sdpa, eager"):
        packed.transformers(llama)
    with pytest.raises(ValueError, match="the fields are ids; input_ids must be among them"):
        PackedBatch(micro_batch([2], [0]), {"ids": torch.zeros(1, 2)}).transformers(tiny_llama())
