"""A transformer trained on packed rows is the one trained without packing."""

import numpy
import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan.torch import PackedBatch, PackedLoss, unpack
from devices import device  # noqa: F401
from toy_transformer import ToyTransformer


class Batch:
    """A global batch with responses of which only a part counts."""

    def __init__(self, device, count=17, longest=40):
        generator = numpy.random.default_rng(3)
        self.lengths = generator.integers(2, longest + 1, count)
        self.ids = torch.from_numpy(generator.integers(0, 50, (count, longest))).to(device)
        mask = torch.from_numpy(generator.random((count, longest)) < 0.7).to(device)
        inside = torch.arange(longest, device=device) < torch.from_numpy(self.lengths).to(device)[:, None]
        self.mask = mask & inside
        # The first token is predicted by none.
        self.mask[:, 0] = False
        self.advantages = torch.from_numpy(generator.normal(size=count)).float().to(device)
        self.global_tokens = int(self.mask.sum())


def loss_of(logits, fields, global_tokens):
    """As one writes it for padded sequences: [1, L, V] and [1, L]; or all of them at once."""
    log_probs = torch.log_softmax(logits[:, :-1].float(), dim=-1)
    chosen = log_probs.gather(-1, fields["ids"][:, 1:].unsqueeze(-1)).squeeze(-1)
    mask = fields["mask"][:, 1:]
    weighted = chosen * fields["advantages"][:, 1:] * mask
    return -weighted.sum() / global_tokens, {"tokens": int(mask.sum())}


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


def trained_without_packing(batch, device):
    torch.manual_seed(0)
    model = ToyTransformer().to(device)
    total = 0.0
    for index, length in enumerate(batch.lengths):
        ids = batch.ids[index, :length]
        fields = {
            "ids": ids[None],
            "mask": batch.mask[index : index + 1, :length],
            "advantages": batch.advantages[index].expand(1, length),
        }
        loss, _ = loss_of(model.alone(ids), fields, batch.global_tokens)
        loss.backward()
        total += loss.item()
    return total, gradients(model)


def plan_of(batch, cp=1):
    plan = batchplan.plan(batch.lengths, dp=2, cp=cp, max_tokens=96)
    return [microbatch for rank in range(2) for microbatch in plan.rank(rank)]


def assert_trained_alike(found, expected):
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for one, other in zip(found[1], expected[1]):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_loss_written_for_padded_sequences(device, vectorized):
    batch = Batch(device)
    torch.manual_seed(0)
    model = ToyTransformer().to(device)
    loss = PackedLoss(loss_of, vectorized=vectorized, metrics=True)
    total, tokens = 0.0, 0
    for microbatch in plan_of(batch):
        packed = PackedBatch(
            microbatch,
            {"ids": batch.ids, "mask": batch.mask},
            per_sequence={"advantages": batch.advantages},
        )
        (logits,) = model([(packed["ids"], packed.position_ids, packed.sequence_ids)])
        one, metrics = loss(packed, logits, global_tokens=batch.global_tokens)
        one.backward()
        total += one.item()
        tokens += metrics["tokens"]
    assert tokens == batch.global_tokens
    assert_trained_alike((total, gradients(model)), trained_without_packing(batch, device))


@pytest.mark.parametrize("cp", [1, 2])
def test_sums_over_shifted_labels_whatever_the_context_parallel_size(device, cp):
    """What a trainer does under context parallelism: no rank has a whole sequence, and the parts of the
    sums that the ranks have are added up."""
    batch = Batch(device)
    torch.manual_seed(0)
    model = ToyTransformer().to(device)
    total = 0.0
    for microbatch in plan_of(batch, cp):
        shards = [
            PackedBatch(
                microbatch,
                {"ids": batch.ids, "labels": batch.ids, "mask": batch.mask},
                per_sequence={"advantages": batch.advantages},
                shifts={"labels": 1, "mask": 1},
                cp=cp,
                cp_rank=rank,
            )
            for rank in range(cp)
        ]
        outputs = model([(one["ids"], one.position_ids, one.sequence_ids) for one in shards])
        for packed, logits in zip(shards, outputs):
            chosen = torch.log_softmax(logits, dim=-1).gather(-1, packed["labels"][:, None])[:, 0]
            sums, _ = packed.sums(chosen * packed["advantages"], packed["mask"])
            loss = -sums.sum() / batch.global_tokens
            loss.backward(retain_graph=True)
            total += loss.item()
    assert_trained_alike((total, gradients(model)), trained_without_packing(batch, device))


def test_a_loss_over_the_gathered_shards(device):
    batch = Batch(device)
    torch.manual_seed(0)
    model = ToyTransformer().to(device)
    loss = PackedLoss(loss_of, metrics=True)
    total = 0.0
    for microbatch in plan_of(batch, cp=2):
        fields = {"ids": batch.ids, "mask": batch.mask}
        shards = [PackedBatch(microbatch, fields, cp=2, cp_rank=rank) for rank in range(2)]
        outputs = model([(one["ids"], one.position_ids, one.sequence_ids) for one in shards])
        packed = PackedBatch(
            microbatch,
            fields,
            per_sequence={"advantages": batch.advantages},
            cp=2,
            cp_rank=None,
        )
        one, _ = loss(packed, torch.cat(outputs), global_tokens=batch.global_tokens)
        one.backward()
        total += one.item()
        with pytest.raises(ValueError, match="the loss needs whole sequences"):
            loss(shards[0], outputs[0], global_tokens=1)
    assert_trained_alike((total, gradients(model)), trained_without_packing(batch, device))


def test_log_probabilities_come_back_to_the_batch(device):
    batch = Batch(device)
    torch.manual_seed(0)
    model = ToyTransformer().to(device)
    longest = batch.ids.shape[1]
    found = torch.zeros(len(batch.lengths), longest, device=device)
    with torch.no_grad():
        for microbatch in plan_of(batch):
            packed = PackedBatch(
                microbatch, {"ids": batch.ids, "labels": batch.ids}, shifts={"labels": 1}
            )
            (logits,) = model([(packed["ids"], packed.position_ids, packed.sequence_ids)])
            chosen = torch.log_softmax(logits, dim=-1).gather(-1, packed["labels"][:, None])[:, 0]
            found += packed.unpack(chosen, shift=1, width=longest, num_rows=len(batch.lengths))
        for index, length in enumerate(batch.lengths):
            ids = batch.ids[index, :length]
            expected = torch.log_softmax(model.alone(ids)[0, :-1], dim=-1).gather(-1, ids[1:, None])[:, 0]
            torch.testing.assert_close(found[index, 1:length], expected, rtol=1e-4, atol=1e-5)
            assert found[index, 0] == 0


def test_a_microbatch_without_sequences_has_a_loss_to_go_back_from(device):
    plan = batchplan.plan([7], dp=2, max_tokens=8, allow_empty_microbatches=True)
    (empty,) = [one for rank in range(2) for one in plan.rank(rank) if not len(one)]
    packed = PackedBatch(empty, {"ids": torch.zeros(1, 7, dtype=torch.int64, device=device)})
    weight = torch.ones(0, 3, device=device, requires_grad=True)
    for vectorized in (False, True):
        loss, metrics = PackedLoss(loss_of, vectorized=vectorized, metrics=True)(
            packed, weight, global_tokens=1
        )
        loss.backward()
        assert loss.item() == 0 and metrics == {}
        assert not PackedLoss(loss_of, vectorized=vectorized)(packed, weight, global_tokens=1).item()


@pytest.mark.parametrize("returned", [
    lambda output: output.sum(dim=(0, 2)), lambda output: 1.0, lambda output: (output.sum(), {})])
def test_a_loss_is_a_scalar(returned):
    (microbatch,) = batchplan.plan([2], max_tokens=8).rank(0)
    packed = PackedBatch(microbatch, {"ids": torch.zeros(1, 2)})
    with pytest.raises(ValueError, match="the loss returned a .*; must be a scalar tensor"):
        PackedLoss(lambda output, fields: returned(output))(packed, torch.ones(2, 1))


def test_a_loss_without_metrics_is_added_up_in_single_precision(device):
    (microbatch,) = batchplan.plan([1, 1], max_tokens=8).rank(0)
    packed = PackedBatch(microbatch, {"ids": torch.zeros(2, 1, device=device)})
    logits = torch.tensor([[256.0], [1.0]], dtype=torch.bfloat16, device=device, requires_grad=True)
    loss = PackedLoss(lambda output, fields: output.sum())(packed, logits)
    assert loss.dtype == torch.float32 and loss.item() == 257
    loss.backward()
    assert logits.grad.tolist() == [[1], [1]]


def test_unpack_gives_the_loss_of_the_padded_batch(device):
    batch = Batch(device, count=5)
    for microbatch in plan_of(batch):
        packed = PackedBatch(microbatch, {"ids": batch.ids})
        values = torch.rand(packed.row.width, 3, device=device, requires_grad=True)
        unpack(packed.row, values).pow(2).sum().backward()
        torch.testing.assert_close(values.grad, 2 * values.detach())
