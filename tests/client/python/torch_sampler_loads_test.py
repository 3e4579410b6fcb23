"""BatchSampler with what sequences bring beside tokens: loads, their items, limits and costs, and kinds."""

import itertools
import json

import batchplan
import numpy
import pytest

torch = pytest.importorskip("torch")

from batchplan import CostModel, LoadCost, Pass
from batchplan.torch import BatchSampler, BatchSizeSchedule, Mixture

BUDGET, BATCH, COUNT, PATCHES = 2000, 32, 310, 1500
COST = CostModel(1.0, 1 / 24576, loads={"patches": 0.5})


def images_of(count=COUNT, seed=0):
    """Lengths of sequences, and the patches of their images: none of most."""
    draw = numpy.random.default_rng(seed)
    images = [draw.integers(50, 500, draw.choice((0, 0, 0, 1, 2))) for _ in range(count)]
    lengths = draw.lognormal(5, 0.8, count).clip(10, 1000).astype(int) + [int(one.sum()) // 4 for one in images]
    return lengths, images


def sums_of(images):
    return numpy.array([one.sum() for one in images], float)


def samplers_of(lengths, dp=4, batch=BATCH, **options):
    options = {"seed": 1, "effort": "fast", **options}
    if "passes" not in options:
        options.setdefault("max_tokens", BUDGET)
    return [BatchSampler(lengths, batch, rank=rank, dp=dp, **options) for rank in range(dp)]


def slots_of(samplers):
    """Of their next epoch, the micro-batches of each slot, by rank."""
    return list(zip(*map(list, samplers), strict=True))


def trained(slots):
    return sorted(index for slot in slots for batch in slot for index in batch)


@pytest.mark.parametrize("options", [
    {}, {"microbatches_per_step": 4}, {"drop_last": True}, {"window": 3}, {"mini_batch_size": 10, "batch": 30},
    {"largest_first": True}, {"shuffle": False}, {"batch": BatchSizeSchedule([(0, 16), (100, 32)])},
    {"mixture": Mixture(numpy.arange(COUNT) % 3)}, {"group_ids": numpy.arange(COUNT) // 2, "groups": "same_rank"},
    {"preset": "nemo_rl_packing"}, {"synchronization": "accumulated"}, {"allow_empty_microbatches": True},
])
@pytest.mark.parametrize("as_items", [False, True])
def test_each_sequence_comes_once_an_epoch_within_the_limits(options, as_items):
    lengths, images = images_of()
    patches, frames = sums_of(images), lengths % 7
    loads = {"items": {"patches": images}, "loads": {"frames": frames}} if as_items else {
        "loads": {"patches": patches, "frames": frames}}
    samplers = samplers_of(lengths, limits={"patches": PATCHES, "frames": 60}, cost=COST, **loads, **options)
    for _ in range(3):
        slots = slots_of(samplers)
        if "drop_last" in options:
            assert len(set(trained(slots))) == len(trained(slots)) == COUNT - COUNT % BATCH
        else:
            assert trained(slots) == list(range(COUNT))
        for batch in itertools.chain(*slots):
            assert patches[batch].sum() <= PATCHES and frames[batch].sum() <= 60 and lengths[batch].sum() <= BUDGET


def test_ranks_are_alike_in_what_loads_cost():
    lengths, images = images_of()
    patches = sums_of(images)

    def step_time(**options):
        plans = [one for sampler in samplers_of(lengths, batch=62, effort="default", **options)[:1]
                 for one in map(sampler.plan, range(sampler.steps))]
        tokens, brought = COST.of_sequences(lengths), 0.5 * patches
        return sum(
            max((tokens + brought)[batch[one.indices]].sum() for one in slot)
            for plan, batch in plans for slot in zip(*(plan.rank(rank) for rank in range(4))))

    assert step_time(loads={"patches": patches}, cost=COST) < 0.97 * step_time()


@pytest.mark.parametrize("limits", [{}, {"limits": {"patches": 700}}])
def test_items_are_dealt_within_each_global_batch(limits):
    lengths, images = images_of()
    cost = CostModel(1.0, loads=[LoadCost("patches", 0.5, dealt=True)])
    sampler = samplers_of(lengths, items={"patches": images}, cost=cost, **limits)[0]
    seen = []
    for step in range(sampler.steps):
        plan, batch = sampler.plan(step)
        # Items are numbered in the order of the batch.
        owners = batch[plan.item_sequences["patches"]]
        values = numpy.concatenate([images[place] for place in batch])
        assert len(values) == len(owners)
        for slot in zip(*(plan.rank(rank) for rank in range(4))):
            for one in slot:
                dealt = one.dealt["patches"]
                assert sorted(dealt.sent) == numpy.flatnonzero(numpy.isin(owners, batch[one.indices])).tolist()
                assert values[dealt.received].sum() <= limits.get("limits", {"patches": numpy.inf})["patches"]
                seen += zip(owners[dealt.received].tolist(), values[dealt.received].tolist())
    assert sorted(seen) == sorted((place, value) for place, one in enumerate(images) for value in one.tolist())


def check_kinds(slots, kinds, rule):
    for slot in slots:
        of_ranks = [{kinds[index] for index in batch} for batch in slot]
        if rule == "alike":
            assert len(set().union(*of_ranks)) == 1
        else:
            assert all(own - {0} for own in of_ranks) or not any(own - {0} for own in of_ranks)


@pytest.mark.parametrize("rule", ["together", "alike"])
@pytest.mark.parametrize("rare", [0.05, 0.3])
@pytest.mark.parametrize("options", [
    {}, {"microbatches_per_step": 5}, {"mini_batch_size": 40, "batch": 80}, {"drop_last": True}, {"window": 3},
    {"batch": BatchSizeSchedule([(0, 20), (100, 40)])}, {"largest_first": True}, {"shuffle": False},
    {"group_ids": numpy.arange(320) // 2, "groups": "same_microbatch"},
])
def test_slots_are_of_the_kinds_that_were_asked_for(rule, rare, options):
    """Also where a global batch of the shuffled order has fewer of a kind than ranks."""
    lengths, _ = images_of(320)
    kinds = numpy.zeros(160, int)
    kinds[numpy.random.default_rng(2).permutation(160)[: int(rare * 160)]] = numpy.arange(int(rare * 160)) % 2 + 1
    kinds = numpy.repeat(kinds, 2)
    budget = {"passes": [Pass(BUDGET, kinds_per_slot=rule)]}
    samplers = samplers_of(lengths, kinds=kinds, **budget, **{"batch": 40, **options})
    for _ in range(3):
        slots = slots_of(samplers)
        check_kinds(slots, kinds, rule)
        assert trained(slots) == list(range(320))


def test_kinds_that_no_slot_has_enough_of_are_refused():
    with pytest.raises(batchplan.InvalidRequest, match="1 sequences of kind 1.*It is global batch . of epoch 0, and"):
        BatchSampler([10] * 64, 16, dp=4, kinds=[1, 1] + [0] * 62, passes=[Pass(100, kinds_per_slot="alike")])


@pytest.mark.parametrize("saved, loading", list(itertools.permutations((1, 2, 4, 8), 2)))
@pytest.mark.parametrize("options", [
    {"limits": {"patches": PATCHES}},
    {"limits": {"patches": PATCHES}, "window": 3},
    {"kinds": True, "max_tokens": None, "passes": [Pass(BUDGET, kinds_per_slot="together")]},
])
def test_a_state_goes_on_with_another_dp_and_budget(saved, loading, options):
    lengths, images = images_of(COUNT, 4)
    patches = sums_of(images)
    options = {"loads": {"patches": patches}, "cost": COST, "batch": 40, **options}
    if "kinds" in options:
        options["kinds"] = (patches > 0).astype(int)
    sampler = samplers_of(lengths, saved, **options)[0]
    batches = [sorted(sampler.plan(step)[1].tolist()) for step in range(sampler.steps)]
    first = iter(sampler)
    for step in range(3):
        for _ in sampler.plan(step)[0].rank(0):
            next(first)
    state = json.loads(json.dumps(sampler.state_dict()))
    if "kinds" in options:
        options["passes"] = [Pass(3000, kinds_per_slot="together")]
    else:
        options["max_tokens"] = 3000
    resumed = samplers_of(lengths, loading, **options)
    for one in resumed:
        one.load_state_dict(state)
    slots = slots_of(resumed)
    assert trained(slots) == sorted(sum(batches[3:], []))
    for batch in itertools.chain(*slots):
        assert "limits" not in options or patches[batch].sum() <= PATCHES
    if "kinds" in options:
        check_kinds(slots, options["kinds"], "together")
    assert trained(slots_of(resumed)) == list(range(COUNT))


@pytest.mark.parametrize("change, named", [
    ({"loads": {"patches": numpy.ones(COUNT)}}, "loads are not those of when"),
    ({"loads": None, "limits": None, "cost": None}, r"cost_model.loads\[0\].load .*is unset; it was patches"),
    ({"items": {"images": [[2]] * COUNT}}, "items are not those of when"),
    ({"items": {"images": [[1, 1]] * COUNT}}, "items are not those of when"),
    ({"kinds": [1] * COUNT}, "kinds are not those of when"),
    ({"kinds": None}, "kinds are not those of when"),
    ({"limits": {"patches": 1400}}, r"passes\[0\].limits\[0\].max_per_microbatch is 1400.0; it was 1500.0"),
    ({"cost": CostModel(1.0, loads={"patches": 0.25})}, r"cost_model.loads\[0\].per_unit .*is 0.25; it was 0.5"),
])
def test_a_state_of_other_loads_is_refused(change, named):
    lengths, images = images_of()
    options = {"loads": {"patches": sums_of(images)}, "items": {"images": [[1]] * COUNT}, "kinds": [0] * COUNT,
               "cost": CostModel(1.0, loads={"patches": 0.5}), "limits": {"patches": 1500}}
    state = samplers_of(lengths, **options)[0].state_dict()
    samplers_of(lengths, **options)[0].load_state_dict(state)
    with pytest.raises(ValueError, match=named):
        samplers_of(lengths, **{**options, **change})[0].load_state_dict(state)


@pytest.mark.parametrize("dealt", [False, True])
def test_the_largest_is_the_costliest_with_its_loads(dealt):
    lengths, images = images_of()
    patches = sums_of(images)
    cost = CostModel(1.0, loads=[LoadCost("patches", 3.0, dealt=dealt)])
    options = {"items": {"patches": images}, "cost": cost}
    first, plain = (samplers_of(lengths, largest_first=one, **options)[0] for one in (True, False))

    def costliest(sampler, step):
        plan, batch = sampler.plan(step)
        own, values = lengths[batch] + 0.0, numpy.concatenate([images[place] for place in batch])
        return max(
            own[one.indices].sum()
            + 3.0 * (values[one.dealt["patches"].received] if dealt else patches[batch][one.indices]).sum()
            for rank in range(4) for one in plan.rank(rank))

    costs = [costliest(first, step) for step in range(first.steps)]
    assert costs[0] == max(costs) and sorted(costs) == sorted(costliest(plain, step) for step in range(plain.steps))
    assert costliest(plain, 0) != costs[0]


def test_what_is_above_a_limit_by_itself_is_no_part_of_the_dataset():
    patches = [100.0] * 8 + [900.0] * 5 + [200.0] * 3
    options = {"loads": {"patches": patches}, "limits": {"patches": 500}, "max_tokens": 50}
    sampler = BatchSampler([10] * 16, 4, overlong="drop", shuffle=False, **options)
    assert sorted(index for batch in sampler for index in batch) == [*range(8), *range(13, 16)]
    with pytest.raises(batchplan.InvalidRequest, match="sequence (8|9|10|11|12) "):
        BatchSampler([10] * 16, 4, **options)
    alone = BatchSampler([10] * 16, 4, overlong="alone", **options)
    assert all(len(batch) == 1 for batch in alone if 900.0 in [patches[index] for index in batch])


@pytest.mark.parametrize("options, message", [
    ({"loads": {"patches": [1.0] * 7}}, r'loads\["patches"\] has 7 values; there are 8 sequences'),
    ({"loads": {"patches": [1.0, -1.0] * 4}}, r'loads\["patches"\]\[1\] is -1.0; must be finite, at least 0'),
    ({"items": {"patches": [[1.0], [numpy.inf]] * 4}}, 'an item of "patches" of sequence 1 is inf; must be finite'),
    ({"items": {"patches": [[1.0]] * 7}}, r"manifest.items\[0\] .*has 7 lists; must have 8"),
    ({"loads": {"a": [1] * 8}, "items": {"a": [[1]] * 8}}, 'loads and items both have "a"'),
    ({"kinds": [1] * 7}, "kinds has 7 entries; there are 8 sequences"),
    ({"limits": {"patches": 5}}, r'passes\[0\].limits\[0\].load is "patches", but manifest.loads .*has none'),
    ({"loads": {"a": [1] * 8}, "limits": {"a": 0}}, r"passes\[0\].limits\[0\].max_per_microbatch is 0"),
    ({"limits": {"a": 5}, "max_tokens": None, "passes": [Pass(16)]}, "limits and passes are set"),
    ({"cost": COST}, r'cost_model.loads\[0\].load .*is "patches", but manifest.loads .*has none'),
    ({"shared_prefixes": [1] * 8}, "shared_prefixes is set; a sampler gives out all sequences, in any order"),
])
def test_what_is_wrong_is_told_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        BatchSampler([4] * 8, 4, **{"max_tokens": 16, **options})
