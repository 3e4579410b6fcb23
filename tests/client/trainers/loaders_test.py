"""BatchSampler in torchdata's loader, and empty micro-batches in transformers' collator and FSDP."""

import json
import pathlib
import sys

import numpy
import pytest
import torch
import transformers
from batchplan.torch import BatchSampler, DummyBatchCollator
from torchdata.stateful_dataloader import StatefulDataLoader

sys.path.append(str(pathlib.Path(__file__).parents[1] / "python"))

from empty_ranks import check_ranks  # noqa: E402

LENGTHS = numpy.clip(numpy.random.default_rng(0).lognormal(4, 1, 90), 1, 512).astype(int)


class Positions(torch.utils.data.Dataset):
    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, place):
        return place


def loader_of(workers, **options):
    sampler = BatchSampler(LENGTHS, 30, dp=2, max_tokens=512, seed=1, **options)
    return StatefulDataLoader(Positions(), batch_sampler=sampler, collate_fn=list, num_workers=workers), sampler


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("window", [1, 2])
def test_a_stateful_loader_resumes_where_the_training_was(workers, window):
    loader, sampler = loader_of(workers, window=window)
    epochs = [list(loader) for _ in range(3)]
    assert sampler.epoch == 3
    loader, _ = loader_of(workers, window=window)
    states = []
    for _ in range(2):
        for _ in loader:
            states.append(json.loads(json.dumps(loader.state_dict())))
    every = epochs[0] + epochs[1] + epochs[2]
    # Amid the first epoch, around its end, and at the end of the second.
    first, second = len(epochs[0]), len(epochs[0]) + len(epochs[1])
    for seen in (1, 4, first - 2, first - 1, first, first + 1, second - 1, second):
        resumed, _ = loader_of(workers, window=window)
        resumed.load_state_dict(states[seen - 1])
        assert [*resumed, *resumed, *resumed][: len(every) - seen] == every[seen:]


def test_a_flattened_batch_of_an_empty_microbatch_has_no_labels():
    items = [{"input_ids": [1, 2, 3]}, {"input_ids": [4, 5]}]
    collate = DummyBatchCollator(transformers.DataCollatorWithFlattening(), items[1])
    full, empty = collate(items), collate([])
    assert empty.keys() == full.keys()
    assert empty["input_ids"].tolist() == [[4, 5]] and (empty["labels"] == -100).all()
    assert (full["labels"] != -100).any()


def test_ranks_without_sequences_meet_the_others_in_fsdp(tmp_path):
    check_ranks(tmp_path, "fsdp")
