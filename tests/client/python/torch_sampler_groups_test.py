"""BatchSampler with mini-batches of so many groups, and with groups that begin with one prompt."""

import itertools
import json

import batchplan
import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan.torch import BatchSampler, BatchSizeSchedule, Mixture

BUDGET = 1000


def groups_of(count=96, seed=0, shuffled=False):
    """Lengths of sequences, and their groups, of one to seven."""
    draw = numpy.random.default_rng(seed)
    groups = numpy.repeat(numpy.arange(count), draw.integers(1, 8, count))
    if shuffled:
        groups = draw.permutation(groups)
    return draw.lognormal(4.6, 0.8, len(groups)).clip(1, BUDGET).astype(int), groups


def samplers_of(lengths, dp=4, batch=64, **options):
    options = {"max_tokens": BUDGET, "seed": 1, "effort": "fast", "mini_batch_groups": 8, **options}
    return [BatchSampler(lengths, batch, rank=rank, dp=dp, **options) for rank in range(dp)]


def mini_batches_of(sampler, groups):
    """The groups of each mini-batch of its epoch, as its plans have them."""
    found = []
    for step in range(sampler.steps):
        plan, batch = sampler.plan(step)
        of_step = {}
        for one in itertools.chain(*(plan.rank(rank) for rank in range(plan.passes[0].data_parallel))):
            of_step.setdefault(one.mini_batch, []).extend(batch[one.indices].tolist())
        found += [of_step[number] for number in sorted(of_step)]
    return found, [sorted({int(groups[index]) for index in own}) for own in found]


@pytest.mark.parametrize("options", [
    {}, {"microbatches_per_step": 3, "max_tokens": 2 * BUDGET}, {"shuffle": False}, {"groups": "same_rank"},
    {"batch": BatchSizeSchedule([(0, 40), (100, 80)])}, {"largest_first": True}, {"batch": 36},
])
@pytest.mark.parametrize("shuffled", [False, True])
def test_each_mini_batch_has_as_many_groups(options, shuffled):
    lengths, groups = groups_of(shuffled=shuffled)
    if shuffled and options.get("shuffle") is False:
        # No border but the end is between groups.
        options = {**options, "batch": len(lengths)}
    samplers = samplers_of(lengths, group_ids=groups, **options)
    for epoch in range(3):
        for one in samplers:
            one.set_epoch(epoch)
        sequences, mini_batches = mini_batches_of(samplers[0], groups)
        assert [len(one) for one in mini_batches] == [8] * 12
        assert sorted(sum(mini_batches, [])) == list(range(96))
        assert sorted(sum(sequences, [])) == list(range(len(lengths)))
        count = len(samplers[0])
        of_ranks = [list(one) for one in samplers]
        assert {len(one) for one in of_ranks} == {count}
        assert sorted(index for one in of_ranks for batch in one for index in batch) == list(range(len(lengths)))


def test_groups_that_are_left_make_a_smaller_mini_batch_or_are_left_out():
    lengths, groups = groups_of(99)
    smaller = samplers_of(lengths, group_ids=groups, last_mini_batch="smaller")[0]
    for _ in range(2):
        _, mini_batches = mini_batches_of(smaller, groups)
        assert [len(one) for one in mini_batches] == [8] * 12 + [3]
        list(smaller)
    dropped = samplers_of(lengths, group_ids=groups, drop_last=True)[0]
    left_out = set()
    for _ in range(8):
        _, mini_batches = mini_batches_of(dropped, groups)
        assert {len(one) for one in mini_batches} == {8} and len(mini_batches) >= 11
        assert len(set(sum(mini_batches, []))) == 8 * len(mini_batches)
        left_out |= set(range(99)) - set(sum(mini_batches, []))
        list(dropped)
    assert len(left_out) > 11
    with pytest.raises(ValueError, match="mini_batch_groups is 8, which does not divide the 99 groups of the dataset: drop_last"):
        samplers_of(lengths, group_ids=groups)
    with pytest.raises(ValueError, match="mini_batch_groups is 8, which does not divide the 0 groups"):
        samplers_of(lengths)


@pytest.mark.parametrize("number", [None, 2])
def test_a_smaller_last_mini_batch_of_sequences(number):
    lengths = groups_of(30, seed=2)[0][:106]
    samplers = samplers_of(lengths, mini_batch_groups=None, mini_batch_size=16, last_mini_batch="smaller",
                           microbatches_per_step=number, max_tokens=BUDGET if number is None else 2 * BUDGET)
    for _ in range(2):
        sizes = [len(one) for one in mini_batches_of(samplers[0], lengths)[0]]
        assert sizes == [16] * (len(lengths) // 16) + [len(lengths) % 16]
        count = len(samplers[0])
        of_ranks = [list(one) for one in samplers]
        assert {len(one) for one in of_ranks} == {count}
        assert sorted(index for one in of_ranks for batch in one for index in batch) == list(range(len(lengths)))


def test_mini_batches_of_groups_hold_a_mixture():
    groups = numpy.arange(96 * 4) // 4
    lengths = groups_of(seed=3)[0].repeat(4)[: len(groups)]
    sampler = samplers_of(lengths, group_ids=groups, mixture=Mixture(groups % 3))[0]
    for _ in range(2):
        sequences, mini_batches = mini_batches_of(sampler, groups)
        assert {len(one) for one in mini_batches} == {8} and sorted(sum(mini_batches, [])) == list(range(96))
        for step in range(sampler.steps):
            _, batch = sampler.plan(step)
            counts = numpy.bincount(groups[batch] % 3, minlength=3)
            assert counts.max() - counts.min() <= 4
        list(sampler)


@pytest.mark.parametrize("saved, loading", list(itertools.permutations((1, 2, 8), 2)))
def test_a_state_goes_on_with_another_dp(saved, loading):
    lengths, groups = groups_of()
    sampler = samplers_of(lengths, saved, group_ids=groups)[0]
    expected, _ = mini_batches_of(sampler, groups)
    first = iter(sampler)
    done = 0
    for step in range(3):
        plan, batch = sampler.plan(step)
        done += len(batch)
        for _ in plan.rank(0):
            next(first)
    state = json.loads(json.dumps(sampler.state_dict()))
    resumed = samplers_of(lengths, loading, group_ids=groups)
    for one in resumed:
        one.load_state_dict(state)
    left = sorted(index for one in resumed for batch in list(one) for index in batch)
    assert left == sorted(sum(expected, [])[done:])
    with pytest.raises(ValueError, match="mini_batch_groups is 6; it was 8 when"):
        samplers_of(lengths, group_ids=groups, mini_batch_groups=6)[0].load_state_dict(state)


def test_a_global_batch_has_a_mini_batch_at_least():
    lengths, groups = groups_of()
    with pytest.raises(ValueError, match="batch_size is 20; .* would end within group .*, and mini_batch_groups is 8"):
        samplers_of(lengths, group_ids=groups, batch=20)


def test_a_window_is_of_global_batches_that_are_one_mini_batch():
    lengths, groups = groups_of()
    with pytest.raises(ValueError, match="window is 2, of global batches that are one mini-batch each; mini_batch_groups is 8"):
        samplers_of(lengths, group_ids=groups, window=2)


def test_groups_share_their_prompt():
    draw = numpy.random.default_rng(5)
    groups = numpy.arange(64 * 4) // 4
    prompts = draw.integers(100, 400, 64)[groups]
    lengths = prompts + draw.integers(10, 300, len(groups))
    options = {"mini_batch_groups": None, "group_ids": groups, "groups": "same_mini_batch", "batch": 32}
    samplers = samplers_of(lengths, prompt_lengths=prompts, largest_first=True, **options)
    alone = samplers_of(lengths, largest_first=True, **options)[0]
    for _ in range(2):
        laid = whole = 0
        for step in range(samplers[0].steps):
            plan, batch = samplers[0].plan(step)
            laid, whole = laid + plan.metrics.laid_tokens, whole + plan.metrics.true_tokens
            for one in itertools.chain(*(plan.rank(rank) for rank in range(4))):
                for before, place, shared in zip(one.indices, one.indices[1:], one.shared_tokens[1:]):
                    before, place = batch[before], batch[place]
                    assert shared in (0, prompts[place] if groups[before] == groups[place] else 0)
        assert laid < 0.8 * whole
        slots = list(zip(*map(list, samplers), strict=True))
        assert sorted(index for slot in slots for own in slot for index in own) == list(range(len(groups)))
    samplers[0].load_state_dict(samplers[1].state_dict())
    with pytest.raises(ValueError, match="prompt_lengths are not those of when"):
        samplers[0].load_state_dict(alone.state_dict())
    with pytest.raises(ValueError, match=r"manifest.prompt_lengths\[1\] .*is .*, but .* of sequence 0, which is of the same group"):
        samplers_of(lengths, prompt_lengths=prompts - numpy.arange(len(groups)) % 2, **options)


def test_what_fits_by_its_prompt_alone_is_planned():
    """One sequence too many for the ranks, of which no two fit together whole."""
    groups = [*range(8), 7]
    sampler = BatchSampler([600] * 9, 9, dp=4, max_tokens=BUDGET, group_ids=groups, prompt_lengths=[500] * 9)
    assert sorted(sampler.plan(0)[1].tolist()) == list(range(9))
    with pytest.raises(batchplan.InvalidRequest, match="lengths can't be divided among 4 ranks"):
        BatchSampler([600] * 9, 9, dp=4, max_tokens=BUDGET, group_ids=groups)
