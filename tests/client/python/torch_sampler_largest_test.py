"""BatchSampler with its largest micro-batch at once, so that memory fails at the beginning."""

import itertools
import json

import batchplan
import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan.torch import BatchSampler, BatchSizeSchedule

BUDGET = 1000


def lengths_of(count, seed=0):
    lengths = numpy.random.default_rng(seed).lognormal(numpy.log(0.15), 0.8, count) * BUDGET
    return lengths.clip(1, BUDGET).astype(int)


def samplers_of(seed=0, count=310, **options):
    """One that begins with its largest, and one that does not."""
    options = {"dp": 4, "max_tokens": BUDGET, "seed": seed, "effort": "fast", **options}
    return [BatchSampler(lengths_of(count, seed), 32, largest_first=first, **options) for first in (True, False)]


def batches_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return [sampler.plan(step)[1].tolist() for step in range(sampler.steps)]


def tokens_of(sampler):
    """Of the largest micro-batch of each global batch of its epoch, as memory has it."""
    found = []
    for step in range(sampler.steps):
        plan, _ = sampler.plan(step)
        found.append(max(one.width * (len(one) if one.padded else 1) for rank in range(4) for one in plan.rank(rank)))
    return found


@pytest.mark.parametrize("options", [
    {}, {"drop_last": True}, {"microbatches_per_step": 4, "max_tokens": 1600}, {"window": 3}, {"mini_batch_size": 16, "count": 320},
    {"groups": "same_rank", "group_ids": numpy.arange(310) // 2}, {"max_tokens": None, "passes": [batchplan.Pass(1600, scan="sorted")]},
    {"overlong": "alone", "max_tokens": 500}, {"shuffle": False},
])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_epoch_begins_with_its_largest_and_has_the_others_in_their_order(seed, options):
    first, plain = samplers_of(seed, **options)
    own, others = batches_of(first, 0), batches_of(plain, 0)
    assert own[1:] == [one for one in others if one != own[0]] and own[0] in others
    tokens = tokens_of(first)
    assert tokens[0] == max(tokens) and sorted(tokens) == sorted(tokens_of(plain))
    assert batches_of(first, 1) == batches_of(plain, 1)


def test_among_equals_the_costliest_is_first():
    """All micro-batches are full; one has a single sequence, of which attention costs the most."""
    lengths = [100] * 70 + [1000] + [500] * 4
    sampler = BatchSampler(lengths, 15, max_tokens=BUDGET, largest_first=True, shuffle=False)
    assert 70 in sampler.plan(0)[1].tolist()
    plain = BatchSampler(lengths, 15, max_tokens=BUDGET, shuffle=False)
    assert 70 in plain.plan(4)[1].tolist()


def test_the_iterators_of_all_ranks_have_it():
    first, plain = samplers_of()
    ranks = [BatchSampler(lengths_of(310), 32, largest_first=True, rank=rank, dp=4, max_tokens=BUDGET, seed=0, effort="fast")
             for rank in range(4)]
    for epoch in range(2):
        expected = batches_of(first, epoch)
        of_ranks = [list(one) for one in ranks]
        slots = list(zip(*of_ranks, strict=True))
        assert sorted(index for slot in slots for batch in slot for index in batch) == list(range(310))
        count = len(list(first.plan(0)[0].rank(0)))
        assert sorted(index for slot in slots[:count] for batch in slot for index in batch) == sorted(expected[0])


@pytest.mark.parametrize("taken", [0, 2, 9, 14, 25])
@pytest.mark.parametrize("options", [{}, {"window": 3}])
def test_a_state_goes_on(taken, options):
    whole = samplers_of(**options)[0]
    expected = list(whole) + list(whole)
    sampler = samplers_of(**options)[0]
    begun = []
    while len(begun) < taken:
        begun += itertools.islice(sampler, taken - len(begun))
    state = json.loads(json.dumps(sampler.state_dict()))
    resumed, plain = samplers_of(**options)
    resumed.load_state_dict(state)
    rest = list(resumed)
    assert (begun + rest + list(resumed))[: len(expected)] == expected
    with pytest.raises(ValueError, match="largest_first is None; it was True when"):
        plain.load_state_dict(state)
    if state["step"] and state["epoch"] == 0:
        # Which is the largest rests on how the planner divides them.
        with pytest.raises(ValueError, match="planner_version"):
            samplers_of(**options)[0].load_state_dict({**state, "slot": 0, "planner_version": "another"})


@pytest.mark.parametrize("saved, loading", list(itertools.permutations((1, 2, 4, 8), 2)))
def test_a_state_goes_on_with_another_dp(saved, loading):
    """Which ranks find another one the largest."""
    sampler = samplers_of(dp=saved)[0]
    expected = batches_of(sampler, 0)
    resumed = samplers_of(dp=loading)[0]
    resumed.load_state_dict({**sampler.state_dict(), "step": 3})
    assert [resumed.plan(step)[1].tolist() for step in range(3, resumed.steps)] == expected[3:]


def test_what_it_does_not_go_with_is_refused():
    with pytest.raises(ValueError, match="largest_first is True, and batch_size is a schedule"):
        BatchSampler([5] * 40, BatchSizeSchedule([(0, 4), (20, 8)]), max_tokens=BUDGET, largest_first=True)
    with pytest.raises(ValueError, match="largest_first is 1; must be True or False"):
        BatchSampler([5] * 40, 4, max_tokens=BUDGET, largest_first=1)


def test_the_first_epoch_is_planned_once_for_it(monkeypatch):
    from batchplan.torch import _batch_planner

    planned = []
    make_plan = _batch_planner.make_plan
    monkeypatch.setattr(_batch_planner, "make_plan", lambda *given, **options: planned.append(1) or make_plan(*given, **options))
    sampler = samplers_of()[0]
    # Two samplers' longest and first batches, and one's whole epoch.
    assert len(planned) <= 2 + 2 + sampler.steps
