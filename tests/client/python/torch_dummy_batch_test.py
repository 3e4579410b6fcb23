"""DummyBatchCollator: ranks without sequences meet the others."""

import pickle

import pytest

torch = pytest.importorskip("torch")

from empty_ranks import check_ranks
from batchplan.torch import BatchSampler, DummyBatchCollator

def test_ranks_without_sequences_train_as_one_process_does(tmp_path):
    """33 sequences in batches of 16: three of four ranks have none of the last one."""
    check_ranks(tmp_path, "ddp")


def test_without_it_an_empty_microbatch_is_no_tensor():
    sampler = BatchSampler([5] * 33, 16, rank=3, dp=4, max_tokens=64, allow_empty_microbatches=True)
    assert list(sampler)[-1] == []
    with pytest.raises((RuntimeError, ValueError), match="non-empty"):
        torch.cat([])


@pytest.mark.parametrize("collated, expected", [
    ({"labels": torch.tensor([3, 4]), "ids": torch.tensor([3, 4])}, {"labels": [-100, -100], "ids": [3, 4]}),
    ({"loss_mask": torch.tensor([True, False])}, {"loss_mask": [False, False]}),
    ({"loss_mask": torch.tensor([1.0]), "labels": torch.tensor([1])}, {"loss_mask": [0.0], "labels": [-100]}),
])
def test_what_counts_for_the_loss_is_masked(collated, expected):
    collate = DummyBatchCollator(lambda rows: dict(collated), dummy=None)
    assert {name: value.tolist() for name, value in collate([]).items()} == expected
    assert collate([1])["labels" if "labels" in collated else "loss_mask"].tolist() != expected.get("labels")


def test_another_mask_is_for_other_batches():
    collate = DummyBatchCollator(torch.cat, torch.ones(2), mask=lambda row: row * 0)
    assert collate([]).tolist() == [0, 0] and collate([torch.ones(1)]).tolist() == [1]
    assert pickle.loads(pickle.dumps(DummyBatchCollator(torch.cat, torch.ones(2), torch.zeros_like)))([]).tolist() == [0, 0]


@pytest.mark.parametrize("collate_fn, named", [
    (torch.cat, 'collate_fn gives a Tensor; must be a mapping with a tensor "labels" or "loss_mask", unless `mask`'),
    (lambda rows: {"ids": rows[0]}, "collate_fn gives a dict with 'ids'; must be"),
    (lambda rows: {"labels": [1]}, "collate_fn gives a dict with 'labels'; must be"),
])
def test_a_batch_whose_loss_it_cannot_make_zero_is_refused(collate_fn, named):
    with pytest.raises(ValueError, match=named):
        DummyBatchCollator(collate_fn, torch.ones(2))


def test_a_collator_that_takes_fields_out_finds_them_each_time():
    def collate(items):
        return {"labels": torch.tensor([item.pop("labels") for item in items])}

    collator = DummyBatchCollator(collate, {"labels": [1, 2]})
    assert [collator([])["labels"].tolist() for _ in range(2)] == [[[-100, -100]]] * 2
