"""Batches of ROLL's interface, for the tests of its integration."""

import types

import numpy
import pytest


class DataProto:
    """What the integration knows of ROLL's."""

    def __init__(self, batch, meta_info):
        self.batch = batch
        self.meta_info = meta_info

    def __len__(self):
        return len(self.batch["attention_mask"])

    def slice(self, start=None, end=None):
        return DataProto({name: rows[start:end] for name, rows in self.batch.items()}, self.meta_info)

    def select_idxs(self, indices):
        return DataProto({name: rows[indices] for name, rows in self.batch.items()}, self.meta_info)

    def reorder(self, indices):
        self.batch = {name: rows[indices] for name, rows in self.batch.items()}

    def chunk(self, chunks):
        size = len(self) // chunks
        return [self.slice(begin, begin + size) for begin in range(0, len(self), size)]

    def make_iterator(self, mini_batch_size, epochs, seed=None, dataloader_kwargs=None):
        assert dataloader_kwargs == {"shuffle": True}
        for epoch in range(epochs):
            order = numpy.random.default_rng([seed, epoch]).permutation(len(self))
            for begin in range(0, len(self), mini_batch_size):
                yield self.select_idxs(order[begin : begin + mini_batch_size].tolist())


def batch_of(lengths, **meta_info):
    torch = pytest.importorskip("torch")
    mask = (torch.arange(max(lengths) + 3)[None] < torch.tensor(lengths)[:, None]).long()
    return DataProto({"attention_mask": mask, "index": torch.arange(len(lengths))}, {"global_step": 1, **meta_info})


def indices_of(batch):
    return batch.batch["index"].tolist()


def config_of(capacity, forward=None, least=1, algorithm="load_balance"):
    """A SequencePackingConfig."""
    return types.SimpleNamespace(
        algorithm=algorithm, max_packed_sequence_length_train=capacity, max_packed_sequence_length_forward=forward,
        min_num_micro_batches_train=least, min_num_micro_batches_forward=least)
