"""A packed micro-batch in a model of transformers."""

import batchplan
import pytest
import torch
from batchplan.torch import PackedBatch
from tiny_llama import VOCABULARY, losses_alone, tiny_llama, token_losses


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("length_multiple", [1, 8])
def test_each_token_of_a_packed_row_has_the_loss_that_it_has_alone(attention, length_multiple):
    model = tiny_llama(attention)
    lengths = [5, 40, 17, 2, 33, 60, 1, 9]
    sequences = [torch.randint(0, VOCABULARY, (length,)) for length in lengths]
    alone = losses_alone(model, sequences)
    plan = batchplan.plan(lengths, passes=[batchplan.Pass(128, length_multiple=length_multiple)])
    seen = []
    for microbatch in plan.rank(0):
        packed = PackedBatch(microbatch, {"input_ids": sequences})
        with torch.no_grad():
            logits = model(**packed.transformers()).logits[0]
        for begin, index, length in zip(microbatch.cu_seqlens_padded, microbatch.indices, microbatch.lengths):
            losses = token_losses(logits[begin : begin + length], sequences[index])
            torch.testing.assert_close(losses, alone[index], rtol=0, atol=1e-6)
            seen.append(int(index))
    assert sorted(seen) == list(range(len(lengths)))


def test_a_batch_without_input_ids_is_named():
    (microbatch,) = batchplan.plan([3], max_tokens=4).rank(0)
    with pytest.raises(ValueError, match="the fields are ids; input_ids must be among them"):
        PackedBatch(microbatch, {"ids": [torch.arange(3)]}).transformers()
