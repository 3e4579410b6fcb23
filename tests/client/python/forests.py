"""Micro-batches whose sequences share prefixes, by hand, and what their rows must be, followed token by token."""

import numpy
import torch

from batchplan._micro_batch import MicroBatch

EXAMPLE = [5, 7, 4], [0, 3, 2]


def micro_batch(lengths, shared, tail=0, indices=None):
    """A row of them, with a tail of so many tokens. The multiple is one that such a row takes no notice of."""
    lengths, shared = numpy.array(lengths, numpy.uint32), numpy.array(shared, numpy.uint32)
    indices = numpy.array(range(len(lengths)) if indices is None else indices, numpy.uint32)
    width = int(lengths.sum()) - int(shared.sum()) + tail
    return MicroBatch(0, 0, 0, indices, lengths, width, 8, shared_tokens=shared)


def star(random, count=16, prompt=20, longest=12):
    lengths = prompt + random.integers(0, longest + 1, count)
    return lengths.tolist(), [0] + [prompt] * (count - 1)


def chain(count, tokens_a_turn=1):
    return [(i + 1) * tokens_a_turn for i in range(count)], [i * tokens_a_turn for i in range(count)]


def comb(count):
    """A sequence, and branches of it, the deepest first."""
    return [count] + [i + 2 for i in reversed(range(count))], [0] + list(reversed(range(count)))


def random_forest(random, most=10, longest=14):
    lengths, shared = [], []
    for _ in range(random.integers(0, most + 1)):
        before = lengths[-1] if lengths else 0
        length = int(random.integers(0, longest + 1))
        own = int(random.integers(0, min(length, before) + 1)) if random.random() < 0.7 else 0
        kind = random.integers(0, 6)
        if kind == 0:  # a copy, or a prefix, of the one before
            length = own = before if random.random() < 0.5 else int(random.integers(0, before + 1))
        elif kind == 1:  # goes on where the one before ended
            length, own = before + int(random.integers(0, 4)), before
        lengths.append(length)
        shared.append(own)
    return lengths, shared


def forests(seed, rounds=25):
    random = numpy.random.default_rng(seed)
    yield EXAMPLE
    yield [], []
    yield [0, 0], [0, 0]
    yield [4, 4, 4, 2, 4], [0, 4, 4, 2, 2]
    yield star(random)
    yield chain(40)
    yield comb(12)
    for _ in range(rounds):
        yield random_forest(random)


def naive_paths(lengths, shared):
    """Of each sequence, where its tokens stand in the row."""
    found, taken = [], 0
    for length, own in zip(lengths, shared):
        path = list(found[-1][:own]) if found else []
        while len(path) < length:
            path.append(taken)
            taken += 1
        found.append(path)
    return found


def seen(lengths, shared, tail=0):
    """Whether each query, by row, sees each key: those before it on its own path. The tail sees itself."""
    paths = naive_paths(lengths, shared)
    taken = sum(lengths) - sum(shared)
    mask = torch.zeros(taken + tail, taken + tail, dtype=torch.bool)
    for path in paths:
        for place, cell in enumerate(path):
            mask[cell, path[: place + 1]] = True
    mask[taken:, taken:] = torch.ones(tail, tail, dtype=torch.bool).tril()
    return mask


def token_ids(random, lengths, shared, vocabulary=50):
    """[sequences, longest] of ids that are equal where they are shared."""
    ids = random.integers(0, vocabulary, (len(lengths), max(lengths, default=0)))
    for place, own in enumerate(shared):
        if own:
            ids[place, :own] = ids[place - 1, :own]
    return torch.from_numpy(ids)
