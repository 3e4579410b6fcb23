"""pack, unpack, sums and PackedBatch against loops, on the host and, where there is one, on a GPU."""

import copy
import itertools
import pickle

import numpy
import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan.torch import PackedBatch, PackedRow, pack, sums, unpack
from devices import device  # noqa: F401

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def lengths_of(count, longest=40, seed=0):
    return numpy.random.default_rng(seed).integers(1, longest + 1, count)


def microbatches(lengths, **options):
    plan = batchplan.plan(lengths, **{"max_tokens": 128, "dp": 2, **options})
    return [microbatch for rank in range(2) for microbatch in plan.rank(rank)]


def padded(lengths, dtype=torch.float32, shape=(), width=None, device="cpu"):
    """Whatever, with what is beyond a sequence's end as anything but its tokens."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randint(0, 100, (len(lengths), width or max(lengths), *shape), generator=generator)
    return values.to(dtype).to(device)


def packed_by_loop(microbatch, values, pad_value=0, shift=0):
    row = torch.full((microbatch.width, *values.shape[2:]), pad_value, dtype=values.dtype)
    for index, length, start in zip(
        microbatch.indices, microbatch.lengths, microbatch.cu_seqlens_padded
    ):
        for place in range(length):
            if 0 <= place + shift < length:
                row[start + place] = values[int(index), place + shift]
    return row


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
def test_packs_any_dtype_and_shape(device, dtype, shape):
    lengths = lengths_of(30)
    values = padded(lengths, dtype, shape, width=50)
    for microbatch in microbatches(lengths):
        row = pack(microbatch, values.to(device))
        assert row.dtype == dtype and row.device.type == device
        assert torch.equal(row.cpu(), packed_by_loop(microbatch, values))


@pytest.mark.parametrize("shift", [-1, 0, 1, 2, 1000])
@pytest.mark.parametrize("cp", [1, 2])
def test_shifts_and_pads(device, shift, cp):
    lengths = lengths_of(30)
    values = padded(lengths, torch.int64, device=device)
    for microbatch in microbatches(lengths, cp=cp):
        row = pack(microbatch, values, pad_value=-100, shift=shift)
        assert torch.equal(row.cpu(), packed_by_loop(microbatch, values.cpu(), -100, shift))


@pytest.mark.parametrize("shift", [0, 1])
def test_unpacks_what_it_packed(device, shift):
    lengths = lengths_of(30)
    values = padded(lengths, shape=(2,), device=device)
    seen = torch.zeros(len(lengths), values.shape[1], 2, device=device)
    for microbatch in microbatches(lengths):
        row = pack(microbatch, values, shift=shift)
        alone = unpack(microbatch, row, shift=shift)
        assert alone.shape == (len(microbatch), microbatch.max_seqlen, 2)
        whole = unpack(microbatch, row, shift=shift, width=values.shape[1], num_rows=len(lengths))
        for place, (index, length) in enumerate(zip(microbatch.indices, microbatch.lengths)):
            assert torch.equal(alone[place, shift:length], values[int(index), shift:length])
            assert not alone[place, length:].any() and not alone[place, :shift].any()
        seen += whole
    for index, length in enumerate(lengths):
        assert torch.equal(seen[index, shift:length], values[index, shift:length])


def test_takes_ragged_sequences(device):
    lengths = lengths_of(20)
    values = padded(lengths, device=device, shape=(3,))
    rows = [values[index, :length] for index, length in enumerate(lengths)]
    ragged = [rows, torch.nested.nested_tensor(rows)]
    if hasattr(torch, "jagged"):
        ragged.append(torch.nested.nested_tensor(rows, layout=torch.jagged))
    for microbatch, sequences in itertools.product(microbatches(lengths), ragged):
        assert torch.equal(pack(microbatch, sequences), pack(microbatch, values))


@pytest.mark.skipif(not hasattr(torch, "jagged"), reason="needs jagged tensors")
def test_takes_ragged_sequences_with_gaps_between(device):
    lengths = [3, 5, 2]
    (microbatch,) = batchplan.plan(lengths, max_tokens=16).rank(0)
    values = torch.arange(30.0, device=device, requires_grad=True)
    begins = torch.tensor([0, 10, 20, 30], device=device)

    def nested(there):
        return torch.nested.nested_tensor_from_jagged(values, begins, lengths=torch.tensor(there, device=device))

    packed = pack(microbatch, nested([3, 6, 2]))
    assert torch.equal(packed, pack(microbatch, values.view(3, 10)))
    packed.sum().backward()
    assert values.grad.nonzero().flatten().tolist() == [0, 1, 2, 10, 11, 12, 13, 14, 20, 21]
    with pytest.raises(ValueError, match=r"sequences\[1\] has 4 tokens; 5 are planned"):
        pack(microbatch, nested([3, 4, 2]))
    turned = torch.nested.nested_tensor([torch.ones(length, 4) for length in lengths], layout=torch.jagged)
    with pytest.raises(ValueError, match="sequences is nested in dimension 2; must be in 1"):
        pack(microbatch, turned.transpose(1, 2))


def test_takes_what_was_gathered(device):
    lengths = lengths_of(20)
    values = padded(lengths, device=device)
    for microbatch in microbatches(lengths):
        index = torch.from_numpy(microbatch.indices.astype(numpy.int64)).to(device)
        assert torch.equal(pack(microbatch, values[index], gathered=True), pack(microbatch, values))


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("shift", [0, 1])
def test_gradient_of_packing(device, ragged, shift):
    lengths = lengths_of(12)
    values = padded(lengths, torch.float64, (2,), device=device)
    rows = [values[index, :length].clone() for index, length in enumerate(lengths)]
    inputs = [one.requires_grad_() for one in (rows if ragged else [values])]
    for microbatch in microbatches(lengths):

        def packed(*given, planned=microbatch):
            return pack(planned, list(given) if ragged else given[0], shift=shift)

        assert torch.autograd.gradcheck(packed, inputs)


def test_complex_numbers_and_their_conjugates(device):
    lengths = lengths_of(6)
    values = torch.randn(6, max(lengths), dtype=torch.complex128, device=device, requires_grad=True)
    for microbatch in microbatches(lengths):
        conjugated = pack(microbatch, values.conj())
        assert torch.equal(conjugated, pack(microbatch, values).conj().resolve_conj())
        assert torch.autograd.gradcheck(lambda given, planned=microbatch: pack(planned, given.conj()), [values])


@pytest.mark.parametrize("cp_rank", [None, 0, 1])
def test_gradient_of_unpacking(device, cp_rank):
    lengths = lengths_of(12)
    for microbatch in microbatches(lengths, cp=2):
        row = PackedRow(microbatch, device=device, cp=2, cp_rank=cp_rank)
        values = torch.rand(row.width, 2, dtype=torch.float64, device=device, requires_grad=True)
        for num_rows in (None, len(lengths)):
            assert torch.autograd.gradcheck(
                lambda packed, row=row, rows=num_rows: unpack(row, packed, shift=1, num_rows=rows), [values]
            )


def test_fields_keep_their_gradients(device):
    lengths = lengths_of(12)
    first = padded(lengths, device=device).requires_grad_()
    second = padded(lengths, shape=(4,), device=device).requires_grad_()
    tokens = padded(lengths, torch.int64, device=device)
    for microbatch in microbatches(lengths):
        batch = PackedBatch(microbatch, {"first": first, "tokens": tokens, "second": second})
        (batch["first"].sum() + 2 * batch["second"].sum()).backward()
    for index, length in enumerate(lengths):
        assert torch.all(first.grad[index, :length] == 1) and not first.grad[index, length:].any()
        assert torch.all(second.grad[index, :length] == 2)


@pytest.mark.parametrize("ragged", [False, True])
def test_what_goes_back_through_one_field_leaves_others_alone(device, ragged):
    lengths = lengths_of(30)
    own = [torch.nn.Parameter(padded(lengths, torch.float64, device=device)) for _ in range(2)]

    def field(values):
        doubled = values * values
        return [row[:length] for row, length in zip(doubled, lengths)] if ragged else doubled

    fields = {"a": field(own[0]), "b": field(own[1])}
    packed = PackedBatch(microbatches(lengths)[0], fields, shifts={"a": 1, "b": 1})
    packed["a"].sum().backward()
    assert own[0].grad is not None and own[1].grad is None
    packed["b"].sum().backward()
    assert torch.equal(own[0].grad, own[1].grad)


def test_a_batch_that_is_first_read_where_nothing_is_trained_is_trained_with(device):
    lengths = lengths_of(30)
    packed = PackedBatch(microbatches(lengths)[0], {"x": padded(lengths, device=device)})
    table = torch.nn.Embedding(128, 2, device=device)
    with torch.inference_mode():
        read = packed.position_ids, packed.sequence_ids, packed.row.cu_seqlens, packed.row.sequence_index
        read = [one + 0 for one in read]
    table(packed.position_ids).sum().backward()
    table(packed.row.cu_seqlens.clamp(max=1)).sum().backward()
    assert table.weight.grad is not None


def test_a_device_may_have_its_number():
    lengths = lengths_of(30)
    row = PackedRow(microbatches(lengths)[0], device="cpu:0")
    assert unpack(row, pack(row, padded(lengths))).device == torch.device("cpu")


def test_ragged_fields_of_other_lengths_do_not_share_a_launch(device):
    lengths = lengths_of(8)
    rows = [torch.arange(length, device=device) for length in lengths]
    longer = [torch.arange(length + 3, device=device) for length in lengths]
    for microbatch in microbatches(lengths):
        batch = PackedBatch(microbatch, {"rows": rows, "longer": longer})
        assert torch.equal(batch["rows"], batch.position_ids)
        assert torch.equal(batch["longer"], batch.position_ids)


def test_more_fields_than_a_launch_takes(device):
    lengths = lengths_of(8)
    values = padded(lengths, torch.int64, device=device)
    for microbatch in microbatches(lengths):
        batch = PackedBatch(microbatch, {f"field {number}": values + number for number in range(40)})
        for number in range(40):
            assert torch.equal(batch[f"field {number}"], pack(microbatch, values + number))


def test_the_default_dtype_does_not_matter(device):
    (microbatch,) = batchplan.plan([3, 5], max_tokens=16).rank(0)
    values = padded([3, 5], device=device)
    expected = pack(microbatch, values)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(pack(microbatch, values), expected)
        assert [found.dtype for found in sums(microbatch, expected)] == [torch.float32] * 2
    finally:
        torch.set_default_dtype(torch.float32)


def test_gradient_of_weights(device):
    lengths = [3, 2]
    (microbatch,) = batchplan.plan(lengths, max_tokens=8, cp=2).rank(0)
    row = PackedRow(microbatch, device=device)
    values = torch.rand(row.width, device=device)
    weights = torch.rand(row.width, device=device, requires_grad=True)
    found, _ = sums(row, values, weights)
    (2 * found[0] + 3 * found[1]).backward()
    expected = torch.zeros(row.width, device=device)
    for place, begin in enumerate(microbatch.cu_seqlens_padded[:-1].tolist()):
        tokens = slice(begin, begin + int(microbatch.lengths[place]))
        expected[tokens] = (2 + place) * values[tokens]
    torch.testing.assert_close(weights.grad, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_the_sequences(device, weighted):
    lengths = lengths_of(30)
    values = padded(lengths, device=device).requires_grad_()
    mask = padded(lengths, torch.int64, device=device) % 2 == 0
    for microbatch in microbatches(lengths, cp=2):
        batch = PackedBatch(microbatch, {"values": values, "mask": mask})
        found, weights = batch.sums(batch["values"], batch["mask"] if weighted else None)
        for place, (index, length) in enumerate(zip(microbatch.indices, microbatch.lengths)):
            weight = mask[int(index), :length] if weighted else torch.ones(length, device=device)
            assert found[place] == (values[int(index), :length] * weight).sum()
            assert weights[place] == weight.sum()
        (found * torch.arange(1, len(found) + 1, device=device)).sum().backward()
        for place, (index, length) in enumerate(zip(microbatch.indices, microbatch.lengths)):
            weight = mask[int(index), :length] if weighted else torch.ones(length, device=device)
            assert torch.equal(values.grad[int(index), :length], (place + 1) * weight.float())
            assert not values.grad[int(index), length:].any()


def test_not_a_number_outside_of_the_mask_does_no_harm(device):
    lengths = [3, 2]
    (microbatch,) = batchplan.plan(lengths, max_tokens=8, cp=2).rank(0)
    row = PackedRow(microbatch, device=device)
    values = torch.full((row.width,), float("nan"), device=device)
    values[0] = 1
    weights = torch.zeros(row.width, device=device)
    weights[0] = 2
    values.requires_grad_()
    found, _ = sums(row, values, weights)
    found.sum().backward()
    assert found.tolist() == [2, 0]
    assert values.grad.tolist() == [2] + [0] * (row.width - 1)


def test_ids_and_what_attention_takes(device):
    lengths = [3, 5, 2]
    (microbatch,) = batchplan.plan(
        lengths, passes=[batchplan.Pass(64, length_multiple=4, rows="capacity")]
    ).rank(0)
    tokens = torch.arange(30).reshape(3, 10).to(device)
    batch = PackedBatch(microbatch, {"tokens": tokens})
    order = microbatch.indices.tolist()
    starts = microbatch.cu_seqlens_padded.tolist()
    assert batch.row.width == 64 and starts[-1] == 16
    for place, index in enumerate(order):
        span = slice(starts[place], starts[place + 1])
        assert batch.position_ids[span].tolist() == list(range(starts[place + 1] - starts[place]))
        assert batch.sequence_ids[span].tolist() == [place] * (starts[place + 1] - starts[place])
        assert batch["tokens"][span][: lengths[index]].tolist() == tokens[index, : lengths[index]].tolist()
    assert batch.sequence_ids[16:].tolist() == [-1] * 48
    flash = batch.flash_attention()
    assert flash["cu_seqlens_q"].tolist() == starts + [64] and flash["max_seqlen_q"] == 48
    assert flash["cu_seqlens_q"].dtype == torch.int32 and flash["cu_seqlens_q"].device.type == device
    megatron = batch.packed_seq_params()
    assert megatron["qkv_format"] == "thd"
    assert megatron["cu_seqlens_q"].tolist() == microbatch.cu_seqlens.tolist()
    assert megatron["cu_seqlens_q_padded"].tolist() == starts[:-1] + [64]
    assert megatron["max_seqlen_q"] == 64 - starts[-2]


def test_context_parallel_shards_make_the_whole(device):
    lengths = lengths_of(10)
    values = padded(lengths, torch.int64, device=device)
    for microbatch in microbatches(lengths, cp=2):
        shards = [
            PackedBatch(microbatch, {"values": values}, cp=2, cp_rank=rank) for rank in range(2)
        ]
        gathered = PackedBatch(microbatch, {"values": values}, cp=2, cp_rank=None)
        assert torch.equal(torch.cat([shard["values"] for shard in shards]), gathered["values"])
        whole = unpack(gathered.row, gathered["values"])
        assert torch.equal(whole, shards[0].unpack(shards[0]["values"]) + shards[1].unpack(shards[1]["values"]))
        assert torch.equal(whole, unpack(microbatch, pack(microbatch, values)))
        with pytest.raises(ValueError, match="cp is 2"):
            shards[0].flash_attention()


def test_attention_under_context_parallelism_has_the_tail_as_a_sequence_of_its_own(device):
    """Each rank divides every sequence by the ranks: a tail in the last one's padding would move its tokens."""
    (microbatch,) = batchplan.plan(
        [3, 5, 2], cp=2, passes=[batchplan.Pass(64, length_multiple=4, rows="capacity")]
    ).rank(0)
    for rank in (0, 1, None):
        batch = PackedBatch(microbatch, {"ids": torch.ones(3, 8, device=device)}, cp=2, cp_rank=rank)
        arguments = batch.packed_seq_params()
        true, starts = microbatch.cu_seqlens.tolist(), microbatch.cu_seqlens_padded.tolist()
        assert arguments["cu_seqlens_q"].tolist() == [*true, true[-1]]
        assert arguments["cu_seqlens_q_padded"].tolist() == [*starts, 64]
        assert all(span % 4 == 0 for span in numpy.diff(arguments["cu_seqlens_q_padded"].tolist()))
        assert arguments["max_seqlen_q"] == 48


def test_padded_rows(device):
    lengths = [3, 5, 2, 4]
    plan = batchplan.plan(lengths, passes=[batchplan.Pass(10, scan="sorted")])
    values = padded(lengths, torch.int64, device=device)
    for microbatch in plan.rank(0):
        row = pack(microbatch, values)
        assert microbatch.padded and len(row) == len(microbatch) * microbatch.width
        for place, (index, length) in enumerate(zip(microbatch.indices, microbatch.lengths)):
            start = place * microbatch.width
            assert row[start : start + length].tolist() == values[int(index), :length].tolist()


def test_microbatch_without_sequences(device):
    plan = batchplan.plan([7], dp=2, max_tokens=8, allow_empty_microbatches=True)
    (empty,) = [one for rank in range(2) for one in plan.rank(rank) if not len(one)]
    values = padded([7], device=device).requires_grad_()
    batch = PackedBatch(empty, {"values": values}, per_sequence={"one": torch.ones(1, device=device)})
    assert batch["values"].shape == (0,) and batch["one"].shape == (0,)
    assert batch.unpack(batch["values"]).shape == (0, 0)
    batch["values"].sum().backward()
    assert not values.grad.any()
    assert batch.packed_seq_params()["cu_seqlens_q"].tolist() == [0]
    assert batch.sums(batch["values"])[0].shape == (0,)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_rows_and_batches_go_to_other_processes(device, copied):
    lengths = lengths_of(10)
    values = padded(lengths, device=device)
    for microbatch in microbatches(lengths, cp=2):
        batch = PackedBatch(microbatch, {"values": values}, shifts={"values": 1}, cp=2, cp_rank=1)
        other = copied(batch)
        assert other.row.cp_rank == 1 and other.row.device == batch.row.device
        assert torch.equal(other["values"], batch["values"])
        assert torch.equal(other.unpack(other["values"], shift=1), batch.unpack(batch["values"], shift=1))


def test_a_data_loaders_workers_pack():
    dataset = [torch.arange(length) for length in (4, 4, 3)]
    (microbatch,) = batchplan.plan([4, 4, 3], max_tokens=16).rank(0)
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_sampler=[microbatch.indices.tolist()],
        num_workers=1,
        collate_fn=lambda rows: PackedBatch(microbatch, {"ids": rows}, gathered=True),
    )
    (batch,) = loader
    assert torch.equal(batch["ids"], batch.position_ids)


def test_tensors_that_are_not_contiguous(device):
    lengths = lengths_of(10)
    values = padded(lengths, shape=(4,), device=device)
    turned = values.transpose(0, 1).contiguous().transpose(0, 1)
    for microbatch in microbatches(lengths):
        assert torch.equal(pack(microbatch, turned[..., ::2]), pack(microbatch, values[..., ::2].contiguous()))


def test_of_a_list_the_microbatchs_rows_alone_are_read(device):
    lengths = lengths_of(20)
    values = padded(lengths, device=device)
    for microbatch in microbatches(lengths):
        own = set(microbatch.indices.tolist())
        rows = [values[index, :length].clone().requires_grad_() if index in own else None
                for index, length in enumerate(lengths)]
        packed = pack(microbatch, rows)
        assert torch.equal(packed, pack(microbatch, values))
        packed.sum().backward()
        assert all(torch.equal(rows[index].grad, torch.ones_like(rows[index])) for index in own)


def test_a_list_that_is_the_row_already_is_copied(device):
    (microbatch,) = batchplan.plan([4], max_tokens=4).rank(0)
    tokens = torch.arange(4.0, device=device, requires_grad=True)
    packed = pack(microbatch, [tokens])
    assert packed.tolist() == [0, 1, 2, 3] and packed.data_ptr() != tokens.data_ptr()
    packed.mul(2).sum().backward()
    assert tokens.grad.tolist() == [2, 2, 2, 2]
    # Not where something is to come between its rows, behind them or in their place.
    (padded_microbatch,) = batchplan.plan([4, 3], max_tokens=8, cp=2).rank(0)
    rows = [tokens.detach(), torch.ones(3, device=device)]
    row = PackedRow(padded_microbatch, device=device, cp=1, cp_rank=0)
    assert pack(row, rows, pad_value=9).tolist() == [0, 1, 2, 3, 1, 1, 1, 9]
    assert pack(microbatch, rows[:1], shift=1, pad_value=9).tolist() == [1, 2, 3, 9]
    assert pack(microbatch, [torch.arange(6.0, device=device)]).tolist() == [0, 1, 2, 3]


def test_lists_of_a_microbatch_without_sequences(device):
    plan = batchplan.plan([7], dp=2, max_tokens=8, allow_empty_microbatches=True)
    (empty,) = [one for rank in range(2) for one in plan.rank(rank) if not len(one)]
    row = torch.ones(7, 3, device=device, requires_grad=True)
    packed = pack(empty, [row])
    assert packed.shape == (0, 3)
    packed.sum().backward()
    assert not row.grad.any()
