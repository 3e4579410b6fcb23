"""What models are told of where packed sequences begin, and which of them must not be given any."""

import dataclasses
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan.torch import PackedBatch


def packed_of(lengths, cp=1, **options):
    (microbatch,) = batchplan.plan(lengths, cp=cp, passes=[batchplan.Pass(64, **options)]).rank(0)
    ids = torch.ones(len(lengths), max(lengths), dtype=torch.int64)
    return PackedBatch(microbatch, {"input_ids": ids}, cp=cp, cp_rank=cp - 1)


@pytest.mark.parametrize("options, is_padded", [({}, False), ({"length_multiple": 4}, True), ({"rows": "capacity"}, True)])
def test_attention_gets_padded_offsets_only_where_something_is_padded(options, is_padded):
    """Equal ones cost TransformerEngine its fast path."""
    arguments = packed_of([3, 5], **options).packed_seq_params()
    assert ("cu_seqlens_q_padded" in arguments, "cu_seqlens_kv_padded" in arguments) == (is_padded, is_padded)
    assert packed_of([4, 8], cp=2).packed_seq_params()["cu_seqlens_q_padded"].tolist()[-1] == 12


def test_megatron_core_gets_total_tokens_where_it_has_them(monkeypatch):
    @dataclasses.dataclass
    class Older:
        cu_seqlens_q: object = None

    @dataclasses.dataclass
    class Newer:
        cu_seqlens_q: object = None
        total_tokens: int = None

    packed = packed_of([4, 8], cp=2, rows="capacity")
    assert "total_tokens" not in packed.packed_seq_params()
    for params, expected in ((Older, None), (Newer, 64)):
        module = types.SimpleNamespace(PackedSeqParams=params)
        monkeypatch.setitem(sys.modules, "megatron.core.packed_seq_params", module)
        assert packed.packed_seq_params().get("total_tokens") == expected


class Model(torch.nn.Module):
    """With a state that goes on to the next token, unless it knows that there another sequence begins."""

    def __init__(self, mixes, heads=11):
        super().__init__()
        self.config = types.SimpleNamespace(_attn_implementation="eager")
        self.config.get_text_config = lambda: types.SimpleNamespace(vocab_size=5)
        self.embeddings = torch.nn.Embedding(5, 4)
        self.dropout = torch.nn.Dropout(0.5)
        self.head = torch.nn.Linear(4, heads)
        self.mixes, self.forwards = mixes, 0

    def get_input_embeddings(self):
        return self.embeddings

    def forward(self, input_ids, position_ids, use_cache, seq_idx=None, **boundaries):
        self.forwards += 1
        hidden = self.dropout(self.embeddings(input_ids))
        ids = self.mixes(position_ids, seq_idx)
        states = torch.zeros_like(hidden)
        for token in range(hidden.shape[1]):
            goes_on = token > 0 and ids[0, token] == ids[0, token - 1]
            states[:, token] = hidden[:, token] + (0.5 * states[:, token - 1].clone() if goes_on else 0)
        return (self.head(states),)


def by_positions(position_ids, seq_idx):
    return (position_ids == 0).cumsum(-1)


def by_seq_idx(position_ids, seq_idx):
    return torch.zeros_like(position_ids) if seq_idx is None else seq_idx


def by_nothing(position_ids, seq_idx):
    return torch.zeros_like(position_ids)


def without_kernels(position_ids, seq_idx):
    if seq_idx is not None:
        raise ValueError("`conv` can't keep packed sequences apart without `kernels`")
    return torch.zeros_like(position_ids)


def test_a_model_gets_seq_idx_where_it_needs_it():
    packed = packed_of([3, 5], length_multiple=4, rows="capacity")
    model = Model(by_positions)
    assert "seq_idx" not in packed.transformers(model)
    with_state = Model(by_seq_idx)
    for _ in range(2):
        seq_idx = packed.transformers(with_state)["seq_idx"]
    assert seq_idx.dtype == torch.int32 and seq_idx.tolist() == [[0] * 4 + [1] * 8 + [2] * 52]
    # Each is tried once, without gradients and out of training, as it was before.
    assert (model.forwards, with_state.forwards) == (1, 2)
    assert all(module.training for module in model.modules())
    assert all(one.grad is None for one in model.parameters())
    another = Model(by_positions)
    with torch.inference_mode():
        assert "seq_idx" not in packed.transformers(another)
    wrapped = types.SimpleNamespace(_orig_mod=with_state)
    assert "seq_idx" in packed.transformers(wrapped) and with_state.forwards == 2


def test_a_model_that_lets_sequences_see_each_other_is_refused_by_name():
    packed = packed_of([3, 5])
    for model, message in (
        (Model(by_nothing), "Model lets packed sequences see each other, with seq_idx as without"),
        (Model(without_kernels), "Model can't be given packed sequences: `conv` .* without `kernels`"),
        (3, "model is a int; must be one of transformers"),
    ):
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                packed.transformers(model)
    model = Model(by_positions)
    model.head = torch.nn.Sequential(model.head, torch.nn.Flatten(1))
    with pytest.raises(ValueError, match=r"its output has shape \(1, 143\); must be \[1, tokens, ...\]"):
        packed.transformers(model)
    with pytest.raises(ValueError, match="cp is 2"):
        packed_of([4, 8], cp=2).transformers(Model(by_positions))
