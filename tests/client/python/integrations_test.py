"""batchplan.integrations: the interfaces that trainers know, and what they may rely on."""

import numpy
import pytest
from batchplan.integrations import nemo_rl, verl


def long_tailed(count, seed, longest=4096):
    lengths = numpy.random.default_rng(seed).lognormal(5.5, 1.2, count)
    return numpy.clip(lengths, 1, longest).astype(int).tolist()


def assert_each_once(parts, count):
    assert sorted(index for part in parts for index in part) == list(range(count))


NEMO_RL_ALGORITHMS = [
    "concatenative", "first_fit_decreasing", "first_fit_shuffle", "modified_first_fit_decreasing", "balanced"]


@pytest.mark.parametrize("algorithm", NEMO_RL_ALGORITHMS)
@pytest.mark.parametrize("seed", range(5))
def test_nemo_rl_bins_hold_every_sequence_within_their_capacity(algorithm, seed):
    lengths = long_tailed(300, seed)
    packer = nemo_rl.get_packer(algorithm, 4096, min_bin_count=8, bin_count_multiple=8)
    bins = packer.pack(lengths)
    assert_each_once(bins, 300)
    assert max(sum(lengths[i] for i in one) for one in bins) <= 4096
    assert len(bins) % 8 == 0 and len(bins) >= 8
    assert packer.pack(lengths) == bins


def test_nemo_rl_ranks_get_alike_bins_when_they_are_dealt():
    lengths = long_tailed(512, 1)
    bins = nemo_rl.get_packer("balanced", 4096, bin_count_multiple=8).pack(lengths)
    cost = [sum(lengths[i] + lengths[i] ** 2 / 24576 for i in one) for one in bins]
    of_ranks = [sum(cost[rank::8]) for rank in range(8)]
    assert max(of_ranks) / (sum(of_ranks) / 8) < 1.02


def test_nemo_rl_counts_and_metrics():
    packer = nemo_rl.SequencePacker(10, collect_metrics=True, min_bin_count=3)
    # What NeMo-RL's own bin-count fix makes [[5], [4, 3, 2], [0], [1]] of, for 4.
    assert len(packer.pack([2, 2, 2, 2, 2, 9])) == 3
    assert [one.microbatches for one in packer.metrics] == [3]
    with pytest.raises(ValueError, match="9"):
        nemo_rl.SequencePacker(8).pack([2, 9])
    with pytest.raises(ValueError, match="min_microbatches 3"):
        packer.pack([2, 9])
    with pytest.raises(ValueError, match='algorithm is "best"'):
        nemo_rl.get_packer("best", 8)


@pytest.mark.parametrize("equal_size", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_verl_parts_are_alike(equal_size, seed):
    lengths = long_tailed(256, seed)
    parts = verl.get_seqlen_balanced_partitions(lengths, 8, equal_size)
    assert_each_once(parts, 256)
    assert all(part == sorted(part) for part in parts)
    if equal_size:
        assert {len(part) for part in parts} == {32}
    cost = [sum(24576 * lengths[i] + lengths[i] ** 2 for i in part) for part in parts]
    assert max(cost) / (sum(cost) / 8) < 1.02


def test_verl_parts_that_can_not_be_had_are_errors():
    with pytest.raises(ValueError):
        verl.get_seqlen_balanced_partitions([1, 2, 3], 4, False)
    with pytest.raises(ValueError):
        verl.get_seqlen_balanced_partitions([1, 2, 3], 2, True)


def test_verl_micro_batches_keep_the_budget():
    # Of its own, verl makes a micro-batch of 14 here, and one over the budget of most long-tailed batches.
    assert len(verl.get_micro_batches([7] * 8, 8)) == 8
    for seed in range(20):
        lengths = long_tailed(64, seed)
        parts = verl.get_micro_batches(lengths, 4096)
        assert_each_once(parts, 64)
        assert max(sum(lengths[i] for i in part) for part in parts) <= 4096


def test_verl_numbers_of_micro_batches():
    lengths = long_tailed(64, 1, longest=1000)
    own = len(verl.get_micro_batches(lengths, 4096))
    assert len(verl.get_micro_batches(lengths, 4096, min_num_micro_batch=own + 2)) == own + 2
    assert len(verl.get_micro_batches(lengths, 4096, num_batches_divided_by=7)) % 7 == 0
    asked = []
    parts = verl.get_micro_batches(lengths, 4096, agree=lambda number: asked.append(number) or number + 3)
    assert asked == [own] and len(parts) == own + 3
    groups = verl.get_micro_batches(lengths, 4096, force_group_size=4)
    part_of = {index: number for number, part in enumerate(groups) for index in part}
    assert all(len({part_of[first + i] for i in range(4)}) == 1 for first in range(0, 64, 4))
