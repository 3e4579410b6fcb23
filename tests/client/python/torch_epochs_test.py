"""BatchSampler divides every epoch that can be divided, and says at once of what can't."""

import itertools

import batchplan
import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan.torch import BatchSampler

BUDGET = 1000


def uniform(low, count, seed):
    return (numpy.random.default_rng(seed).uniform(low, 1, count) * BUDGET).astype(int)


def lognormal(median, count, seed):
    lengths = numpy.random.default_rng(seed).lognormal(numpy.log(median), 0.8, count) * BUDGET
    return lengths.clip(1, BUDGET).astype(int)


def sampler_of(lengths, batch, **options):
    return BatchSampler(lengths, batch, **{"dp": 8, "max_tokens": BUDGET, "seed": 1, "effort": "fast", **options})


def epochs_of(sampler, lengths, count, left_out=0):
    """The global batches of epochs, each of which is planned and has every sequence once, but for some left out."""
    for epoch in range(count):
        sampler.set_epoch(epoch)
        batches = []
        for step in range(sampler.steps):
            plan, batch = sampler.plan(step)
            of_ranks = [list(plan.rank(rank)) for rank in range(plan.passes[0].data_parallel)]
            assert len({len(one) for one in of_ranks}) == 1
            every = [batch[one.indices] for rank in of_ranks for one in rank]
            assert all(lengths[one].sum() <= BUDGET for one in every)
            assert sorted(numpy.concatenate(every)) == sorted(batch)
            batches.append(batch)
        trained = numpy.concatenate(batches)
        assert len(set(trained.tolist())) == len(trained) >= len(lengths) - left_out
        yield batches


def check_epochs(sampler, lengths, count=3, left_out=0):
    for _ in epochs_of(sampler, lengths, count, left_out):
        pass


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("rest", [0, 3, 13])
@pytest.mark.parametrize("seed, kind, batch", [
    *((seed, lambda count, seed: uniform(0.3, count, seed), 20) for seed in range(3)),
    *((seed, lambda count, seed: uniform(0.1, count, seed), 20) for seed in range(3)),
    *((seed, lambda count, seed: lognormal(0.5, count, seed), 12) for seed in range(3)),
])
def test_batches_that_are_no_multiple_of_the_ranks_go_through_all_epochs(seed, kind, batch, rest, drop_last):
    lengths = kind(30 * batch + rest, seed)
    sampler = sampler_of(lengths, batch, drop_last=drop_last)
    for batches in epochs_of(sampler, lengths, 3, left_out=rest % batch + 7 if drop_last else 0):
        assert len(batches) == 30 + (rest > 0 and not drop_last and 30 * batch + rest >= 31 * 8 and rest < batch)\
            or rest >= batch
        assert all(abs(len(one) - batch) < 8 for one in batches[:-2])


@pytest.mark.parametrize("kind", [lambda *given: uniform(0.1, *given), lambda *given: uniform(0.3, *given),
                                  lambda *given: lognormal(0.3, *given)])
def test_the_last_batches_of_any_dataset_are_divided(kind):
    for seed, count in enumerate(range(600, 1201, 37)):
        lengths = kind(count, seed)
        check_epochs(sampler_of(lengths, 64), lengths)


def fit(lengths, bins):
    """Whether they do, by trying all ways."""
    if not len(lengths):
        return True
    tried = set()
    for place, free in enumerate(bins):
        if free >= lengths[0] and free not in tried:
            tried.add(free)
            if fit(lengths[1:], [*bins[:place], free - lengths[0], *bins[place + 1 :]]):
                return True
    return False


def test_what_is_refused_can_not_be_divided():
    """Those that must share micro-batches are the shortest, if any; then every order of the dataset goes through."""
    refused = 0
    for seed in range(150):
        random = numpy.random.default_rng(seed)
        ranks, batch = int(random.integers(2, 6)), int(random.integers(6, 14))
        count = int(random.integers(batch, 5 * batch))
        lengths = (random.uniform(random.uniform(0.2, 0.55), 1, count) * BUDGET).astype(int)
        must_share = count % ranks
        shortest = sorted(lengths.tolist())[: 2 * must_share][::-1]
        possible = fit(shortest, [BUDGET] * must_share)
        try:
            sampler = sampler_of(lengths, batch, dp=ranks, effort="default")
        except batchplan.InvalidRequest as error:
            assert not possible and "drop_last=True" in str(error) and "allow_empty_microbatches=True" in str(error)
            refused += 1
            check_epochs(sampler_of(lengths, batch, dp=ranks, drop_last=True), lengths, 1, left_out=count)
            check_epochs(sampler_of(lengths, batch, dp=ranks, allow_empty_microbatches=True), lengths, 1)
        else:
            assert possible
            check_epochs(sampler, lengths)
    assert 10 < refused < 140


def divide(lengths, places, batch, bins):
    """Whether there are batches of this size that fit in as many bins each, by trying all."""
    if not places:
        return True
    return any(
        fit(sorted((lengths[one] for one in (places[0], *others)), reverse=True), [BUDGET] * bins)
        and divide(lengths, [one for one in places[1:] if one not in others], batch, bins)
        for others in itertools.combinations(places[1:], batch - 1)
    )


def test_a_fixed_number_of_microbatches_is_kept_to_where_any_batches_can():
    outcomes = set()
    for seed in range(60, 160):
        random = numpy.random.default_rng(seed)
        batch = int(random.integers(3, 5))
        ranks, batches = int(random.integers(1, batch)), 2 if batch == 4 else int(random.integers(2, 4))
        lengths = (random.uniform(0.1, random.uniform(0.4, 1), batch * batches) * BUDGET).astype(int)
        possible = divide(lengths.tolist(), list(range(len(lengths))), batch, ranks)
        try:
            sampler = sampler_of(lengths, batch, dp=ranks, microbatches_per_step=1, effort="default")
        except ValueError:
            assert not possible, seed
        else:
            check_epochs(sampler, lengths)
        outcomes.add(possible)
    assert outcomes == {True, False}


def test_few_short_sequences_come_together_in_every_epoch():
    """Any two of the others are too long for one micro-batch, and one more than the ranks divide has to be."""
    lengths = numpy.array([600] * 39 + [400, 500])
    sampler = sampler_of(lengths, 8)
    orders = [numpy.concatenate(batches).tolist() for batches in epochs_of(sampler, lengths, 6)]
    assert len(set(map(tuple, orders))) == 6


@pytest.mark.parametrize("lengths, batch, options", [
    # A pair of long ones comes together in some epochs.
    ([10] * 30 + [60, 60], 4, {"dp": 1, "max_tokens": 100, "microbatches_per_step": 1}),
    # Each batch must have one of each.
    ([60] * 20 + [40] * 20, 2, {"dp": 1, "max_tokens": 100, "microbatches_per_step": 1}),
    ([60] * 20 + [40] * 20, 4, {"dp": 2, "max_tokens": 100, "microbatches_per_step": 1, "window": 4}),
    ([60] * 20 + [40] * 20, 8, {"dp": 2, "max_tokens": 100, "microbatches_per_step": 1, "mini_batch_size": 4}),
    ([700] * 10 + [200] * 40, 5, {"dp": 2, "mini_batch_size": 5}),
    ([60] * 20 + [40] * 20, 4, {"dp": 1, "max_tokens": 100, "microbatches_per_step": 2, "groups": "same_microbatch",
                                "group_ids": [*range(20), *range(20)]}),
])
def test_batches_of_fixed_sizes_exchange_sequences(lengths, batch, options):
    lengths = numpy.array(lengths)
    sampler = sampler_of(lengths, batch, **options)
    for batches in epochs_of(sampler, lengths, 12):
        assert {len(one) for one in batches} == {batch}


@pytest.mark.parametrize("kind, batch, number", [
    (lambda seed: uniform(0.1, 640, seed), 64, 6), (lambda seed: lognormal(0.3, 700, seed), 64, 4)])
def test_a_number_of_microbatches_that_most_batches_need_is_enough_for_all(kind, batch, number):
    """With the sequences alike in all batches."""
    arranged = 0
    for seed in range(6):
        lengths = kind(seed)
        sampler = sampler_of(lengths, batch, microbatches_per_step=number)
        check_epochs(sampler, lengths)
        arranged += sampler.state_dict()["step"] == 0
    assert arranged


@pytest.mark.parametrize("groups", ["same_mini_batch", "same_rank"])
@pytest.mark.parametrize("seed", range(4))
def test_groups_of_any_sizes_stay_together_in_every_epoch(seed, groups):
    random = numpy.random.default_rng(seed)
    group_ids = numpy.repeat(numpy.arange(60), random.integers(1, 9, 60))
    lengths = uniform(0.05, len(group_ids), seed) // 2
    sampler = sampler_of(lengths, 48, dp=4, groups=groups, group_ids=group_ids)
    for batches in epochs_of(sampler, lengths, 4):
        assert sum(len(numpy.unique(group_ids[batch])) for batch in batches) == 60


def test_groups_in_batches_of_just_enough_sequences_are_fewer_batches():
    """259 sequences are eight times 32, and seven batches of 37."""
    group_ids = numpy.repeat(numpy.arange(74), [4, 3] * 37)
    lengths = uniform(0.05, 259, 0) // 4
    sampler = sampler_of(lengths, 34, microbatches_per_step=4, groups="same_mini_batch", group_ids=group_ids)
    assert sampler.steps == 7
    check_epochs(sampler, lengths)


@pytest.mark.parametrize("options", [
    {"preset": "nemo_rl_packing"}, {"preset": "roll_packing"}, {"preset": "verl"}, {"pp": 2}, {"pp": 2, "vpp": 2},
    {"passes": [batchplan.Pass(BUDGET), batchplan.Pass(2 * BUDGET, "logprobs", ignore_mini_batches=True)], "max_tokens": None},
    {"passes": [batchplan.Pass(BUDGET, microbatch_count_multiple=2)], "max_tokens": None},
    {"passes": [batchplan.Pass(BUDGET, min_microbatches=3)], "max_tokens": None},
    {"passes": [batchplan.Pass(BUDGET, equal_sequence_counts=True)], "max_tokens": None},
    {"passes": [batchplan.Pass(BUDGET, max_sequences=2)], "max_tokens": None},
    {"passes": [batchplan.Pass(BUDGET, scan="sorted")], "max_tokens": None},
    {"cp": 2}, {"overlong": "drop"}, {"window": 3}, {"synchronization": "accumulated"},
])
def test_whatever_the_options_an_epoch_that_begins_ends(options):
    lengths = uniform(0.2, 330, 3) // 8 * 8
    try:
        sampler = sampler_of(lengths, 22, dp=4, **options)
    except batchplan.InvalidRequest as error:
        assert "drop_last=True" in str(error)
        sampler = sampler_of(lengths, 22, dp=4, drop_last=True, **options)
        check_epochs(sampler, lengths, 4, left_out=22)
    else:
        check_epochs(sampler, lengths, 4)


def test_a_sequence_that_is_too_long_is_told_at_once():
    with pytest.raises(batchplan.InvalidRequest, match=r"manifest.lengths\[77\] .*is 1001"):
        sampler_of([5] * 77 + [1001] + [5] * 80, 8, shuffle=False)


def test_rows_whose_offsets_int32_does_not_count_are_told_at_once():
    sampler_of([2**27] * 40, 8, dp=1, max_tokens=2**32 - 1)
    sampler_of([2**29] * 40, 8, dp=1, max_tokens=2**31 - 1)
    with pytest.raises(batchplan.InvalidRequest, match="max_tokens is 2147483648, by which a row could have 2147483648 "):
        sampler_of([2**29] * 40, 8, dp=1, max_tokens=2**31)
    with pytest.raises(batchplan.InvalidRequest, match="a row could have 2147483649 tokens"):
        sampler_of([2**31 + 1] + [5] * 15, 8, dp=1, max_tokens=100, overlong="alone")


def test_a_group_that_is_too_long_is_told_at_once():
    with pytest.raises(batchplan.InvalidRequest, match="group 10 takes 1200 tokens.* holds 1000$"):
        sampler_of([100] * 40 + [600] * 4, 8, dp=1, group_ids=numpy.arange(44) // 4, groups="same_microbatch")


def test_a_large_dataset_is_not_planned_to_begin_with(monkeypatch):
    from batchplan.torch import _batch_planner

    planned = []
    make_plan = _batch_planner.make_plan
    monkeypatch.setattr(
        _batch_planner, "make_plan", lambda given, **options: planned.append(len(given)) or make_plan(given, **options))
    lengths = lognormal(0.2, 200_003, 0)
    sampler = sampler_of(lengths, 500)
    sampler.set_epoch(7)
    assert sum(planned) < 2_000


def test_an_arranged_epoch_is_of_one_version_of_the_planner():
    lengths = uniform(0.3, 200, 0)
    sampler = sampler_of(lengths, 20)
    count = len(list(itertools.islice(sampler, 3)))
    assert count == 3
    state = {**sampler.state_dict(), "planner_version": "another"}
    assert state["step"] > 0
    with pytest.raises(ValueError, match="amid a global batch, a window or an epoch that it had arranged"):
        sampler_of(lengths, 20).load_state_dict({**state, "slot": 0})
    sampler_of(lengths, 20).load_state_dict({**state, "step": 0, "slot": 0, "arranged": False})


@pytest.mark.parametrize("options", [
    {}, {"microbatches_per_step": 3, "max_tokens": 3 * BUDGET}, {"dp": 4, "drop_last": True}, {"kinds": True},
    {"allow_empty_microbatches": True}, {"overlong": "drop"},
])
def test_micro_batches_have_a_multiple_of_sequences(options):
    lengths = lognormal(0.1, 300, 3).clip(1, BUDGET // 2)
    options = {"dp": 2, **options}
    kinds = (numpy.arange(300) % 10 == 0).astype(int)
    budget = options.pop("max_tokens", 2 * BUDGET)
    rule = "alike" if options.pop("kinds", False) else None
    passes = [batchplan.Pass(budget, sequence_count_multiple=2, kinds_per_slot=rule)]
    samplers = [sampler_of(lengths, 32, rank=rank, max_tokens=None, passes=passes, kinds=kinds, **options)
                for rank in range(options["dp"])]
    for _ in range(2):
        slots = list(zip(*map(list, samplers), strict=True))
        assert all(len(own) % 2 == 0 for slot in slots for own in slot)
        every = sorted(index for slot in slots for own in slot for index in own)
        assert every == list(range(300)) if "drop_last" not in options else len(set(every)) == len(every) == 288
        assert rule is None or all(len({kinds[index] for own in slot for index in own}) == 1 for slot in slots)
    with pytest.raises(ValueError, match="batch_size is 2; must be at least 4, for 1 micro-batch of 2 sequences on each of 2"):
        sampler_of(lengths, 2, max_tokens=None, passes=passes, dp=2)
