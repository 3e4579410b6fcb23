"""BatchSampler: a saved state goes on with another dp, budget, or number of micro-batches."""

import itertools
import json

import batchplan
import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan.torch import BatchSampler
from batchplan.torch._batch_sampler import _core

BUDGET = 1000
DPS = (1, 2, 4, 8)


def short(count, seed):
    """Pairs of which fit in a micro-batch."""
    lengths = numpy.random.default_rng(seed).lognormal(numpy.log(0.1), 0.8, count) * BUDGET
    return lengths.clip(1, BUDGET).astype(int)


def long(count, seed):
    """Few of which fit together: batches give each other sequences where the ranks don't divide them."""
    return (numpy.random.default_rng(seed).uniform(0.3, 1, count) * BUDGET).astype(int)


def sampler_of(lengths, batch=24, **options):
    return BatchSampler(lengths, batch, **{"dp": 2, "max_tokens": BUDGET, "seed": 3, "effort": "fast", **options})


def batches_of(sampler, first=0):
    """The global batches of its epoch, from a step on, in any order within each."""
    return [sorted(sampler.plan(step)[1].tolist()) for step in range(first, sampler.steps)]


def state_after(sampler, epoch, steps):
    """After so many global batches, as a rank saves it."""
    for begun in (epoch + 1, epoch):
        sampler.set_epoch(begun)
    return state_after_more(sampler, steps)


def state_after_more(sampler, steps):
    iterator, first = iter(sampler), sampler.state_dict()["step"]
    for step in range(first, first + steps):
        for _ in sampler.plan(step)[0].rank(0):
            next(iterator)
    return json.loads(json.dumps(sampler.state_dict()))


def trained_by(samplers):
    """The global batches of one epoch as the ranks' iterators have them, with as many micro-batches on each."""
    of_ranks = [list(one) for one in samplers]
    assert len({len(one) for one in of_ranks}) == 1
    return sorted(index for one in of_ranks for batch in one for index in batch)


@pytest.mark.parametrize("saved, loading", list(itertools.product(DPS, DPS)))
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"window": 3}, {"mini_batch_size": 8},
                                     {"groups": "same_mini_batch", "group_ids": numpy.arange(250) // 2}])
def test_another_dp_goes_on_with_the_same_global_batches(saved, loading, options):
    count = 248 if "mini_batch_size" in options else 250
    lengths = short(count, 0)
    if "group_ids" in options:
        options = {**options, "group_ids": options["group_ids"][:count]}
    reference = sampler_of(lengths, dp=saved, **options)
    for epoch, steps in ((0, 0), (0, 1), (0, 7), (1, 3), (1, 10), (1, 11)):
        steps = min(steps, reference.steps)
        state = state_after(reference, epoch, steps)
        reference.set_epoch(epoch)
        expected = batches_of(reference)
        resumed = [sampler_of(lengths, dp=loading, rank=rank, **options) for rank in range(loading)]
        for one in resumed:
            one.load_state_dict(state)
        if steps == reference.steps:
            assert resumed[0].epoch == epoch + 1
            continue
        # A window that has not begun is planned anew.
        if "window" not in options or steps:
            assert batches_of(resumed[0], steps) == expected[steps:]
        assert trained_by(resumed) == sorted(sum(expected[steps:], []))
        assert resumed[0].epoch == epoch + 1
        assert len(trained_by(resumed)) == len(sum(expected, []))


def random_capacity(random, lengths, batch):
    """A dp, budget and number of micro-batches by which the dataset can be divided."""
    while True:
        options = {"dp": int(random.choice(DPS)), "max_tokens": int(random.choice([BUDGET, 1500, 4 * BUDGET]))}
        if random.random() < 0.5:
            least = -(-lengths.mean() * batch * 1.3 // (options["dp"] * options["max_tokens"]))
            options["microbatches_per_step"] = int(max(1, least) + random.integers(0, 2))
        try:
            return options, sampler_of(lengths, batch, **options)
        except ValueError:
            continue


@pytest.mark.parametrize("kind", [short, long])
@pytest.mark.parametrize("seed", range(8))
def test_every_sequence_comes_once_an_epoch_whatever_the_capacity(kind, seed):
    """Through several capacities amid one epoch: in the same global batches, if these can be planned."""
    random = numpy.random.default_rng(seed)
    batch = int(random.integers(16, 40))
    lengths = kind(int(random.integers(5 * batch, 9 * batch)), seed)
    for epoch in range(3):
        _, sampler = random_capacity(random, lengths, batch)
        sampler.set_epoch(epoch)
        expected, step = batches_of(sampler), 0
        while step < sampler.steps:
            assert sorted(sum(expected, [])) == list(range(len(lengths)))
            step += int(random.integers(1, 4))
            if step >= sampler.steps:
                break
            state = {**sampler.state_dict(), "step": step, "slot": 0, "epoch": epoch,
                     "divided_by": sampler._batches.divided_by(epoch)}
            others, other = random_capacity(random, lengths, batch)
            try:
                other.load_state_dict(state)
            except ValueError as error:
                # Short sequences are divided by any dp and budget, if there are enough of them.
                assert kind is long or "microbatches_per_step" in others or step == sampler.steps - 1, error
                assert any(f"{name} is {others.get(name)}; it was" in str(error)
                           for name in ("dp", "max_tokens", "microbatches_per_step")), error
                continue
            left = batches_of(other, step)
            if all(other._batches._planner.fits(numpy.array(one)) for one in expected[step:]):
                assert left == expected[step:]
            else:
                assert left != expected[step:]
            sampler, expected = other, expected[:step] + left
            first = step if sampler._batches.divided_by(epoch) else 0
            assert len(sampler) == sum(len(list(sampler.plan(one)[0].rank(0))) for one in range(first, sampler.steps))


def test_fewer_ranks_and_more_tokens_always_go_on():
    """Also in an epoch that had to be arranged for more ranks."""
    lengths = long(331, 5)
    eight = sampler_of(lengths, 20, dp=8)
    state = state_after(eight, 1, 6)
    assert state["arranged"]
    eight.set_epoch(1)
    expected = batches_of(eight)
    for dp, budget in ((4, BUDGET), (2, BUDGET), (1, BUDGET), (1, 2 * BUDGET), (8, 2 * BUDGET)):
        sampler = sampler_of(lengths, 20, dp=dp, max_tokens=budget)
        sampler.load_state_dict(state)
        assert batches_of(sampler, 6) == expected[6:]
        # And on, saved once more amid the epoch.
        again = state_after_more(sampler, 2)
        assert again["divided_by"] == [{"step": 0, "dp": 8, "max_tokens": [BUDGET], "microbatches_per_step": None}]
        last = sampler_of(lengths, 20, dp=8)
        last.load_state_dict(again)
        assert batches_of(last, 8) == expected[8:]
        list(sampler)
        assert sampler.state_dict()["divided_by"] is None and sampler.epoch == 2
        # To another epoch and back, an epoch is the sampler's own.
        sampler.load_state_dict(state)
        sampler.set_epoch(0)
        sampler.set_epoch(1)
        assert sorted(sum(batches_of(sampler), [])) == list(range(331))
        assert sampler.state_dict()["divided_by"] is None


def test_what_more_ranks_can_not_divide_is_arranged():
    """A last global batch of three sequences among eight ranks, and batches of 20 of which few share micro-batches."""
    for lengths, batch in ((short(243, 0), 24), (long(240, 1), 20)):
        one, eight = sampler_of(lengths, batch, dp=1), sampler_of(lengths, batch, dp=8)
        state = state_after(one, 1, 4)
        one.set_epoch(1)
        expected = batches_of(one)
        eight.load_state_dict(state)
        left = batches_of(eight, 4)
        assert left != expected[4:] and len(left) == len(expected) - 4
        assert sorted(sum(left, [])) == sorted(sum(expected[4:], []))
        assert all(abs(len(batch) - len(other)) < 12 for batch, other in zip(left, expected[4:]))
        # Saved once more, and for others; the last is back with one rank.
        again = state_after_more(eight, 2)
        assert [one["step"] for one in again["divided_by"]] == [0, 4] and again["arranged"]
        for dp in DPS:
            resumed = sampler_of(lengths, batch, dp=dp)
            resumed.load_state_dict(again)
            assert batches_of(resumed, 6) == left[2:]


def test_what_can_not_be_divided_among_more_ranks_names_what_differs():
    lengths = short(243, 0)
    state = state_after(sampler_of(lengths, dp=1), 0, 10)
    sampler = sampler_of(lengths, dp=8, max_tokens=1500)
    with pytest.raises(ValueError, match="^dp is 8; it was 1, and max_tokens is 1500; it was 1000 when the state was saved; "
                       "global batch 10 of epoch 0 has 3 sequences, which can't be divided so: go on at an epoch's beginning$"):
        sampler.load_state_dict(state)
    # It is where it was.
    assert sampler.state_dict()["step"] == 0 and len(list(sampler)) == len(sampler)
    sampler.load_state_dict({**state, "epoch": 1, "step": 0, "arranged": False})
    assert sampler.epoch == 1


@pytest.mark.parametrize("change, named", [
    ({"dp": 4}, "dp is 4; it was 2 when"),
    ({"max_tokens": 1500, "dp": 8}, "dp is 8; it was 2, and max_tokens is 1500; it was 1000 when"),
    ({"microbatches_per_step": 9}, "microbatches_per_step is 9; it was None when"),
])
def test_a_global_batch_is_not_gone_on_with_amid_it(change, named):
    lengths = short(250, 0)
    sampler = sampler_of(lengths)
    next(iter(sampler))
    state = sampler.state_dict()
    assert state["slot"] == 1
    with pytest.raises(ValueError, match=named + ".* at slot 1 of step 0: only between two global batches"):
        sampler_of(lengths, **change).load_state_dict(state)


def test_other_dropped_sequences_are_another_dataset():
    lengths = short(250, 0)
    state = state_after(sampler_of(lengths, max_tokens=400, overlong="drop"), 0, 2)
    with pytest.raises(ValueError, match='max_tokens is 300; it was 400 when the state was saved, and overlong is "drop": other'):
        sampler_of(lengths, max_tokens=300, overlong="drop").load_state_dict(state)
    # One that drops the same ones.
    between = lengths[lengths <= 400].max()
    sampler_of(lengths, max_tokens=int(between), overlong="drop").load_state_dict(state)


def test_budgets_of_several_passes_are_named():
    def made(*budgets):
        names = ("", "logprobs")
        return sampler_of(short(250, 0), max_tokens=None, passes=[batchplan.Pass(*one) for one in zip(budgets, names)])

    state = state_after(made(BUDGET, 2000), 0, 2)
    made(BUDGET, 3000).load_state_dict(state)
    with pytest.raises(ValueError, match=r"passes\[1\].max_tokens is 3000; it was 2000 when.* at slot 1"):
        made(BUDGET, 3000).load_state_dict({**state, "slot": 1})
    with pytest.raises(ValueError, match=r"passes\[1\].forward_only is unset; it was False"):
        made(BUDGET).load_state_dict(state)


def test_rows_packed_beforehand_go_on_with_another_budget():
    random = numpy.random.default_rng(0)
    rows = [numpy.diff([0, *sorted(random.choice(numpy.arange(1, 64), 3, replace=False)), 64]).tolist() for _ in range(96)]
    made = [BatchSampler(rows, 16, dp=dp, max_tokens=budget, seed=1) for dp, budget in ((2, 64), (8, 128), (1, 640))]
    expected = batches_of(made[0])
    state = state_after(made[0], 0, 3)
    for sampler in made[1:]:
        sampler.load_state_dict(state)
        assert batches_of(sampler, 3) == expected[3:]


def test_an_arranged_epoch_of_another_capacity_is_of_one_version_of_the_planner():
    lengths = long(331, 5)
    state = {**state_after(sampler_of(lengths, 20, dp=8), 1, 6), "planner_version": "another"}
    sampler = sampler_of(lengths, 20, dp=4)
    with pytest.raises(ValueError, match=f"planner_version is {_core.version()}; it was another"):
        sampler.load_state_dict(state)
    assert sampler.state_dict()["divided_by"] is None


@pytest.mark.parametrize("behind", [0, 6])
def test_what_workers_fetched_ahead_is_not_lost_with_another_dp(behind):
    """A trainer saves after a step: what it has seen ends with a global batch."""
    lengths = short(250, 0)
    sampler = sampler_of(lengths, microbatches_per_step=3)
    expected = batches_of(sampler)
    list(itertools.islice(sampler, 3 * 4 + behind))
    resumed = sampler_of(lengths, dp=8, microbatches_per_step=1)
    resumed.load_state_dict(sampler.state_dict(behind))
    assert batches_of(resumed, 4) == expected[4:]


@pytest.mark.parametrize("divided_by", ["8", [], [{"step": 0, "dp": 8}], [{"step": 1, "dp": 8, "max_tokens": [8], "microbatches_per_step": None}]])
def test_what_no_sampler_saved_is_refused(divided_by):
    state = {**state_after(sampler_of(short(250, 0)), 0, 2), "divided_by": divided_by}
    with pytest.raises(ValueError, match="divided_by is .*; must be what a state_dict has there"):
        sampler_of(short(250, 0), dp=4).load_state_dict(state)
