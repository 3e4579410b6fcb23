"""Plans whose context-parallel groups differ in size, as ranks of the pool see them."""

import dataclasses
import json
import math

import batchplan
import numpy
import pytest
from batchplan import _calls
from handmade import Planned, dynamic_plan


def lengths_of(count, longest=200, seed=0):
    return numpy.random.default_rng(seed).integers(1, longest + 1, count)


@pytest.mark.parametrize("arguments", [
    {"dp": 2, "cp": 2},
    {"dp": 2, "cp": 4, "mini_batch_size": 15},
    {"dp": 3, "cp": 2},
    {"dp": 4, "cp": 2, "least": 2, "most": 4},
    {"dp": 2, "cp": 2, "tp": 3, "multiple": 5},
])
def test_every_rank_of_the_pool_finds_its_groups(arguments):
    lengths = lengths_of(60)
    plan = dynamic_plan(lengths, per_rank=64, **arguments)
    pool = arguments["dp"] * arguments["cp"]
    of_ranks = [list(plan.rank(rank)) for rank in range(pool)]
    assert plan.passes[0].data_parallel == pool and plan.passes[0].is_dynamic
    seen, sizes = [], set()
    for slot in zip(*of_ranks, strict=True):
        assert len({(one.mini_batch, one.slot) for one in slot}) == 1
        rank = 0
        while rank < pool:
            first = slot[rank]
            size = first.context_parallel
            sizes.add(size)
            assert rank % size == 0
            for place, one in enumerate(slot[rank : rank + size]):
                assert (one.rank, one.context_parallel_rank) == (rank + place, place)
                assert one.ranks == range(rank, rank + size)
                assert one.indices.tolist() == first.indices.tolist()
                assert (one.width, one.context_parallel) == (first.width, size)
            wanted = math.lcm(
                arguments.get("multiple", 1), (2 * size if size > 1 else 1) * arguments.get("tp", 1))
            assert first.length_multiple == wanted
            assert first.cu_seqlens_padded[-1] == first.width <= 64 * size
            seen += first.indices.tolist()
            rank += size
    assert sorted(seen) == list(range(60)) and len(sizes) > 1
    assert (plan.restore(lengths[plan.passes[0].sequence_index]) == lengths).all()
    with pytest.raises(IndexError, match=f"rank is {pool}; must be 0 to {pool - 1}"):
        plan.rank(pool)


@pytest.mark.parametrize("rows, buckets", [("longest", ()), ("capacity", ()), ("buckets", (32, 64, 128))])
def test_rows_of_groups_are_padded_by_their_size(rows, buckets):
    plan = batchplan.plan(lengths_of(60), dp=2, cp=2, dynamic_cp=True,
                          passes=[batchplan.Pass(128, rows=rows, buckets=buckets)])
    widths, filled = {}, {}
    for one in plan.rank(0):
        size = one.context_parallel
        widths.setdefault(size, set()).add(one.width)
        filled[size] = max(filled.get(size, 0), int(one.cu_seqlens_padded[-1]))
    for size, seen in widths.items():
        if rows == "capacity":
            assert seen == {64 * size}
        elif rows == "longest":
            assert len(seen) == 1 and filled[size] <= max(seen)
        else:
            assert seen <= {16 * size, 32 * size, 64 * size}
    with pytest.raises(batchplan.InvalidRequest, match="is 48 and 1/2 for groups of 1 ranks"):
        batchplan.plan([5, 6], dp=2, cp=2, dynamic_cp=True,
                       passes=[batchplan.Pass(128, rows="buckets", buckets=(97,))])


def test_where_groups_are_alike_their_ranks_stand_side_by_side():
    plan = batchplan.plan([5, 6, 7], dp=3, cp=2, max_tokens=16)
    for rank in range(3):
        (one,) = plan.rank(rank)
        assert one.ranks == range(2 * rank, 2 * rank + 2)
        assert one.context_parallel_rank is None and not one.is_dynamic
    assert len(plan.passes[0].context_sizes) == 0 and not plan.passes[0].is_dynamic


def test_a_rank_that_gets_its_part_alone_knows_its_place():
    lengths = lengths_of(40)
    plan = dynamic_plan(lengths, 2, 2, 64)
    for rank in range(4):
        own = [(one.context_parallel, one.indices.tolist()) for one in plan.rank(rank)]
        planned = Planned(lengths, [[[(size, index)] for size, index in own]], 1, 1, 1)
        part = batchplan.Plan(planned, plan._request_json, "by hand", ranks=range(rank, rank + 1))
        for one, same in zip(part.rank(rank), plan.rank(rank), strict=True):
            assert one.indices.tolist() == same.indices.tolist()
            assert (one.slot, one.ranks, one.context_parallel_rank) == (
                same.slot, same.ranks, same.context_parallel_rank)


def test_timings_say_the_groups_size():
    for one in dynamic_plan(lengths_of(20), 2, 2, 64).rank(3):
        timing = one.timing(2.0)
        assert (timing.rank, timing.context_parallel) == (3, one.context_parallel)
        assert timing.tokens == one.width


def test_reported_timings_must_say_the_groups_size():
    plan = dynamic_plan(lengths_of(20), 2, 2, 64)
    timings = [one.timing(2.0) for one in plan.rank(3)]

    def report(timings, plan):
        return _calls.report_call("a", 1, timings, 0, plan, None, "lockstep", 4).request

    assert report(timings, plan) == report(timings, None)
    timings[1] = dataclasses.replace(timings[1], context_parallel=0)
    with pytest.raises(batchplan.InvalidRequest) as caught:
        report(timings, plan)
    assert (caught.value.field, caught.value.value) == ("microbatches[1].context_parallel", "0")


@pytest.mark.parametrize("asked", [False, True])
def test_an_answer_of_groups_is_one_to_a_request_for_them(asked):
    slots = [[(1, [0]), (1, [1])]] if asked else [[(2, [0, 1])]]
    planned = Planned([5, 6], [slots], 2, 1, 1)
    if asked:
        planned._sizes = []
    topology = {"data_parallel": 1, "context_parallel": 2, **({"dynamic_context": {}} if asked else {})}
    with pytest.raises(batchplan.Error, match=r"no plan of this request: context_sizes of passes\[0\] has"):
        batchplan.Plan(planned, json.dumps({"topology": topology, "passes": [{}]}), "by hand")


@pytest.mark.parametrize("synchronization, expected", [("lockstep", 3 + 5 + 7), ("accumulated", 3 + 7)])
def test_a_step_of_groups_is_as_long_as_they_wait_for_each_other(synchronization, expected):
    """Three slots on four ranks; accumulated, a group begins when the last of its ranks is free."""
    planned = Planned(
        [16, 8, 8, 16, 16, 7],
        [[[(2, [0]), (1, [1]), (1, [2])], [(2, [3]), (2, [4])], [(2, []), (1, [5]), (1, [])]]], 4, 1, 1)
    request = {"topology": {"data_parallel": 2, "context_parallel": 2, "dynamic_context": {}}, "passes": [{}],
               "synchronization": f"SYNCHRONIZATION_{synchronization.upper()}"}
    plan = batchplan.Plan(planned, json.dumps(request), "by hand")
    taken = [[1, 3, 0, 2], [5, 4, 1, 1], [0, 0, 7, 0]]
    timings = [
        one.timing(taken[one.slot][rank]) for rank in range(4) for one in plan.rank(rank) if len(one)]
    compared = plan.compare(timings)
    # Accumulated, ranks 2 and 3 are done with two slots after 2 + 1.
    assert compared.step_milliseconds == expected
    assert compared.milliseconds.tolist() == taken
    with pytest.raises(ValueError, match="timings has none of mini-batch 0, rank 2, slot 2"):
        plan.compare([one for one in timings if one.slot < 2])


def test_plans_of_groups_are_json():
    plan = dynamic_plan(lengths_of(40), 2, 2, 64)
    assert plan.to_dict()["passes"][0]["contextSizes"] == plan.passes[0].context_sizes.tolist()
    assert repr(plan).startswith("<Plan: 40 sequences on 4 ranks x ") and "in groups of 1 to 4" in repr(plan)
