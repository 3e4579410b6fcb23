"""What sequences bring beside tokens, from its values to the micro-batches of a plan."""

import asyncio
import concurrent.futures
import dataclasses
import json
import pickle

import batchplan
import numpy
import pytest
from batchplan import _request

OPTIONS = {"dp": 4, "max_tokens": 8192}


def images(count=96, seed=1):
    """Lengths of sequences, and the patches of their images: none of most, several of some."""
    draw = numpy.random.default_rng(seed)
    patches = [draw.integers(64, 2048, draw.choice((0, 0, 1, 2, 5))) for _ in range(count)]
    return numpy.array([int(one.sum()) // 4 for one in patches]) + draw.integers(10, 2000, count), patches


def sums(patches):
    return numpy.array([one.sum() for one in patches], float)


def slots_of(plan, ranks=4):
    """Of a plan of one mini-batch, the micro-batches of each slot, by rank."""
    return list(zip(*(plan.rank(rank) for rank in range(ranks))))


def tokens_cost(microbatch):
    return batchplan.DEFAULT_COST.of_sequences(microbatch.lengths).sum()


def priced(*loads):
    return batchplan.CostModel(1, 1 / 24576, loads=loads)


def test_a_load_without_cost_and_limit_is_measured():
    lengths, patches = images()
    values = sums(patches)
    plan = batchplan.plan(lengths, loads={"patches": values, "ones": [1] * len(lengths)}, **OPTIONS)
    assert plan.fingerprint == batchplan.plan(lengths, **OPTIONS).fingerprint
    held = numpy.array([[values[one.indices].sum() for one in slot] for slot in slots_of(plan)])
    found = plan.metrics.loads["patches"]
    assert list(plan.metrics.loads) == ["patches", "ones"]
    assert found.largest == held.max() and found.mean == pytest.approx(held.mean())
    assert found.rank_imbalance == pytest.approx(held.sum(axis=0).max() / held.sum(axis=0).mean())
    assert found.separate_time == 0
    assert plan.metrics.loads["ones"].mean * held.size == len(lengths)
    assert plan.item_ranks == {} and all(one.dealt == {} for one in plan.rank(0))


@pytest.mark.parametrize("separate", [False, True])
def test_a_step_takes_what_its_loads_cost(separate):
    lengths, patches = images()
    values = sums(patches)
    cost = priced(batchplan.LoadCost("patches", 0.5, separate=separate))
    plan = batchplan.plan(lengths, loads={"patches": values}, cost=cost, **OPTIONS)
    taken, encoding = 0, 0
    for slot in slots_of(plan):
        tokens = numpy.array([tokens_cost(one) for one in slot])
        encoder = numpy.array([0.5 * values[one.indices].sum() for one in slot])
        encoding += encoder.max() if separate else 0
        taken += tokens.max() + encoder.max() if separate else (tokens + encoder).max()
    assert plan.metrics.predicted_step_time == pytest.approx(taken, rel=1e-6)
    assert plan.metrics.loads["patches"].separate_time == pytest.approx(encoding, rel=1e-6)
    blind = batchplan.plan(lengths, **OPTIONS)
    assert plan.fingerprint != blind.fingerprint


def test_one_load_may_be_all_that_costs():
    lengths, _ = images()
    own = batchplan.DEFAULT_COST.of_sequences(lengths)
    plan = batchplan.plan(lengths, loads={"cost": own}, cost=batchplan.CostModel(0, loads={"cost": 1}), **OPTIONS)
    taken = sum(max(own[one.indices].sum() for one in slot) for slot in slots_of(plan))
    assert plan.metrics.predicted_step_time == pytest.approx(taken, rel=1e-6)
    assert batchplan.CostModel(0, loads={"cost": 1}) == batchplan.CostModel(0, loads=[batchplan.LoadCost("cost", 1)])
    assert hash(batchplan.CostModel(0, loads={"cost": 1})) == hash(batchplan.CostModel(0, loads={"cost": 1}))


def exchanged(slot, name):
    """What an all-to-all of the ranks of a slot delivers: of each rank, (item, from) in its order."""
    boxes = [[] for _ in slot]
    for rank, microbatch in enumerate(slot):
        dealt = microbatch.dealt[name]
        splits = numpy.bincount(dealt.sent_to, minlength=len(slot))
        assert (numpy.repeat(numpy.arange(len(slot)), splits) == dealt.sent_to).all()
        for item, to in zip(dealt.sent.tolist(), dealt.sent_to.tolist()):
            boxes[to].append((item, rank))
    return boxes


@pytest.mark.parametrize("mini_batch_size", [0, 48])
def test_items_that_are_dealt_arrive_where_they_are_computed(mini_batch_size):
    lengths, patches = images()
    flat, owners = numpy.concatenate(patches), numpy.repeat(numpy.arange(len(patches)), [len(one) for one in patches])
    cost = priced(batchplan.LoadCost("patches", 0.5, dealt=True))
    plan = batchplan.plan(
        lengths, items={"patches": patches}, cost=cost, mini_batch_size=mini_batch_size, **OPTIONS)
    ranks = plan.item_ranks["patches"]
    assert ranks.dtype == numpy.uint32 and not ranks.flags.writeable and len(ranks) == len(flat)
    assert plan.item_sequences["patches"].tolist() == owners.tolist()
    seen, encoding = [], 0
    for slot in slots_of(plan):
        for rank, (microbatch, box) in enumerate(zip(slot, exchanged(slot, "patches"))):
            dealt = microbatch.dealt["patches"]
            assert sorted(dealt.sent) == [item for item, owner in enumerate(owners) if owner in microbatch.indices]
            assert list(zip(dealt.received.tolist(), dealt.received_from.tolist())) == box
            assert (ranks[dealt.received] == rank).all()
            seen += dealt.received.tolist()
        encoding += 0.5 * max(flat[one.dealt["patches"].received].sum() for one in slot)
    assert sorted(seen) == list(range(len(flat)))
    found = plan.metrics.loads["patches"]
    assert found.separate_time == pytest.approx(encoding, rel=1e-6)
    assert found.largest == max(flat[one.dealt["patches"].received].sum() for slot in slots_of(plan) for one in slot)


def test_plans_with_items_travel():
    lengths, patches = images(seed=4)
    cost = priced(batchplan.LoadCost("patches", 0.5, dealt=True))
    plan = batchplan.plan(lengths, items={"patches": patches}, cost=cost, **OPTIONS)
    again = pickle.loads(pickle.dumps(plan))
    for one, other in zip(plan.rank(2), again.rank(2)):
        one, other = one.dealt["patches"], pickle.loads(pickle.dumps(other)).dealt["patches"]
        assert one.sent.tolist() == other.sent.tolist() and one.received.tolist() == other.received.tolist()
        assert not other.sent.flags.writeable
    assert not again.item_ranks["patches"].flags.writeable
    written = json.loads(json.dumps(plan.to_dict()))["passes"][0]
    assert written["itemRanks"] == [{"load": "patches", "ranks": plan.item_ranks["patches"].tolist()}]
    assert written["metrics"]["loads"][0]["load"] == "patches"
    assert "<html" in plan.to_html()


def test_a_server_gives_the_same_plan(server):
    lengths, patches = images(seed=2)
    options = {"items": {"patches": patches}, "loads": {"frames": lengths / 7}, **OPTIONS,
               "cost": priced(batchplan.LoadCost("patches", 0.5, dealt=True), batchplan.LoadCost("frames", 0.1))}
    here = batchplan.plan(lengths, **options)
    with batchplan.Client(server) as client:
        there = client.plan(lengths, **options)

    async def ask():
        async with batchplan.AsyncClient(server) as client:
            return await client.plan(lengths, **options)

    for plan in (there, asyncio.run(ask())):
        assert plan.fingerprint == here.fingerprint and plan.metrics == here.metrics
        assert plan.item_ranks["patches"].tolist() == here.item_ranks["patches"].tolist()
        for one, other in zip(plan.rank(1), here.rank(1)):
            assert one.dealt["patches"].received.tolist() == other.dealt["patches"].received.tolist()


def test_workers_join_with_loads_of_their_own(server):
    lengths, patches = images(seed=3)
    cuts = (0, 40, 40, 96)
    cost = priced(batchplan.LoadCost("patches", 0.5, dealt=True), batchplan.LoadCost("frames", 0.1))
    whole = batchplan.plan(
        lengths, loads={"frames": lengths * 2}, items={"patches": patches}, cost=cost, **OPTIONS)

    def join(worker, rank=None):
        own = slice(cuts[worker], cuts[worker + 1])
        with batchplan.Client(server) as client:
            return client.join(
                lengths[own], loads={"frames": lengths[own] * 2}, items={"patches": patches[own]}, cost=cost,
                job_id="loads", step=3 if rank is None else 4, worker=worker, world_size=3, rank=rank, run_id="",
                **OPTIONS)

    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        plans = list(threads.map(join, range(3)))
        parts = list(threads.map(join, range(3), range(3)))
    for plan in plans:
        assert plan.fingerprint == whole.fingerprint
        assert plan.item_sequences["patches"].tolist() == whole.item_sequences["patches"].tolist()
        for one, other in zip(plan.rank(3), whole.rank(3)):
            assert one.dealt["patches"].received_from.tolist() == other.dealt["patches"].received_from.tolist()
    for rank, part in enumerate(parts):
        assert part.item_ranks["patches"].tolist() == whole.item_ranks["patches"].tolist()
        for one, other in zip(part.rank(rank), whole.rank(rank)):
            dealt, expected = one.dealt["patches"], other.dealt["patches"]
            assert dealt.sent.tolist() == expected.sent.tolist()
            assert dealt.sent_to.tolist() == expected.sent_to.tolist()
            assert dealt.received is dealt.received_from is None


@pytest.mark.parametrize("mini_batch_size", [None, 48])
def test_micro_batches_know_their_loads(mini_batch_size):
    lengths, patches = images()
    frames = numpy.arange(len(lengths), dtype=float)
    for cost in (None, priced(batchplan.LoadCost("patches", 0.5, dealt=True))):
        cut = {} if mini_batch_size is None else {"mini_batch_size": mini_batch_size, "shuffle": True}
        plan = batchplan.plan(
            lengths, loads={"frames": frames}, items={"patches": patches}, cost=cost, **cut, **OPTIONS)
        flat = numpy.concatenate(patches)
        total = 0.0
        for rank in range(4):
            for one in pickle.loads(pickle.dumps(plan)).rank(rank):
                own = sums(patches)[one.indices].sum() if cost is None else flat[one.dealt["patches"].received].sum()
                assert one.loads == {"frames": frames[one.indices].sum(), "patches": own}
                assert one.timing(1.0).loads == one.loads
                assert one.timing(1.0, loads={"patches": 3}).loads == {"patches": 3}
                total += one.loads["patches"]
        assert total == flat.sum()
    assert all(one.loads == {} for one in batchplan.plan(lengths, **OPTIONS).rank(0))


def timed(plan, ranks=4):
    """The timings of a plan on devices that take 0.05 ms a patch, beside tokens and their squares."""
    timings = []
    for rank in range(ranks):
        for one in plan.rank(rank):
            timing = one.timing(1.0)
            took = 0.01 * timing.tokens + 2e-6 * timing.tokens_squared + 3 + 0.05 * timing.loads["patches"]
            timings.append(one.timing(took))
    return timings


def test_what_loads_cost_is_fitted_here():
    timings = []
    for seed in range(3):
        lengths, patches = images(seed=seed)
        plan = batchplan.plan(lengths, items={"patches": patches}, loads={"none": numpy.zeros(len(lengths))}, **OPTIONS)
        timings += timed(plan)
    fit = batchplan.fit_costs(timings)
    found = {one.load: one.per_unit for one in fit.cost.loads}
    assert found == {"patches": pytest.approx(0.05, rel=1e-3), "none": 0}
    assert fit.cost.per_token == pytest.approx(0.01, rel=1e-2)


def test_what_loads_cost_is_fitted_to_reports(server):
    with batchplan.Client(server) as client:
        for step in range(6):
            lengths, patches = images(seed=step)
            plan = client.plan(lengths, items={"patches": patches}, **OPTIONS)
            fit = client.report_step(timed(plan), job_id="loads", step=step, plan=plan)
        assert [one.load for one in fit.cost.loads] == ["patches"]
        assert fit.cost.loads[0].per_unit == pytest.approx(0.05, rel=0.02)
        fitted = client.plan(lengths, items={"patches": patches}, job_id="loads", cost="fitted", **OPTIONS)
        here = batchplan.plan(lengths, items={"patches": patches}, cost=fit.cost, **OPTIONS)
        assert fitted.fingerprint == here.fingerprint
        assert fitted.metrics.predicted_step_time == pytest.approx(here.metrics.predicted_step_time)
        # A batch without images is planned by what else was fitted.
        client.plan(lengths, job_id="loads", cost="fitted", **OPTIONS)


@pytest.mark.parametrize("loads, field", [
    ([{"a": 1}, {"b": 1}], "microbatches[1].loads"),
    ([{"a": 1}, {}], "microbatches[1].loads"),
    ([{"a": "1"}], "microbatches[0].loads[0]"),
    ([{"a": -1}], "microbatches[0].loads[0]"),
    ([{"a": 1, "b": float("nan")}], "microbatches[0].loads[1]"),
    ([{"a": 1, "b": 1e31}], "microbatches[0].loads[1]"),
    ([{"a" * 65: 1}], "loads[0]"),
    ([{"": 1}], "loads[0]"),
    ([{3: 1}], "loads[0]"),
    ([{str(place): 1 for place in range(9)}], "loads"),
    ([[1]], "microbatches[0].loads"),
])
def test_wrong_loads_of_timings_are_named(loads, field):
    timings = [batchplan.MicroBatchTiming(8, 64, 1.0, loads=one) for one in loads]
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.fit_costs(timings)
    assert caught.value.field == field


def test_loads_of_timings_may_stand_in_any_order():
    timings = [
        batchplan.MicroBatchTiming(
            8 * n, 64 * n, 1.0 + n, loads=dict(sorted({"a": n, "b": 2.0}.items(), reverse=n % 2)))
        for n in range(1, 20)]
    ordered = [dataclasses.replace(one, loads={"a": one.loads["a"], "b": one.loads["b"]}) for one in timings]
    found, same = (
        {one.load: one.per_unit for one in batchplan.fit_costs(given).cost.loads} for given in (timings, ordered))
    assert found == same and found.keys() == {"a", "b"}


def test_workers_with_other_loads_are_named(server):
    def join(worker):
        with batchplan.Client(server) as client:
            return client.join(
                [100], loads={("patches", "frames")[worker]: [1]}, job_id="other-loads", step=1, worker=worker,
                world_size=2, run_id="", dp=1, max_tokens=1000)

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        errors = [future.exception() for future in [threads.submit(join, worker) for worker in range(2)]]
    for error in errors:
        assert isinstance(error, batchplan.InvalidRequest)
        assert 'manifest.loads[0].name (loads) is "patches" in worker 0\'s part and "frames" in worker 1\'s' in str(error)


def test_arrays_are_read_where_they_stand():
    values = numpy.ones(3)
    request = _request.Request([5, 6, 7], loads={"patches": values}, max_tokens=100)
    assert request.arrays[7][0][1] is values


@pytest.mark.parametrize("arguments, named", [
    ({"loads": {"patches": [1, 2]}}, r'manifest.loads\[0\].values .*of "patches" has 2 entries'),
    ({"loads": {"patches": [1, -2, 3]}}, r"manifest.loads\[0\].values\[1\] .*is -2"),
    ({"loads": {"patches": [1, float("nan"), 3]}}, r"manifest.loads\[0\].values\[1\] .*is nan"),
    ({"loads": {"patches": [[1], [2], [3]]}}, r"manifest.loads\[0\].values\[0\] .*is \[1\]; must be a number"),
    ({"loads": {"patches": ["1", "2", "3"]}}, r'manifest.loads\[0\].values\[0\] .*is "1"; must be a number'),
    ({"loads": {"patches": [True, 2, 3]}}, r"manifest.loads\[0\].values\[0\] .*is True; must be a number"),
    ({"loads": {"": [1, 2, 3]}}, r"manifest.loads\[0\].name .*has 0 bytes"),
    ({"loads": [1, 2, 3]}, r"loads is \[1, 2, 3\]; must be a mapping by name"),
    ({"loads": {1: [1, 2, 3]}}, "a name of loads is 1; must be a string"),
    ({"items": {"patches": [[1], [2]]}}, r"manifest.items\[0\] .*has 2 lists; must have 3"),
    ({"items": {"patches": [[1], 2, []]}}, r"manifest.items\[0\]\[1\] .*is 2; must be a list or an array of numbers"),
    ({"items": {"patches": [[1], [-2], []]}}, r"manifest.items\[0\].values\[1\] .*is -2"),
    ({"items": {"patches": 5}}, r"manifest.items\[0\] .*is 5; must be a list of lists"),
    ({"loads": {"patches": [1] * 3}, "items": {"patches": [[1]] * 3}}, 'loads and items both have "patches"'),
    ({"loads": {"patches": [1, 2, 90]}, "limits": {"patches": 80}}, r"passes\[0\].limits"),
    ({"loads": {"patches": [1, 2, 3]}, "limits": {"frames": 80}}, r'passes\[0\].limits\[0\].load is "frames"'),
    ({"loads": {"patches": [1, 2, 3]}, "limits": {"patches": 0}}, r"passes\[0\].limits\[0\].max_per_microbatch is 0"),
    ({"limits": [5]}, r"passes\[0\].limits is \[5\]; must be numbers by name"),
    ({"limits": {"a": 1}, "max_tokens": None, "passes": [batchplan.Pass(9)]}, "limits and passes are set"),
    ({"kinds": [0, 1]}, "manifest.kinds .*has 2 entries"),
    ({"cost": batchplan.CostModel(loads={"patches": 1})}, r'cost_model.loads\[0\].load .*is "patches", but'),
    ({"cost": batchplan.CostModel(loads={"patches": "1"})}, r"cost_model.loads\[0\].per_unit .*is \"1\"; must be a num"),
    ({"cost": batchplan.CostModel(loads=[5])}, r"cost_model.loads\[0\] .*is 5; cost_model.loads .*must be a sequence"),
    ({"loads": {"patches": [1] * 3}, "cost": batchplan.CostModel(loads=[batchplan.LoadCost("patches", 1, dealt=True)])},
     r"cost_model.loads\[0\].dealt .*is set, but manifest.items .*has no items"),
])
def test_what_is_wrong_is_named(arguments, named):
    with pytest.raises(batchplan.InvalidRequest, match=named):
        batchplan.plan([50, 60, 70], **{"max_tokens": 100, **arguments})


def test_a_pool_keeps_the_loads_of_what_waits():
    draw = numpy.random.default_rng(5)
    pool, values = batchplan.Pool(), {}
    for group in range(12):
        of_group = draw.integers(1, 500, 4)
        items = [(group, place) for place in range(4)]
        values.update(zip(items, of_group.tolist()))
        pool.add(items, draw.integers(10, 900, 4), loads={"patches": of_group})
    of_group[:] = 0
    pool.discard(lambda item: item == (3, 1))
    pool = pickle.loads(pickle.dumps(pool))
    left = sum(values.values()) - values[3, 1]
    cost = priced(batchplan.LoadCost("patches", 1))
    while len(pool):
        batch = pool.take(batchplan.Selection(groups=4), dp=2, max_tokens=4096, cost=cost)
        for rank in range(2):
            held = [sum(values[item] for item in batch.of(one)) for one in batch.plan.rank(rank)]
            assert max(held) <= batch.plan.metrics.loads["patches"].largest
            left -= sum(held)
    assert left == 0


def test_a_pool_keeps_the_items_and_kinds_of_what_waits():
    draw = numpy.random.default_rng(7)
    pool, images, kinds = batchplan.Pool(), {}, {}
    for group in range(24):
        items = [(group, place) for place in range(4)]
        kind = group % 2
        lists = [draw.integers(64, 900, draw.integers(1, 4)) if kind else [] for _ in items]
        images.update(zip(items, lists))
        kinds.update((item, kind) for item in items)
        pool.add(items, draw.integers(10, 900, 4), load_items={"patches": lists}, kinds=[kind] * 4)
    pool.discard(lambda item: item[1] == 2)
    pool = pickle.loads(pickle.dumps(pool))
    left = sorted(size for item, sizes in images.items() if item[1] != 2 for size in sizes)
    cost = priced(batchplan.LoadCost("patches", 1, dealt=True))
    while len(pool):
        batch = pool.take(batchplan.Selection(groups=8, max_overtaking=4), dp=2, cost=cost,
                          passes=[batchplan.Pass(4096, kinds_per_slot="alike", limits={"patches": 4000})])
        values = numpy.concatenate([images[item] for item in batch.items])
        for slot in slots_of(batch.plan, 2):
            assert len({kinds[item] for one in slot for item in batch.of(one)}) == 1
            for one in slot:
                own = values[one.dealt["patches"].received]
                assert own.sum() <= 4000
                for size in own:
                    left.remove(size)
            sent = sorted(values[index] for one in slot for index in one.dealt["patches"].sent)
            assert sent == sorted(size for one in slot for item in batch.of(one) for size in images[item])
    assert left == []


@pytest.mark.parametrize("arguments, named", [
    ({"loads": {"patches": [1]}}, r'loads\["patches"\] has 1 values; there are 2 sequences'),
    ({"loads": {"patches": [1, -2]}}, r'loads\["patches"\]\[1\] is -2.0; must be finite, at least 0'),
    ({"load_items": {"patches": [[], [4, float("nan")]]}}, 'an item of "patches" of sequence 1 is nan; must be finite'),
    ({"load_items": {"patches": [[1]]}}, r"manifest.items\[0\] .*has 1 lists; must have 2"),
    ({"loads": {"patches": [1, 2]}, "load_items": {"patches": [[], []]}}, 'loads and items both have "patches"'),
    ({"loads": {"patches": [1, 2]}, "kinds": [1]}, "kinds has 1 entries; there are 2 sequences"),
    ({"loads": {"frames": [1, 2]}}, r"loads has \['frames'\]; what waits has \['patches'\]"),
    ({"loads": {"patches": [1, 2]}, "kinds": [0, 1]}, r"loads has \['patches', 'kinds'\]; what waits has \['patches'\]"),
    ({}, r"loads has none; what waits has \['patches'\]"),
])
def test_a_pool_refuses_other_loads(arguments, named):
    pool = batchplan.Pool()
    pool.add("ab", [5, 6], loads={"patches": [1, 2]})
    with pytest.raises(batchplan.InvalidRequest, match=named):
        pool.add("cd", [5, 6], **arguments)
    with pytest.raises(batchplan.InvalidRequest, match="loads is set; the pool has what waits: give them to add"):
        pool.take(batchplan.Selection(groups=1), max_tokens=100, loads={"patches": [1, 2]})


@pytest.mark.parametrize("rule", ["together", "alike"])
def test_slots_are_of_one_kind(rule):
    lengths, kinds = [300, 500, 200, 400] * 16, [0, 1, 0, 2] * 16
    plan = batchplan.plan(lengths, dp=4, kinds=kinds,
                          passes=[batchplan.Pass(2048, kinds_per_slot=rule)])
    for slot in slots_of(plan):
        of_ranks = [{kinds[i] for i in microbatch.indices} for microbatch in slot]
        if rule == "alike":
            assert len(set.union(*of_ranks)) == 1
        else:
            assert all(own - {0} for own in of_ranks) or not any(own - {0} for own in of_ranks)
    with pytest.raises(batchplan.InvalidRequest, match="sequences of kind 1"):
        batchplan.plan([1, 2, 3], dp=2, kinds=[0, 0, 1],
                       passes=[batchplan.Pass(16, kinds_per_slot="alike")])
