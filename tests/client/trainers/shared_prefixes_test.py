"""Rows that share prefixes under torch's FlexAttention, on a CPU."""

import pytest
import torch
from batchplan.torch import PackedBatch
from forests import forests, micro_batch, seen
from shared_training import Batch, difference, with_sharing, without_sharing
from torch.nn.attention import flex_attention as flex_module
from torch.nn.attention.flex_attention import create_mask, flex_attention


def flex(packed):
    mask = packed.block_mask(BLOCK_SIZE=16)

    def attend(query, key, value):
        return flex_attention(query[None], key[None], value[None], block_mask=mask)[0]

    return attend


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
def test_loss_and_gradients_are_those_of_each_sequence_alone(monkeypatch, dtype, most):
    # On a CPU FlexAttention is written out in torch's operations, which have a gradient, but refuses to take it.
    monkeypatch.setattr(flex_module, "_validate_device", lambda *_: None)
    batch = Batch(7, dtype)
    assert difference(with_sharing(batch, dtype, attention=flex), without_sharing(batch, dtype)) < most
