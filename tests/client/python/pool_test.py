"""Batches chosen from what waits: Selection, and the pool of an asynchronous trainer."""

import functools
import pickle
import threading

import batchplan
import numpy
import pytest

OPTIONS = {"dp": 2, "max_tokens": 512, "allow_empty_microbatches": True}


def selection(**fields):
    return batchplan.Selection(**fields)


def test_some_of_what_waits_is_planned():
    lengths = [90, 10, 90, 10, 400, 7]
    plan = batchplan.plan(
        lengths, ages=[0, 1, 0, 1, 2, 9], selection=selection(sequences=2, max_age=3, max_overtaking=1), **OPTIONS
    )
    assert plan.deferred.tolist() == [1, 3, 4] and not plan.deferred.flags.writeable
    assert sorted(plan.passes[0].sequence_index.tolist()) == [0, 2]
    assert [(one.index, one.length, one.reason) for one in plan.excluded] == [(5, 7, "expired")]
    assert plan.metrics.mean_length_taken == 90 and plan.metrics.mean_length_deferred == 140
    assert plan.metrics.mean_age == plan.metrics.largest_age == 0
    assert plan.restore(numpy.ones(2)).tolist() == [1, 0, 1, 0, 0, 0]
    assert plan.to_dict()["deferred"] == [1, 3, 4]
    assert pickle.loads(pickle.dumps(plan)).deferred.tolist() == [1, 3, 4]


def test_mini_batches_lend_each_other_their_long_ones():
    lengths = [100, 1, 100, 1]
    apart = batchplan.plan(lengths, mini_batch_size=2, **OPTIONS)
    assert apart.metrics.moved_share == apart.metrics.mean_delay == 0
    together = batchplan.plan(lengths, mini_batch_size=2, max_delay=1, **OPTIONS)
    assert together.metrics.moved_share == 0.5 and together.metrics.mean_delay == 0.25
    assert together.metrics.predicted_step_time < apart.metrics.predicted_step_time


def test_a_server_and_workers_choose_the_same(server):
    lengths, groups, ages = [90, 10, 80, 20, 85, 15], [0, 0, 1, 1, 2, 2], [1, 0, 0, 0, 0, 0]
    which = selection(groups=2, max_age=4, max_overtaking=1)
    options = {"group_ids": groups, "ages": ages, "selection": which, **OPTIONS}
    here = batchplan.plan(lengths, **options)
    with batchplan.Client(server) as client:
        assert client.plan(lengths, **options).fingerprint == here.fingerprint
        parts = [None, None]

        def join(worker):
            own = slice(3 * worker, 3 * worker + 3)
            of_worker = {"group_ids": groups[own], "ages": ages[own]}
            parts[worker] = client.join(lengths[own], job_id="chosen", step=1, worker=worker, world_size=2, rank=worker,
                                        **{**options, **of_worker})

        threads = [threading.Thread(target=join, args=(worker,)) for worker in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Each is told of its own.
        assert here.deferred.tolist() == [2, 3]
        assert [part.deferred.tolist() for part in parts] == [[2], [3]]
        assert {part.fingerprint for part in parts} == {here.fingerprint}


@pytest.mark.parametrize("fields, options, named", [
    ({"sequences": 3}, {}, "selection.sequences is 3, but 2 sequences may be taken: 1 missing"),
    ({}, {}, "selection.sequences is 0, selection.groups is 0, selection.max_tokens is 0; exactly one"),
    ({"sequences": 1, "groups": 1}, {}, "exactly one of them must be at least 1"),
    ({"sequences": 2.5}, {}, "selection.sequences is 2.5; must be a whole number"),
    ({"sequences": -1}, {}, "selection"),
    ({"sequences": 1, "max_age": 1}, {}, "manifest.ages .*is empty"),
    ({"sequences": 1}, {"ages": [1]}, "manifest.ages .*has 1 entries"),
])
def test_a_selection_that_cannot_be_is_refused(fields, options, named):
    with pytest.raises(batchplan.InvalidRequest, match=named):
        batchplan.plan([10, 20], selection=selection(**fields), **options, **OPTIONS)


def test_a_selection_is_one():
    with pytest.raises(batchplan.InvalidRequest, match="must be a batchplan.Selection"):
        batchplan.plan([10], selection={"sequences": 1}, **OPTIONS)


def filled(groups, seed=0):
    pool = batchplan.Pool()
    random = numpy.random.default_rng(seed)
    for group in range(groups):
        lengths = numpy.clip(random.lognormal(4, 1.2, 4), 1, 512).astype(int)
        pool.add([(group, place) for place in range(4)], lengths)
    return pool, random


def test_a_pool_gives_everything_out_once_and_nothing_too_old():
    pool, random = filled(12)
    which = selection(groups=8, max_age=3, max_overtaking=4)
    given = []
    for step in range(20):
        assert pool.step == step
        batch = pool.take(which, **OPTIONS)
        assert batch.step == step and len(batch.taken) == 32
        assert batch.plan.metrics.largest_age <= 3
        assert [one for rank in range(2) for mine in batch.plan.rank(rank) for one in batch.of(mine)] == batch.taken
        given += batch.taken
        assert not batch.left_out and len(pool) == 16
        for group in range(12 + 8 * step, 20 + 8 * step):
            pool.add([(group, place) for place in range(4)],
                     numpy.clip(random.lognormal(4, 1.2, 4), 1, 512).astype(int))
    assert len(set(given)) == len(given) == 20 * 32
    # Nobody waits for ever.
    assert {group for group, _ in given} >= set(range(20 * 8 - 12))


def test_what_is_too_old_is_left_out_and_said():
    pool = batchplan.Pool()
    for step in range(3):
        pool.add([step], [10])
        pool.take(selection(sequences=1), **OPTIONS)
    pool.add(["old", "older"], [10, 20], step=1)
    pool.add(["new"], [30])
    batch = pool.take(selection(groups=1, max_age=1), **OPTIONS)
    assert batch.taken == ["new"] and batch.left_out == ["old", "older"] and len(pool) == 0


def test_what_is_dropped_for_its_length_does_not_wait():
    pool = batchplan.Pool()
    pool.add(["long", "beside"], [600, 20])
    pool.add(["a"], [30])
    pool.add(["b"], [40])
    batch = pool.take(selection(groups=1), overlong="drop", **OPTIONS)
    assert batch.taken == ["a"] and batch.left_out == ["long", "beside"] and list(pool) == ["b"]


def test_what_can_never_be_planned_is_taken_out():
    pool = batchplan.Pool()
    pool.add(["a", "long"], [20, 600])
    pool.add(["longer"], [700])
    pool.add(["b"], [30])
    with pytest.raises(batchplan.InvalidRequest, match=r"manifest.lengths\[1\] .*is 600"):
        pool.take(selection(groups=1), **OPTIONS)
    assert list(pool)[1] == "long"
    assert pool.discard(lambda item: "long" in item) == ["long", "longer"]
    assert pool.take(selection(groups=2), **OPTIONS).plan.metrics.mean_length_taken == 25


@pytest.mark.parametrize("other, named", [
    (lambda plan: None, "plan gives None; must be a batchplan.Plan"),
    (lambda plan: batchplan.plan([10] * 4, dp=2, max_tokens=512), "one of 4 sequences; must be of each of the 24"),
    (lambda plan: batchplan.plan([10] * 40, dp=2, max_tokens=512), "one of 40 sequences"),
])
def test_a_plan_of_something_else_loses_nothing(other, named):
    pool, _ = filled(6)
    before = list(pool)
    with pytest.raises(batchplan.InvalidRequest, match=named):
        pool.take(selection(groups=4), plan=lambda lengths, **options: other(batchplan.plan(lengths, **options)), **OPTIONS)
    assert list(pool) == before and pool.step == 0


def test_a_plan_that_cannot_be_leaves_all_as_it_was():
    pool, _ = filled(2)
    with pytest.raises(batchplan.InvalidRequest, match="selection.groups is 3, but 2 groups may be taken"):
        pool.take(selection(groups=3), **OPTIONS)
    assert len(pool) == 8 and pool.step == 0
    with pytest.raises(batchplan.InvalidRequest, match="lengths .*is empty"):
        batchplan.Pool().take(selection(sequences=1), **OPTIONS)


def test_a_pool_is_the_same_after_it_was_pickled():
    pool, _ = filled(12)
    which = selection(groups=4, max_overtaking=4)
    pool.take(which, **OPTIONS)
    other = pickle.loads(pickle.dumps(pool))
    assert other.step == 1 and len(other) == len(pool)
    mine, theirs = (each.take(which, **OPTIONS) for each in (pool, other))
    assert mine.taken == theirs.taken and mine.plan.fingerprint == theirs.plan.fingerprint


def test_threads_add_while_another_takes():
    pool = batchplan.Pool()
    count, threads = 40, 4

    def generate(thread):
        for group in range(count):
            pool.add([(thread, group, place) for place in range(2)], [1 + group, 200 - group])

    generators = [threading.Thread(target=generate, args=(thread,)) for thread in range(threads)]
    for generator in generators:
        generator.start()
    given = []
    for _ in range(count * threads // 8):
        given += pool.take(selection(groups=8, max_overtaking=3), timeout=60, **OPTIONS).taken
    for generator in generators:
        generator.join()
    assert len(pool) == 0 and len(set(given)) == len(given) == 2 * count * threads


def test_it_waits_for_what_is_missing_and_no_longer():
    pool = batchplan.Pool()
    later = threading.Timer(0.1, pool.add, (["a"], [100]))
    later.start()
    assert pool.take(selection(max_tokens=100), timeout=60, **OPTIONS).taken == ["a"]
    pool.add(["b"], [100])
    with pytest.raises(batchplan.InvalidRequest, match="1 missing"):
        pool.take(selection(sequences=2), timeout=0.01, **OPTIONS)


def test_it_waits_until_whole_groups_add_up():
    pool = batchplan.Pool()
    for group in range(3):
        pool.add([group] * 3, [100] * 3)
    which = selection(sequences=8, max_overtaking=4)
    added = [threading.Timer(0.1 * number, pool.add, ([3] * size, [100] * size)) for number, size in ((1, 4), (2, 2))]
    for one in added:
        one.start()
    batch = pool.take(which, timeout=60, **OPTIONS)
    assert sorted(batch.taken) == [0, 0, 0, 1, 1, 1, 3, 3] and sorted(pool) == [2, 2, 2, 3, 3, 3, 3]
    with pytest.raises(batchplan.InvalidRequest, match="none were found that add up to it"):
        pool.take(selection(sequences=5, max_overtaking=4), timeout=0.01, **OPTIONS)
    assert len(pool) == 7


@pytest.mark.parametrize("which, lengths, named", [
    # Nobody may overtake, so that a group that comes later does not help.
    (selection(sequences=8), [10] * 3, "none were found that add up to it"),
    (selection(sequences=8, max_overtaking=4), [10, 10, 600], r"manifest.lengths\[2\] .*is 600"),
    (selection(max_tokens=10, max_overtaking=4), [10] * 3, "selection.max_tokens is 10, but what waits first takes 30"),
])
def test_what_more_does_not_mend_is_not_waited_for(which, lengths, named):
    pool = batchplan.Pool()
    for group in range(3):
        pool.add([group] * 3, lengths)
    with pytest.raises(batchplan.InvalidRequest, match=named):
        pool.take(which, timeout=3600, **OPTIONS)


def test_a_plan_that_tears_groups_loses_nothing():
    pool = batchplan.Pool()
    pool.add(["a", "b"], [500, 10])
    pool.add(["c", "d"], [10, 10])

    def torn(lengths, group_ids, ages, selection, **options):
        return batchplan.plan(lengths, selection=batchplan.Selection(sequences=2, max_overtaking=2), **options)

    with pytest.raises(batchplan.InvalidRequest, match="plan puts off a part of group 0"):
        pool.take(selection(groups=1), plan=torn, **OPTIONS)
    assert list(pool) == ["a", "b", "c", "d"]


def test_who_waits_for_much_does_not_hold_up_who_takes_little():
    pool, _ = filled(1)
    large = threading.Thread(target=pool.take, args=(selection(groups=3),), kwargs={"timeout": 60, **OPTIONS})
    large.start()
    assert len(pool.take(selection(groups=1), **OPTIONS).taken) == 4
    for _ in range(3):
        pool.add(["a"], [10])
    large.join()
    assert len(pool) == 0 and pool.step == 2


@pytest.mark.parametrize("which, options, named", [
    ({"groups": 2**32}, OPTIONS, "selection.groups is 4294967296; must be 0 to 4294967295"),
    ({"groups": 1, "max_age": -1}, OPTIONS, "selection.max_age is -1"),
    ({"groups": 1}, {"dp": 2}, "max_tokens or passes is needed"),
])
def test_wrong_options_are_not_waited_for(which, options, named):
    with pytest.raises(batchplan.InvalidRequest, match=named):
        batchplan.Pool().take(selection(**which), timeout=3600, **options)


def test_a_pool_begins_at_the_step_of_its_job():
    pool = batchplan.Pool(step=1000)
    pool.add(["a"], [10], step=998)
    assert pool.take(selection(groups=1), **OPTIONS).plan.metrics.largest_age == 2 and pool.step == 1001
    with pytest.raises(batchplan.InvalidRequest, match="step is -1; must be at least 0"):
        batchplan.Pool(step=-1)


def test_a_server_plans_for_it(server):
    pool, _ = filled(6)
    here = pickle.loads(pickle.dumps(pool)).take(selection(groups=4, max_overtaking=2), **OPTIONS)
    with batchplan.Client(server) as client:
        plan = functools.partial(client.plan, job_id="pool", step=pool.step)
        batch = pool.take(selection(groups=4, max_overtaking=2), plan=plan, **OPTIONS)
    assert batch.plan.fingerprint == here.plan.fingerprint


@pytest.mark.parametrize("arguments, named", [
    (([], []), "items is empty"),
    ((["a"], [1, 2]), "lengths has 2 entries; there are 1 items"),
    ((["a", "b"], [3, 0]), r"lengths\[1\] is 0"),
    ((["a"], [-1]), r"manifest.lengths\[0\] .*is -1"),
    ((["a"], ["long"]), r'manifest.lengths\[0\] .*is "long"; must be a whole number'),
    ((["a", "b"], [[1], [2, 3]]), r"manifest.lengths\[0\] .*is \[1\]; must be a whole number"),
])
def test_refuses_what_cannot_be_added(arguments, named):
    pool = batchplan.Pool()
    with pytest.raises(batchplan.InvalidRequest, match=named):
        pool.add(*arguments)
    assert len(pool) == 0


def test_refuses_what_it_decides_itself():
    pool, _ = filled(1)
    with pytest.raises(batchplan.InvalidRequest, match="ages is set; the pool decides it"):
        pool.take(selection(groups=1), ages=[0], **OPTIONS)
    with pytest.raises(batchplan.InvalidRequest, match="step is 1; must be 0 to 0"):
        pool.add(["a"], [1], step=1)
    with pytest.raises(batchplan.InvalidRequest, match="must be a batchplan.Selection"):
        pool.take({"groups": 1}, **OPTIONS)
