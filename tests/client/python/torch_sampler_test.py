"""BatchSampler: planned micro-batches of a dataset, the same on every rank, resumable."""

import itertools
import json
import re

import numpy
import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan.torch import BatchSampler
from samplers import BATCH, BUDGET, COUNT, lengths_of, sampler_of


def sampler_of_epoch(epoch):
    sampler = sampler_of()
    sampler.set_epoch(epoch)
    return sampler


def test_ranks_share_an_epoch_and_have_as_many_microbatches():
    samplers = [sampler_of(rank) for rank in range(2)]
    lengths = lengths_of()
    for epoch in range(3):
        assert [sampler.epoch for sampler in samplers] == [epoch] * 2
        of_ranks = [list(sampler) for sampler in samplers]
        assert len(of_ranks[0]) == len(of_ranks[1])
        every = [index for rank in of_ranks for batch in rank for index in batch]
        assert sorted(every) == list(range(COUNT))
        assert all(lengths[batch].sum() <= BUDGET for rank in of_ranks for batch in rank)


def test_a_global_batch_is_planned_alone():
    sampler = sampler_of()
    assert sampler.steps == 5
    plan, batch = sampler.plan(0)
    first = [batch[one.indices].tolist() for one in plan.rank(0)]
    assert list(itertools.islice(sampler, len(first))) == first
    with pytest.raises(IndexError, match="step is 5; must be 0 to 4"):
        sampler.plan(5)


def test_orders_differ_by_epoch_and_seed_and_are_always_the_same():
    first, second = list(sampler_of(seed=1)), list(sampler_of(seed=1))
    assert first == second != list(sampler_of(seed=2))
    sampler = sampler_of(seed=1)
    sampler.set_epoch(1)
    assert list(sampler) != first
    unshuffled = sampler_of(shuffle=False)
    _, batch = unshuffled.plan(1)
    assert batch.tolist() == list(range(BATCH, 2 * BATCH))


@pytest.mark.parametrize("taken", [0, 1, 7, 20])
def test_resumes_where_it_was(taken):
    whole = sampler_of(seed=4)
    expected = list(whole) + list(whole)
    sampler = sampler_of(seed=4)
    begun = list(itertools.islice(sampler, taken))
    resumed = sampler_of(seed=4)
    resumed.load_state_dict(sampler.state_dict())
    resumed.set_epoch(sampler.epoch)
    assert begun + list(resumed) + list(resumed) == expected


def test_what_a_data_loader_fetched_ahead_is_not_lost():
    expected = list(sampler_of())
    sampler = sampler_of()
    list(itertools.islice(sampler, 12))
    resumed = sampler_of()
    resumed.load_state_dict(sampler.state_dict(behind=9))
    assert list(resumed) == expected[3:]
    with pytest.raises(ValueError, match="behind is 13; not as many micro-batches were yielded"):
        sampler.state_dict(behind=13)


def test_what_was_fetched_ahead_at_an_epochs_end_is_of_that_epoch():
    sampler = sampler_of()
    expected, following = list(sampler), list(sampler_of_epoch(1))
    resumed = sampler_of()
    sampler = sampler_of()
    list(itertools.islice(sampler, len(expected)))
    resumed.load_state_dict(sampler.state_dict(behind=2))
    assert list(resumed) == expected[-2:] and list(resumed) == following
    # A sampler that loaded a state has yielded what came since.
    late = sampler_of()
    late.load_state_dict(sampler.state_dict(behind=2))
    list(itertools.islice(late, 1))
    with pytest.raises(ValueError, match="behind is 2; not as many"):
        late.state_dict(behind=2)


@pytest.mark.parametrize("workers, prefetch", [(0, None), (1, 2), (2, 3), (2, 40)])
def test_what_a_loader_fetches_ahead_is_known_up_to_the_epochs_end(workers, prefetch):
    """Also where it fetches more than an epoch has."""
    loader_options = {"num_workers": workers}
    if workers:
        loader_options |= {"prefetch_factor": prefetch, "persistent_workers": workers == 2}
    behind = workers * (prefetch or 0)
    sampler = sampler_of(seed=5, drop_last=True, max_tokens=2 * BUDGET)
    loader = torch.utils.data.DataLoader(range(COUNT), batch_sampler=sampler, collate_fn=list, **loader_options)
    every, states = [], []
    for _ in range(2):
        for batch in loader:
            every.append(batch)
            states.append(sampler.state_dict(behind))
    first, resumed = len(every) // 2, sampler_of(seed=5, drop_last=True, max_tokens=2 * BUDGET)
    for seen, state in enumerate(states, 1):
        resumed.load_state_dict(state)
        assert [*resumed, *resumed][: len(every) - seen] == every[seen:]
    assert [(one["epoch"], one["step"], one["slot"]) for one in (states[first - 1], states[-1])] == [(1, 0, 0), (2, 0, 0)]


def test_an_epochs_end_is_the_beginning_of_the_next():
    expected = list(sampler_of_epoch(1))
    sampler = sampler_of()
    list(sampler)
    state = sampler.state_dict()
    assert (state["epoch"], state["step"], state["slot"]) == (1, 0, 0)
    for at_end in (state, {**state, "epoch": 0, "step": sampler.steps}):
        resumed = sampler_of()
        resumed.load_state_dict(at_end)
        trained = []
        for epoch in range(state["epoch"], 2):
            resumed.set_epoch(epoch)
            trained += resumed
        assert trained == expected


def test_another_iterator_goes_on_where_the_last_one_stopped():
    expected = list(sampler_of())
    sampler = sampler_of()
    assert list(itertools.islice(sampler, 3)) + list(sampler) == expected
    assert sampler.epoch == 1


@pytest.mark.parametrize("option, value, named", [
    ("seed", 2, "seed is 2; it was 1"),
    ("shuffle", False, "shuffle is False; it was True"),
    ("drop_last", True, "drop_last is True; it was False"),
    ("window", 2, "window is 2; it was None"),
    ("cp", 2, "cp is 2; it was unset when"),
    ("preset", "nemo_rl_packing", "preset is nemo_rl_packing; it was unset when"),
    ("cost", batchplan.CostModel(2.0), "cost_model.per_microbatch is 0.0; it was unset when"),
    ("group_ids", [0] * COUNT, "group_ids are not those of when"),
])
def test_a_state_of_another_sampler_is_refused(option, value, named):
    state = sampler_of(seed=1).state_dict()
    sampler_of(seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match=named):
        sampler_of(**{"seed": 1, option: value}).load_state_dict(state)


def test_a_state_of_other_lengths_or_of_none_is_refused():
    state = sampler_of().state_dict()
    with pytest.raises(ValueError, match="lengths are not those of when"):
        BatchSampler(lengths_of(seed=1), BATCH, dp=2, max_tokens=BUDGET).load_state_dict(state)
    with pytest.raises(ValueError, match="batch_size is 50; it was 40 when"):
        sampler_of().load_state_dict({**state, "batch_size": 40})
    with pytest.raises(ValueError, match="planned_as is '0123'; must be what a state_dict has there"):
        sampler_of().load_state_dict({**state, "planned_as": "0123"})
    # However it is said.
    sampler_of(max_tokens=None, passes=[batchplan.Pass(BUDGET)]).load_state_dict(state)


@pytest.mark.parametrize("name", ["max_tokens", "lengths", "batch_size", "dp", "rank", "window", "epoch", "steps", "cost"])
def test_what_it_was_made_with_can_not_be_set(name):
    with pytest.raises(AttributeError, match=f"{name} can't be set: .* make another one"):
        setattr(sampler_of(), name, 16)


@pytest.mark.parametrize("moved", [
    lambda sampler: sampler.set_epoch(1),
    lambda sampler: sampler.load_state_dict(sampler_of().state_dict()),
    lambda sampler: next(iter(sampler)),
])
def test_an_iterator_ends_where_the_sampler_is_moved(moved):
    sampler = sampler_of()
    iterator = iter(sampler)
    next(iterator)
    moved(sampler)
    with pytest.raises(RuntimeError, match="the sampler was moved"):
        next(iterator)


def test_the_last_microbatch_ends_its_epoch():
    sampler = sampler_of()
    iterator = iter(sampler)
    for _ in range(len(sampler)):
        next(iterator)
    assert sampler.epoch == 1
    resumed = sampler_of()
    resumed.load_state_dict(sampler.state_dict())
    assert list(resumed) == list(sampler_of_epoch(1))


def test_sequences_that_are_too_long_are_no_part_of_the_dataset():
    lengths = numpy.array([30] * 8 + [90] * 5 + [40] * 3)
    sampler = BatchSampler(lengths, 4, max_tokens=50, overlong="drop", shuffle=False)
    assert sampler.steps == 3
    assert sorted(index for batch in sampler for index in batch) == [*range(8), *range(13, 16)]


def test_numbers_of_microbatches_are_not_those_of_what_is_dropped():
    one = batchplan.Pass(50, microbatch_count_multiple=64)
    sampler = BatchSampler([40] * 100 + [90], 64, passes=[one], overlong="drop", drop_last=True)
    assert len(sampler) == len(list(sampler)) == 64


def test_passes_may_come_one_by_one():
    one = batchplan.Pass(BUDGET)
    assert list(sampler_of(max_tokens=None, passes=iter([one]))) == list(sampler_of())


def test_a_state_is_json():
    sampler = BatchSampler(lengths_of(), numpy.int64(BATCH), max_tokens=numpy.int32(BUDGET), drop_last=numpy.True_)
    sampler.set_epoch(numpy.int64(2))
    list(itertools.islice(sampler, 2))
    state = json.loads(json.dumps(sampler.state_dict(behind=numpy.int64(1))))
    sampler.load_state_dict(state)
    with pytest.raises(ValueError, match="planner_version is .*; it was 0.0.1 when the state was saved"):
        sampler.load_state_dict({**state, "planner_version": "0.0.1"})
    sampler.load_state_dict({**state, "planner_version": "0.0.1", "slot": 0})


@pytest.mark.parametrize("place, message", [
    ({"slot": 99}, r"slot is 99; must be 0 to \d+, of step 2"),
    ({"slot": -1}, "slot is -1; must be 0 to"),
    ({"slot": None}, "slot is None; must be a whole number"),
    ({"step": 6}, "step is 6; must be 0 to 5"),
    ({"step": -1}, "step is -1; must be 0 to 5"),
    ({"step": 5, "slot": 1}, "slot is 1; must be 0 to 0, of step 5"),
    ({"epoch": -1}, "epoch is -1; must be at least 0"),
])
def test_a_state_of_no_place_in_an_epoch_is_refused(place, message):
    sampler = sampler_of()
    state = {**sampler.state_dict(), "step": 2, "slot": 1}
    sampler.load_state_dict(state)
    following = sampler.state_dict()
    with pytest.raises(ValueError, match=message):
        sampler.load_state_dict({**state, **place})
    assert sampler.state_dict() == following


def test_the_last_microbatch_of_a_step_may_be_the_next():
    sampler = sampler_of()
    plan, batch = sampler.plan(2)
    last = batch[list(plan.rank(0))[-1].indices].tolist()
    of_step = len(list(plan.rank(0)))
    sampler.load_state_dict({**sampler.state_dict(), "step": 2, "slot": of_step - 1})
    assert next(iter(sampler)) == last
    with pytest.raises(ValueError, match=f"slot is {of_step}; must be 0 to {of_step - 1}, of step 2"):
        sampler.load_state_dict({**sampler.state_dict(), "step": 2, "slot": of_step})


@pytest.mark.parametrize("shuffle, groups", [
    (False, numpy.arange(COUNT) // 5), (True, numpy.arange(COUNT) // 5), (True, numpy.arange(COUNT) % 46)])
def test_groups_stay_together(shuffle, groups):
    sampler = sampler_of(group_ids=groups, groups="same_rank", shuffle=shuffle)
    orders = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        planned = [sampler.plan(step) for step in range(sampler.steps)]
        orders.append([index for _, batch in planned for index in batch.tolist()])
        assert sorted(orders[-1]) == list(range(COUNT))
        places = {
            (groups[index], step, rank)
            for step, (plan, batch) in enumerate(planned)
            for rank in range(2)
            for one in plan.rank(rank)
            for index in batch[one.indices]
        }
        assert len(places) == COUNT // 5
    assert (orders[0] != orders[1]) == shuffle


@pytest.mark.parametrize("policy", ["same_mini_batch", "same_rank", "same_microbatch"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_global_batch_ends_with_a_group(policy, shuffle):
    groups = numpy.arange(COUNT) // 4
    sampler = sampler_of(group_ids=groups, groups=policy, shuffle=shuffle, max_tokens=4 * BUDGET)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = [sampler.plan(step)[1] for step in range(sampler.steps)]
        assert sum(len(numpy.unique(groups[batch])) for batch in batches) == groups.max() + 1
        assert sorted(numpy.concatenate(batches)) == list(range(COUNT))
        assert all(abs(len(batch) - BATCH) <= 4 for batch in batches[:-1])


@pytest.mark.parametrize("options", [{"mini_batch_size": 10}, {"group_ids": [0] * (COUNT - 1) + [1]}])
def test_a_group_that_no_global_batch_holds_is_refused(options):
    torn = 'global batch . of epoch 0 would end within group ., and groups is "same_rank": it must hold whole groups'
    with pytest.raises(ValueError, match=torn):
        sampler_of(**{"group_ids": numpy.arange(COUNT) // 40, "groups": "same_rank", "shuffle": False, **options})
    sampler_of(group_ids=numpy.arange(COUNT) // 4, groups="ignore", shuffle=False)


def test_its_length_is_that_of_the_epoch():
    sampler = sampler_of(drop_last=True)
    assert sampler.steps == 4
    assert len(sampler) == len(list(sampler))


def test_a_data_loader_takes_it():
    lengths = lengths_of()
    dataset = [torch.full((int(length),), index) for index, length in enumerate(lengths)]
    for workers in (0, 2):
        sampler = sampler_of(seed=5)
        loader = torch.utils.data.DataLoader(
            dataset, batch_sampler=sampler, collate_fn=torch.cat, num_workers=workers
        )
        expected = [torch.cat([dataset[index] for index in batch]) for batch in sampler_of(seed=5)]
        found = list(loader)
        assert len(found) == len(expected)
        assert all(torch.equal(one, other) for one, other in zip(found, expected))


@pytest.mark.parametrize("options, message", [
    ({"max_tokens": 40}, r"manifest.lengths\[13\] .*is 50"),
    ({"max_tokens": 60, "pad_to": 20}, "but sequence 13 has 50 tokens"),
])
def test_a_sequence_is_named_by_its_place_in_the_dataset(options, message):
    lengths = [5] * 20
    lengths[13] = 50
    with pytest.raises(batchplan.InvalidRequest, match=message):
        list(BatchSampler(lengths, 4, **options))


def test_a_last_global_batch_that_can_not_be_planned_is_told_at_once():
    with pytest.raises(batchplan.InvalidRequest, match="lengths can't be divided among 2 ranks: they are 1 more than a multiple of 2, .*"
                       "drop_last=True.*allow_empty_microbatches=True"):
        BatchSampler([30] * 21, 10, dp=2, max_tokens=40)
    with pytest.raises(batchplan.InvalidRequest, match="mini_batches.size .*is 4, which does not divide the manifest's 6 .*drop_last=True"):
        BatchSampler([5] * 14, 8, mini_batch_size=4, max_tokens=40)
    with pytest.raises(batchplan.InvalidRequest, match="mini_batches.size .*is 4, which does not divide the manifest's 2"):
        BatchSampler([5] * 6, 2, mini_batch_size=4, max_tokens=40)


def test_refuses_what_cannot_be():
    with pytest.raises(ValueError, match="batch_size is 0; must be at least 1"):
        BatchSampler([1], 0, max_tokens=8)
    with pytest.raises(ValueError, match="rank is 2; must be 0 to 1"):
        sampler_of(rank=2)
    with pytest.raises(batchplan.InvalidRequest, match="max_tokens or passes is needed"):
        BatchSampler([1], 1)
    with pytest.raises(ValueError, match='overlong is "truncate"'):
        sampler_of(overlong="truncate")
    with pytest.raises(ValueError, match="dynamic_cp is set; a sampler gives out sequences"):
        sampler_of(dynamic_cp=True)
    with pytest.raises(ValueError, match="ranks is set; a sampler decides"):
        sampler_of(ranks=[0] * COUNT)
    for wrong, message in [
        ({"shuffle": 0}, "shuffle is 0; must be True or False"),
        ({"dp": 2.7}, "topology.data_parallel .*is 2.7"),
        ({"preset": "zzz"}, 'preset is "zzz"'),
        ({"max_tokens": 8}, "manifest.lengths"),
        ({"dp": 60}, "batch_size is 50; must be at least 60, for 1 micro-batch of one sequence on each of 60 ranks: allow_empty"),
    ]:
        with pytest.raises(ValueError, match=message):
            sampler_of(**wrong)
    with pytest.raises(batchplan.FailedPrecondition, match="cost_model"):
        sampler_of(cost="fitted")
    for lengths, batch_size in (([], 4), ([1, 2], 4)):
        with pytest.raises(ValueError, match="entries to plan, which make no global batch"):
            BatchSampler(lengths, batch_size, max_tokens=8, drop_last=True)
    with pytest.raises(ValueError, match="batch_size is 2.0; must be a whole number"):
        BatchSampler([1, 2], 2.0, max_tokens=8)
    for number, message in ((0, "microbatches_per_step is 0; must be at least 1"),
                            (26, "batch_size is 50; must be at least 52, for 26 micro-batches of one sequence on each of 2")):
        with pytest.raises(ValueError, match=message):
            sampler_of(microbatches_per_step=number)
    with pytest.raises(ValueError, match=r"microbatches_per_step is 4; passes\[0\].min_microbatches is 3"):
        sampler_of(max_tokens=None, passes=[batchplan.Pass(BUDGET, min_microbatches=3)], microbatches_per_step=4)
    with pytest.raises(ValueError, match="epoch is -1; must be at least 0"):
        sampler_of().set_epoch(-1)
    with pytest.raises(ValueError, match="group_ids has 3 entries; lengths has 230"):
        sampler_of(group_ids=[1, 2, 3])


@pytest.mark.parametrize("lengths, options, told", [
    ([30] * 5, {"batch_size": 16, "microbatches_per_step": 4, "max_tokens": 400},
     "It is global batch 0 of epoch 0: allow_empty_microbatches=True gives ranks micro-batches without sequences$"),
    ([30] * 21, {"batch_size": 10, "max_tokens": 40},
     "drop_last=True leaves out what can't be divided at an epoch's end, and allow_empty_microbatches=True gives"),
])
def test_ways_out_of_too_few_sequences_lead_out(lengths, options, told):
    with pytest.raises(batchplan.InvalidRequest, match=told):
        BatchSampler(lengths, dp=2, **options)
    for way_out in re.findall(r"(\w+)=True", told):
        assert list(BatchSampler(lengths, dp=2, **options, **{way_out: True}))
