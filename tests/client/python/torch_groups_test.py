"""PackedBatch, its gradients and sums on the ranks of groups that differ in size."""

import numpy
import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan.torch import PackedBatch, PackedLoss, PackedRow, pack, sums, unpack
from devices import device  # noqa: F401
from handmade import dynamic_plan
from toy_transformer import ToyTransformer


def planned(lengths, dp, cp, per_rank):
    cost = batchplan.CostModel(1.0, 0.02, 20.0, exchange=((0, 1.0),))
    return batchplan.plan(lengths, dp=dp, cp=cp, max_tokens=per_rank * cp, dynamic_cp=True, cost=cost)


def planned_in_full_rows(lengths, dp, cp, per_rank):
    return batchplan.plan(lengths, dp=dp, cp=cp, dynamic_cp=True,
                          passes=[batchplan.Pass(per_rank * cp, rows="capacity")])


@pytest.fixture(params=[dynamic_plan, planned, planned_in_full_rows], ids=["by hand", "planned", "full rows"])
def plan_of(request):
    return request.param


def batch_of(count, longest, device, seed=0):
    generator = numpy.random.default_rng(seed)
    lengths = generator.integers(1, longest + 1, count)
    return lengths, torch.from_numpy(generator.integers(1, 50, (count, longest))).to(device)


def groups_of(plan):
    """The micro-batches of the ranks that run one together."""
    of_ranks = [list(plan.rank(rank)) for rank in range(plan.passes[0].data_parallel)]
    for slot in zip(*of_ranks, strict=True):
        rank = 0
        while rank < len(slot):
            size = slot[rank].context_parallel
            yield slot[rank : rank + size]
            rank += size


@pytest.mark.parametrize("zigzag", [True, False])
def test_ranks_pack_their_shards_and_restore_the_batch_together(device, plan_of, zigzag):
    lengths, values = batch_of(40, 100, device)
    seen = torch.zeros_like(values)
    sizes = set()
    for group in groups_of(plan_of(lengths, 2, 2, 32)):
        size = len(group)
        sizes.add(size)
        shards = [PackedBatch(one, {"values": values}, zigzag=zigzag) for one in group]
        assert [(one.row.cp, one.row.cp_rank) for one in shards] == [(size, place) for place in range(size)]
        assert {one.row.width for one in shards} == {group[0].width // size}
        gathered = PackedBatch(group[-1], {"values": values}, cp_rank=None, zigzag=zigzag)
        assert torch.equal(torch.cat([one["values"] for one in shards]), gathered["values"])
        assert torch.equal(torch.cat([one.position_ids for one in shards]), gathered.position_ids)
        # By one rank alone, the whole row.
        assert torch.equal(
            unpack(gathered.row, gathered["values"]), unpack(PackedRow(group[0], device=device, cp=1, cp_rank=0),
            pack(PackedRow(group[0], device=device, cp=1, cp_rank=0), values)))
        for one in shards:
            seen += one.unpack(one["values"], width=100, num_rows=40)
    assert len(sizes) > 1
    inside = torch.arange(100, device=device) < torch.from_numpy(lengths).to(device)[:, None]
    assert torch.equal(seen, values * inside)


def test_sums_and_gradients_of_a_group_are_those_of_its_sequences(device, plan_of):
    lengths, _ = batch_of(40, 60, device)
    values = torch.rand(40, 60, device=device, requires_grad=True)
    for group in groups_of(plan_of(lengths, 2, 2, 32)):
        total = 0
        for one in group:
            packed = PackedBatch(one, {"values": values})
            found, weights = packed.sums(packed["values"])
            (found * torch.from_numpy(one.indices.astype(numpy.int64) + 1).to(device)).sum().backward()
            total = total + torch.stack([found.detach(), weights])
        first = group[0]
        expected = [values[int(index), :length].detach().sum() for index, length in zip(first.indices, first.lengths)]
        if len(first):
            torch.testing.assert_close(total[0], torch.stack(expected))
            assert total[1].tolist() == first.lengths.tolist()
    for index, length in enumerate(lengths):
        assert (values.grad[index, :length] == index + 1).all() and not values.grad[index, length:].any()


def test_attention_is_told_the_groups_size(device, plan_of):
    lengths, values = batch_of(12, 60, device)
    for group in groups_of(plan_of(lengths, 2, 2, 32)):
        arguments = PackedBatch(group[0], {"values": values}).packed_seq_params()
        assert arguments["local_cp_size"] == len(group)
        assert arguments["cu_seqlens_q_padded"][-1] == group[0].width
        assert all(span % (2 * len(group)) == 0 or len(group) == 1
                   for span in numpy.diff(arguments["cu_seqlens_q_padded"].tolist()))


def test_a_row_is_packed_as_it_was_made(device):
    lengths, values = batch_of(12, 60, device)
    (group, *_) = [one for one in groups_of(dynamic_plan(lengths, 2, 2, 32)) if len(one) == 4]
    row = PackedRow(group[2], device=device)
    of_row, of_plan = (PackedBatch(one, {"values": values}) for one in (row, group[2]))
    assert torch.equal(of_row["values"], of_plan["values"])
    assert torch.equal(sums(row, pack(row, values))[0], sums(group[2], pack(row, values))[0])
    with pytest.raises(ValueError, match="are those of the row that is given"):
        PackedBatch(row, {"values": values}, cp=4)
    with pytest.raises(ValueError, match="cp_rank is 4; must be 0 to 3"):
        PackedRow(group[2], cp_rank=4)


def test_a_group_is_packed_for_no_other_number_of_ranks(device):
    lengths, values = batch_of(12, 60, device)
    (group, *_) = [one for one in groups_of(dynamic_plan(lengths, 2, 2, 32)) if len(one) == 4]
    for one in group:
        for cp, cp_rank in ((2, "own"), (2, 0), (8, "own"), (1, "own"), (1, None)):
            with pytest.raises(ValueError, match=f"cp is {cp}, but the micro-batch is of a group of 4 ranks"):
                PackedBatch(one, {"values": values}, cp=cp, cp_rank=cp_rank)
        assert PackedRow(one, device=device, cp=1, cp_rank=0).width == one.width
        assert PackedRow(one, device=device, cp=4).cp_rank == one.context_parallel_rank


def test_a_transformer_trained_on_groups_is_the_one_trained_without(device, plan_of):
    lengths, ids = batch_of(17, 40, device, seed=3)
    torch.manual_seed(0)
    model = ToyTransformer().to(device)
    predicted = int(lengths.sum()) - len(lengths)

    def loss_of(logits, fields):
        return torch.nn.functional.cross_entropy(
            logits[0, :-1], fields["ids"][0, 1:], reduction="sum") / predicted

    for index, length in enumerate(lengths.tolist()):
        loss_of(model.alone(ids[index, :length]), {"ids": ids[index : index + 1, :length]}).backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    for group in groups_of(plan_of(lengths, 2, 2, 24)):
        if not len(group[0]):
            continue
        shards = [PackedBatch(one, {"ids": ids}) for one in group]
        outputs = model([(one["ids"], one.position_ids, one.sequence_ids) for one in shards])
        whole = PackedBatch(group[0], {"ids": ids}, cp_rank=None)
        PackedLoss(loss_of)(whole, torch.cat(outputs)).backward()
        if len(group) > 1:
            with pytest.raises(ValueError, match="the loss needs whole sequences"):
                PackedLoss(loss_of)(shards[0], outputs[0])
    for parameter, one in zip(model.parameters(), expected):
        torch.testing.assert_close(parameter.grad, one, rtol=1e-4, atol=1e-6)
