"""Lengths for the tests, and what every division of them keeps."""

import numpy


def long_tailed(count, seed, longest=4096):
    lengths = numpy.random.default_rng(seed).lognormal(5.5, 1.2, count)
    return numpy.clip(lengths, 1, longest).astype(int).tolist()


def assert_each_once(parts, count):
    assert sorted(index for part in parts for index in part) == list(range(count))


def verl_cost(lengths, part):
    """As verl, and others after it, count 7B parameters."""
    return sum(24576 * lengths[i] + lengths[i] ** 2 for i in part)


def lockstep(lengths, slots):
    """The step's time where ranks wait for each other at every micro-batch: [slots][ranks] of positions."""
    return sum(max(verl_cost(lengths, part) for part in slot) for slot in slots)
