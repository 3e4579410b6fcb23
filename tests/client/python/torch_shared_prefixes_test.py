"""Rows whose sequences share prefixes: packed once, unpacked whole, seen by whom they should be."""

import pickle

import numpy
import pytest

torch = pytest.importorskip("torch")

import batchplan.torch
from batchplan._micro_batch import MicroBatch
from batchplan.torch import PackedBatch, PackedRow, pack, sums, unpack
from devices import device  # noqa: F401
from forests import EXAMPLE, chain, forests, micro_batch, naive_paths, random_forest, seen, token_ids


def batch_of(lengths, shared, device, tail=1, seed=0):
    """A micro-batch in any order of a batch, and the ids of the batch."""
    random = numpy.random.default_rng(seed)
    indices = random.permutation(len(lengths) + 2)[: len(lengths)]
    own = token_ids(random, lengths, shared)
    ids = torch.full((len(lengths) + 2, own.shape[1] + 1), -5)
    ids[torch.from_numpy(indices), : own.shape[1]] = own
    return micro_batch(lengths, shared, tail, indices), ids.to(device), own


def test_documented_example(device):
    packed = PackedBatch(
        micro_batch(*EXAMPLE, tail=1),
        {"ids": torch.tensor([[1, 2, 3, 4, 5, 0, 0], [1, 2, 3, 6, 7, 8, 9], [1, 2, 10, 11, 0, 0, 0]], device=device)},
        pad_values={"ids": -1},
        equal_prefixes=["ids"],
    )
    assert packed["ids"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1]
    assert packed.position_ids.tolist() == [0, 1, 2, 3, 4, 3, 4, 5, 6, 2, 3, 0]
    assert packed.sequence_ids.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, -1]
    assert packed.subtree_end.tolist() == [11, 11, 9, 5, 5, 9, 9, 9, 9, 11, 11, 12]
    assert packed.subtree_end.dtype == torch.int32 and packed.predecessors.dtype == torch.int32
    assert packed.predecessors.tolist() == [-1, 0, 1, 2, 3, -1, 0, 1, 2, 5, 6, 7, -1, 0, 1, 9]
    assert packed.unpack(packed["ids"], pad_value=0).tolist() == [
        [1, 2, 3, 4, 5, 0, 0],
        [1, 2, 3, 6, 7, 8, 9],
        [1, 2, 10, 11, 0, 0, 0],
    ]
    assert packed.row.cu_seqlens_padded.tolist() == [0, 5, 9, 11]
    flashmask = packed.flashmask()
    assert flashmask["causal"] is True
    assert flashmask["startend_row_indices"].shape == (1, 1, 12, 1)
    assert flashmask["startend_row_indices"].flatten().tolist() == packed.subtree_end.tolist()
    parts = packed.ranges()
    assert parts["q_ranges"].tolist() == [[0, 5], [5, 9], [5, 9], [9, 11], [9, 11], [11, 12]]
    assert parts["k_ranges"].tolist() == [[0, 5], [0, 3], [5, 9], [0, 2], [9, 11], [11, 12]]
    assert parts["attn_type_map"].tolist() == [1, 0, 1, 0, 1, 1]


def test_rows_of_random_forests(device):
    for number, (lengths, shared) in enumerate(forests(1)):
        planned, ids, own = batch_of(lengths, shared, device, tail=number % 3, seed=number)
        packed = PackedBatch(planned, {"ids": ids}, pad_values={"ids": -9}, equal_prefixes=["ids"])
        paths = naive_paths(lengths, shared)
        whole = packed.unpack(packed["ids"], pad_value=-9).cpu()
        before = packed.predecessors.tolist()
        for place, path in enumerate(paths):
            assert whole[place].tolist() == own[place, : len(path)].tolist() + [-9] * (max(lengths) - len(path))
            at = sum(lengths[:place])
            assert before[at : at + len(path)] == ([-1] + path[:-1] if path else [])
            assert packed.position_ids[path].tolist() == list(range(len(path)))
        # Into the batch's rows.
        into = unpack(packed.row, packed["ids"], num_rows=len(ids), width=ids.shape[1]).cpu()
        for place, length in enumerate(lengths):
            assert into[planned.indices[place], :length].tolist() == own[place, :length].tolist()


def dense(packed):
    """The mask that subtree_end tells."""
    place = torch.arange(packed.row.width, device=packed.row.device)
    return (place <= place[:, None]) & (place[:, None] < packed.subtree_end)


def test_tokens_are_seen_by_those_behind_them_on_their_paths(device):
    for number, (lengths, shared) in enumerate(forests(2)):
        tail = number % 3
        packed = PackedBatch(micro_batch(lengths, shared, tail), {"x": torch.zeros(len(lengths), 60, device=device)})
        expected = seen(lengths, shared, tail)
        assert torch.equal(dense(packed).cpu(), expected)
        found = torch.zeros_like(expected)
        parts = {name: one.tolist() for name, one in packed.ranges().items()}
        for (q, q_end), (k, k_end), causal in zip(parts["q_ranges"], parts["k_ranges"], parts["attn_type_map"]):
            part = torch.ones(q_end - q, k_end - k, dtype=torch.bool)
            assert not found[q:q_end, k:k_end].any()
            found[q:q_end, k:k_end] |= part.tril(k_end - k - (q_end - q)) if causal else part
        assert torch.equal(found, expected)


def test_a_chain_has_two_parts_a_turn(device):
    packed = PackedBatch(micro_batch(*chain(500)), {"x": torch.zeros(500, 500, device=device)})
    assert len(packed.ranges()["q_ranges"]) == 999
    assert packed.subtree_end.tolist() == [500] * 500


def test_rows_that_share_nothing_have_subtrees_too(device):
    planned = MicroBatch(0, 0, 0, *(numpy.array(one, numpy.uint32) for one in ([0, 1], [3, 4])), 10, 4)
    packed = PackedBatch(planned, {"x": torch.zeros(2, 4, device=device)})
    assert packed.subtree_end.tolist() == [4] * 4 + [8] * 4 + [10] * 2
    assert packed.ranges()["k_ranges"].tolist() == [[0, 4], [4, 8], [8, 10]]
    assert packed.whole_sequences is None
    with pytest.raises(ValueError, match="no shared_tokens"):
        packed.predecessors


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_gradient_of_unpack_is_a_sum_over_the_sequences(device, dtype):
    for number, (lengths, shared) in enumerate(forests(3)):
        planned = micro_batch(lengths, shared, number % 3)
        row = PackedRow(planned, device=device)
        torch.manual_seed(number)
        values = torch.randn(row.width, 3, dtype=torch.float64).to(dtype).to(device).requires_grad_()
        weights = torch.randn(len(lengths), max(lengths, default=0) + 1, 3, dtype=torch.float64).to(dtype).to(device)
        (unpack(row, values, width=weights.shape[1]) * weights).sum().backward()
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        expected = torch.zeros(row.width, 3, dtype=wide, device=device)
        for place, path in enumerate(naive_paths(lengths, shared)):
            expected[path] += weights[place, : len(path)].to(wide)
        assert torch.equal(values.grad, expected.to(dtype))


def test_the_gradient_of_unpack_is_the_numerical_one(device):
    row = PackedRow(micro_batch(*EXAMPLE, tail=1), device=device)
    for dtype in (torch.float64, torch.complex128):
        values = torch.randn(row.width, 2, dtype=dtype, device=device, requires_grad=True)
        assert torch.autograd.gradcheck(lambda packed: unpack(row, packed), values)
        assert torch.autograd.gradcheck(lambda packed: unpack(row, packed, num_rows=4, width=9), values)


def attention(hidden, weights, mask):
    query, key, value = (hidden @ weight for weight in weights)
    scores = (query @ key.T / len(weights[0]) ** 0.5).masked_fill(~mask, -torch.inf)
    return hidden + scores.softmax(dim=-1) @ value


def test_two_layers_of_attention_give_each_sequence_alone(device):
    torch.manual_seed(0)
    layers = torch.randn(2, 3, 8, 8, dtype=torch.float64, device=device) / 3
    embedding = torch.randn(50, 8, dtype=torch.float64, device=device)
    places = torch.randn(64, 8, dtype=torch.float64, device=device)
    for number, (lengths, shared) in enumerate(forests(4)):
        planned, ids, own = batch_of(lengths, shared, device, seed=number)
        packed = PackedBatch(planned, {"ids": ids})
        hidden = embedding[packed["ids"]] + places[packed.position_ids]
        for layer in layers:
            hidden = attention(hidden, layer, dense(packed))
        whole = packed.unpack(hidden)
        for place, length in enumerate(lengths):
            alone = embedding[own[place, :length].to(device)] + places[:length]
            for layer in layers:
                alone = attention(alone, layer, torch.ones(length, length, device=device).tril().bool())
            torch.testing.assert_close(whole[place, :length], alone, rtol=0, atol=1e-10)


def test_rows_are_laid_out_anew_in_another_process(device):
    row = pickle.loads(pickle.dumps(PackedRow(micro_batch(*EXAMPLE), device=device)))
    assert row.shares and row.cu_seqlens_padded.tolist() == [0, 5, 9, 11]


def test_tokens_that_should_be_equal_are_compared(device):
    ids = torch.tensor([[1, 2, 3, 4, 5, 0, 0], [1, 2, 9, 6, 7, 8, 9], [1, 2, 10, 11, 0, 0, 0]], device=device)
    planned = micro_batch(*EXAMPLE)
    with pytest.raises(ValueError, match="ids of sequence 1 has 9 at token 2, .* first 3 tokens with has 3"):
        PackedBatch(planned, {"ids": ids}, equal_prefixes=["ids"])
    images = torch.zeros(3, 7, 2, device=device)
    images[2, 1, 1] = 1
    with pytest.raises(ValueError, match=r"images of sequence 2 has \[0.0, 1.0\] at token 1"):
        PackedBatch(planned, {"images": images}, equal_prefixes=["images"])
    with pytest.raises(ValueError, match="'labels' is none of the fields"):
        PackedBatch(planned, {"ids": ids}, equal_prefixes=["labels"])
    assert PackedBatch(planned, {"ids": ids})["ids"].tolist()[:3] == [1, 2, 3]


def test_fields_may_be_ragged(device):
    lengths, shared = random_forest(numpy.random.default_rng(5), most=10)
    own = token_ids(numpy.random.default_rng(6), lengths, shared).to(device)
    rows = [own[place, :length] for place, length in enumerate(lengths)]
    packed = PackedBatch(micro_batch(lengths, shared), {"ids": rows}, equal_prefixes=["ids"])
    for place, length in enumerate(lengths):
        assert torch.equal(packed.unpack(packed["ids"])[place, :length], rows[place])


def test_what_has_no_meaning_in_such_a_row_is_refused(device):
    planned = micro_batch(*EXAMPLE, tail=1)
    ids = torch.zeros(3, 7, dtype=torch.int64, device=device)
    with pytest.raises(ValueError, match="shift of labels is 1; must be 0 .* several next ones"):
        PackedBatch(planned, {"labels": ids}, shifts={"labels": 1})
    with pytest.raises(ValueError, match="shift of packed is 1"):
        unpack(planned, torch.zeros(12, device=device), shift=1)
    with pytest.raises(ValueError, match="sequences needs a gradient"):
        pack(planned, torch.zeros(3, 7, device=device, requires_grad=True))
    with pytest.raises(ValueError, match="share prefixes: a token is of several"):
        sums(planned, torch.zeros(12, device=device))
    packed = PackedBatch(planned, {"ids": ids}, per_sequence={"advantages": torch.ones(3, device=device)})
    assert list(packed) == ["ids"]
    with pytest.raises(KeyError, match="one entry a sequence"):
        packed["advantages"]
    for call in (packed.flash_attention, packed.packed_seq_params, packed.seq_idx):
        with pytest.raises(ValueError, match="share prefixes: it is not for .* block_mask"):
            call()
    with pytest.raises(ValueError, match="cp is 2; must be 1 where sequences share prefixes"):
        PackedRow(planned, device=device, cp=2)


@pytest.mark.parametrize(
    "lengths, shared, message",
    [
        ([5, 7], [1, 3], r"shared_tokens\[0\] is 1; must be at most 0"),
        ([5, 7], [0, 6], r"shared_tokens\[1\] is 6; must be at most 5, as many as sequences 0 and 1"),
        ([5, 3], [0, 4], r"shared_tokens\[1\] is 4; must be at most 3"),
    ],
)
def test_tokens_that_can_not_be_shared_are_errors(device, lengths, shared, message):
    with pytest.raises(ValueError, match=message):
        PackedRow(micro_batch(lengths, shared, tail=20), device=device)


def test_layouts_that_do_not_fit_are_errors(device):
    lengths, shared = (numpy.array(one, numpy.uint32) for one in EXAMPLE)
    places = numpy.arange(3, dtype=numpy.uint32)
    with pytest.raises(ValueError, match="11"):
        PackedRow(MicroBatch(0, 0, 0, places, lengths, 10, 1, shared_tokens=shared), device=device)
    with pytest.raises(ValueError, match="padded rows"):
        PackedRow(MicroBatch(0, 0, 0, places, lengths, 8, 1, padded=True, shared_tokens=shared), device=device)
    with pytest.raises(ValueError, match="has shape"):
        PackedRow(MicroBatch(0, 0, 0, places, lengths, 16, 1, shared_tokens=shared[:2]), device=device)


def test_an_old_torch_says_what_a_block_mask_takes(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch.nn.attention.flex_attention", None)
    packed = PackedBatch(micro_batch(*EXAMPLE), {"x": torch.zeros(3, 7)})
    with pytest.raises(ImportError, match="has no FlexAttention, .* 2.5 or later"):
        packed.block_mask()
    assert batchplan.torch.backend("cpu")
