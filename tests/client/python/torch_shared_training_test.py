"""A transformer trained on rows that share prefixes is the one trained on each sequence alone."""

import pytest

torch = pytest.importorskip("torch")

from batchplan.torch import PackedBatch, PackedLoss
from devices import device  # noqa: F401
from forests import EXAMPLE, micro_batch
from shared_training import Batch, difference, two_ranks_differ_by, with_sharing, without_sharing


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("dtype, most", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_loss_and_gradients_are_those_of_each_sequence_alone(device, dtype, most, vectorized):
    batch = Batch(7, dtype, device)
    expected = without_sharing(batch, dtype, device)
    assert difference(with_sharing(batch, dtype, device, vectorized=vectorized), expected) < most
    # What is compared is no zero.
    assert abs(expected[0]) > 1e-3 and all(float(one.abs().max()) > 1e-6 for one in expected[1])


def test_two_ranks_add_up_to_each_sequence_alone(tmp_path):
    for double, single in two_ranks_differ_by("dense", tmp_path):
        assert double < 1e-10 and single < 1e-5


@pytest.mark.parametrize("vectorized", [False, True])
def test_the_loss_gets_what_each_sequence_came_with(device, vectorized):
    mask = torch.tensor([[1, 0, 1, 0, 1, 9, 9], [0, 1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 9, 9, 9]], device=device)
    rewards = torch.tensor([1.0, 2.0, 4.0], device=device)
    packed = PackedBatch(
        micro_batch(*EXAMPLE, tail=1), {"mask": mask}, per_sequence={"reward": rewards}, pad_values={"mask": 7})
    seen = []

    def loss(output, fields):
        seen.extend(zip(output.tolist(), fields["mask"].tolist(), fields["reward"].tolist()))
        return output.sum()

    output = torch.arange(12.0, device=device, requires_grad=True)
    total = PackedLoss(loss, vectorized=vectorized)(packed, output)
    whole = [[0, 1, 2, 3, 4], [0, 1, 2, 5, 6, 7, 8], [0, 1, 9, 10]]
    for place, path in enumerate(whole):
        more = 7 - len(path) if vectorized else 0
        own = mask[place, : len(path)].tolist()
        expected = (path + [0] * more, own + [7] * more, [float(rewards[place])] * len(path) + [0] * more)
        assert seen[place] == expected
    assert total.item() == sum(map(sum, whole))
    total.backward()
    assert output.grad.tolist() == [3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0]


def test_a_micro_batch_without_sequences_has_a_loss_of_0(device):
    packed = PackedBatch(micro_batch([], [], tail=2), {"mask": torch.zeros(1, 3, device=device)})
    output = torch.ones(2, device=device, requires_grad=True)
    for vectorized in (False, True):
        total = PackedLoss(lambda *_: 1 / 0, vectorized=vectorized)(packed, output)
        assert total.item() == 0
        total.backward()
