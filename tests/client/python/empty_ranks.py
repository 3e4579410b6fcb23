"""One rank of a gloo group that trains on micro-batches of which some are empty: empty_ranks.py STORE RANK RANKS WRAPPER.

Prints the gradients that a first step has, as JSON, and how many of the rank's micro-batches were empty.
"""

import datetime
import json
import subprocess
import sys

import numpy
import torch
from batchplan.torch import BatchSampler, DummyBatchCollator
from torch import distributed

COUNT, VOCABULARY = 33, 11


class Sequences(torch.utils.data.Dataset):
    def __init__(self):
        generator = numpy.random.default_rng(1)
        self.rows = [torch.from_numpy(generator.integers(0, VOCABULARY, length)) for length in generator.integers(2, 9, COUNT)]

    def __len__(self):
        return COUNT

    def __getitem__(self, place):
        return self.rows[place]


def collate(rows):
    """Packed, each token to predict itself."""
    return {"input_ids": torch.cat(rows), "labels": torch.cat(rows)}


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(VOCABULARY, 8), torch.nn.Tanh(), torch.nn.Linear(8, VOCABULARY))


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["input_ids"]), batch["labels"], reduction="sum")


def loader_of(rank, ranks, workers=0):
    dataset = Sequences()
    sampler = BatchSampler([len(row) for row in dataset.rows], 16, rank=rank, dp=ranks, max_tokens=64, seed=1,
                           shuffle=False, allow_empty_microbatches=True)
    return torch.utils.data.DataLoader(
        dataset, batch_sampler=sampler, collate_fn=DummyBatchCollator(collate, dataset[0]), num_workers=workers)


def wrapped(model, wrapper):
    if wrapper == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model)


def check_ranks(folder, wrapper, ranks=4):
    """Starts the ranks, and expects the gradients of one process that has all sequences at once."""
    started = [
        subprocess.Popen([sys.executable, __file__, str(folder / wrapper), str(rank), str(ranks), wrapper],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    outcomes = []
    for one in started:
        printed, errors = one.communicate(timeout=300)
        assert one.returncode == 0, errors
        outcomes.append(json.loads(printed.splitlines()[-1]))
    assert sorted(one["empty"] for one in outcomes) == [0, 1, 1, 1]
    model = model_of()
    loss_of(model, collate(Sequences().rows)).backward()
    for one in outcomes:
        for found, parameter in zip(one["gradients"], model.parameters()):
            torch.testing.assert_close(torch.tensor(found), parameter.grad)


def main():
    store, rank, ranks, wrapper = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    distributed.init_process_group(
        "gloo", f"file://{store}", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=100))
    model = wrapped(model_of(), wrapper)
    empty = 0
    for batch in loader_of(rank, ranks, workers=1):
        empty += bool((batch["labels"] == -100).all())
        # Both wrappers take the mean over ranks.
        (loss_of(model, batch) * ranks).backward()
    gradients = [one.grad for one in model.parameters()]
    gradients = [(one.full_tensor() if hasattr(one, "full_tensor") else one).tolist() for one in gradients]
    print(json.dumps({"empty": empty, "gradients": gradients}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
