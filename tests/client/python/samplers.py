"""Samplers of a dataset with a long tail, for the tests of BatchSampler."""

import numpy
from batchplan.torch import BatchSampler

COUNT, BATCH, BUDGET = 230, 50, 512


def lengths_of(count=COUNT, seed=0):
    return numpy.clip(numpy.random.default_rng(seed).lognormal(4, 1, count), 1, BUDGET).astype(int)


def sampler_of(rank=0, **options):
    return BatchSampler(lengths_of(), BATCH, rank=rank, **{"dp": 2, "max_tokens": BUDGET, **options})
