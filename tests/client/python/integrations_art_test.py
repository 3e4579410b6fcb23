"""ART's packed rows: which sequences share one, and which run at the same time, in place of its best fit."""

import logging
import pickle
import sys

import art_rows
import batchplan
import numpy
import pytest
from art_rows import Item
from batchplan.integrations import art
from lengths import assert_each_once


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    found = art_rows.modules()
    for name, module in found.items():
        monkeypatch.setitem(sys.modules, name, module)
    return found


def answers(seed, groups=24, size=8, prompt=400, mean=600, system=100):
    """Groups of answers to a prompt, under one system prompt."""
    random = numpy.random.default_rng(seed)
    begin = tuple(random.integers(0, 9999, system).tolist())
    items = []
    for group in range(groups):
        asked = begin + tuple(random.integers(0, 9999, random.integers(prompt // 2, prompt * 2)).tolist())
        for _ in range(size):
            length = min(int(random.lognormal(numpy.log(mean), 0.9)) + 1, 2500)
            items.append(Item(asked + tuple(random.integers(0, 9999, length).tolist()), len(asked) - 1, group))
    return items


def turns(seed, agents=12, most=8):
    """Each turn of an agent is an example, whose prompt is all that was before."""
    random = numpy.random.default_rng(seed)
    items = []
    for _ in range(agents):
        said = tuple(random.integers(0, 9999, 300).tolist())
        for _ in range(random.integers(2, most)):
            before, said = said, said + tuple(random.integers(0, 9999, random.integers(70, 500)).tolist())
            items.append(Item(said, len(before) - 1, len(items)))
    return items


def step_time(rows, dp, step_rows=None, width=None):
    """Of rows in the order in which they are dealt: padded to a width, or without one not at all."""
    model = batchplan.DEFAULT_COST
    costs = []
    for row, plan in rows:
        squares = sum(one.end**2 - one.start**2 for one in plan.segments)
        costs.append(
            model.per_token * (width or plan.length)
            + model.per_token_squared * squares
            + model.per_sequence * len(row)
            + model.per_microbatch
        )
    costs += costs[:1] * (-len(costs) % (step_rows or dp))
    return sum(max(costs[begin : begin + dp]) for begin in range(0, len(costs), dp))


def slot_costs(rows, dp):
    squares = [sum(one.end**2 - one.start**2 for one in plan.segments) for _, plan in rows]
    return [max(squares[begin : begin + dp]) for begin in range(0, len(squares), dp)]


def assert_whole(rows, items, seq_len):
    """ART's own objects, each once, in rows that keep the limit."""
    place_of = {id(item): place for place, item in enumerate(items)}
    assert_each_once([[place_of[id(item)] for item in row] for row, _ in rows], len(items))
    assert all(type(row) is list and type(plan) is art_rows.Plan for row, plan in rows)
    assert all(sum(one.length for one in plan.segments) == plan.length <= seq_len for _, plan in rows)


def seats(rows, step_rows):
    return -(-len(rows) // step_rows) * step_rows


@pytest.mark.parametrize("dp, step_rows", [(1, None), (1, 4), (4, None), (4, 12), (8, 64)])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_whole_and_never_slower_than_arts(dp, step_rows, seed):
    items = answers(seed)
    own = art_rows.packed(items, 4096)
    art.install(dp=dp, grad_accumulation_sequences=step_rows)
    rows = art_rows.packed(items, 4096)
    assert_whole(rows, items, 4096)
    assert art_rows.packed(items, 4096) == rows
    step_rows = step_rows or dp
    assert seats(rows, step_rows) <= seats(own, step_rows)
    assert step_time(rows, dp, step_rows, 4096) <= step_time(own, dp, step_rows, 4096)


@pytest.mark.parametrize("packed", [art_rows.packed, art_rows.packed_for_sft])
@pytest.mark.parametrize("dp", [1, 4])
def test_more_rows_than_art_runs_are_none_of_a_plan_that_would_have_them(packed, dp):
    items = answers(0)
    own = packed(items, 4096)
    # A prompt that is laid twice costs more than a row.
    art.install(dp=dp, cost=batchplan.CostModel(1.0, per_token_squared=0.01))
    rows = packed(items, 4096)
    assert_whole(rows, items, 4096)
    assert seats(rows, dp) <= seats(own, dp)


def test_one_rank_has_fewer_rows():
    batches = [answers(seed) for seed in range(8)]
    own = [len(art_rows.packed(items, 4096)) for items in batches]
    art.install()
    planned = [len(art_rows.packed(items, 4096)) for items in batches]
    assert all(rows <= before for rows, before in zip(planned, own))
    assert sum(planned) <= sum(own) - 2


@pytest.mark.parametrize("step_rows", [8, 32])
def test_ranks_run_rows_that_are_alike_at_the_same_time(step_rows):
    items = answers(0, groups=48, mean=900)
    model = batchplan.CostModel(1.0, per_token_squared=1 / 2048)
    own = art_rows.packed(items, 4096)
    art.install(dp=4, grad_accumulation_sequences=step_rows, cost=model)
    assert dealt_time(art_rows.packed(items, 4096), 4, model) < 0.95 * dealt_time(own, 4, model)


def dealt_time(rows, dp, model):
    return sum(4096 + model.per_token_squared * cost for cost in slot_costs(rows, dp))


def test_steps_have_costly_rows_and_cheap_ones():
    items = answers(0, groups=48, mean=900)
    art.install(dp=4, grad_accumulation_sequences=8)
    costs = slot_costs(art_rows.packed(items, 4096), 4)
    # Those of steps, each of two slots, are about as random orders have them.
    of_steps = numpy.add(costs[:-1:2], costs[1::2])
    assert numpy.std(of_steps) < 1.25 * 2**0.5 * numpy.std(costs)


def test_steps_of_one_row_a_rank_have_random_rows():
    # A plan of four ranks has more rows than there is room for: these are ART's.
    items = answers(3, groups=48, mean=900)
    spreads = {}
    for step_rows in (4, 8):
        art.install(dp=4, grad_accumulation_sequences=step_rows)
        rows = art_rows.packed(items, 4096)
        squares = [sum(one.end**2 - one.start**2 for one in plan.segments) for _, plan in rows]
        within = numpy.std(numpy.reshape(squares[: len(squares) // 4 * 4], (-1, 4)), axis=1)
        spreads[step_rows] = within.mean() / numpy.std(squares)
    # Four random ones differ by 0.8 of what all do.
    assert spreads[4] > 0.6 and spreads[8] < 0.2


def test_missing_rows_stand_behind_all_others():
    rows = [art_rows._PrefixTreeBin() for _ in range(22)]
    for place, row in enumerate(rows):
        row.add(art_rows._PrefixTreeLeaf(place, place, ((place, 100 + place),), 100 + place))
    trainer = art._Trainer(4, 8, 4096, batchplan.DEFAULT_COST)
    ordered = [row.leaves[0].item_index for row in art._in_order(trainer, rows[::-1])]
    runs = [ordered[begin : begin + 4] for begin in range(0, 22, 4)]
    assert sorted(runs) == [list(range(begin, min(begin + 4, 22))) for begin in range(0, 22, 4)]
    assert runs[-1] == [20, 21] and runs != sorted(runs)


def test_what_runs_first_in_a_step_that_is_not_full_is_cheap():
    items = answers(0, groups=12)
    art.install(dp=4, grad_accumulation_sequences=64)
    costs = slot_costs(art_rows.packed(items, 4096), 4)
    assert len(costs) > 3 and costs == sorted(costs)


def test_rows_of_sft_are_dealt_in_their_order():
    lengths = [1000, 100, 1000, 100]
    items = [Item(tuple(range(place, place + length)), 0, place) for place, length in enumerate(lengths)]
    art.install(dp=2)
    widths = [plan.length for _, plan in art_rows.packed_for_sft(items, 1000)]
    assert sorted([widths[:2], widths[2:]]) == [[100, 100], [1000, 1000]]


def test_rows_of_sft_run_in_one_step_as_wide_as_they_are():
    items = turns(1)
    own = art_rows.packed_for_sft(items, 4096)
    art.install(dp=4)
    rows = art_rows.packed_for_sft(items, 4096)
    assert_whole(rows, items, 4096)
    assert step_time(rows, 4) < 0.9 * step_time(own, 4)


@pytest.mark.parametrize("dp, less", [(1, 0.05), (8, 0.1)])
def test_rows_of_sft_are_as_wide_as_is_fastest(dp, less):
    # Each its own prompt, as in ART.
    items = [item._replace(prompt_id=place) for place, item in enumerate(answers(0))]
    own = art_rows.packed_for_sft(items, 4096)
    art.install(dp=dp)
    rows = art_rows.packed_for_sft(items, 4096)
    assert len(rows) <= seats(own, dp)
    assert step_time(rows, dp) < (1 - less) * step_time(own, dp)


def test_what_is_not_packed_and_estimates_are_arts(modules):
    items = answers(0, groups=3)
    pack = modules[art_rows.PACK]
    options = {"seq_len": 4096, "pack_results": False, "min_shared_segment_length": 64}
    own = pack._prefix_tree_pack_rows(items, **options)
    art.install(dp=4)
    assert pack._prefix_tree_pack_rows(items, **options) == own
    assert pack._prefix_tree_pack_rows([], **{**options, "pack_results": True}) == []
    leaves = [[art_rows._PrefixTreeLeaf(0, 0, ((0, 10),), 10)], [art_rows._PrefixTreeLeaf(1, 1, ((1, 30),), 30)]]
    bins = pack._place_prefix_tree_leaves(leaves, seq_len=30, groups_are_ordered=True)
    assert [[leaf.item_index for leaf in one.leaves] for one in bins] == [[0], [1]]


def test_fewer_sequences_than_ranks_keep_arts_rows():
    items = answers(0, groups=1, size=2)
    own = art_rows.packed(items, 4096)
    art.install(dp=8)
    assert_whole(art_rows.packed(items, 4096), items, 4096)
    assert len(art_rows.packed(items, 4096)) == len(own)


@pytest.mark.parametrize("fails", ["raises", "is wider"])
def test_rows_that_art_cannot_build_are_its_own(modules, monkeypatch, caplog, fails):
    items = answers(1)
    own = art_rows.packed(items, 4096)
    rows_of_own = [row for row, _ in own]

    def build(row, *, seq_len, min_shared_segment_length):
        plan = art_rows._prefix_tree_row_plan(
            row, seq_len=seq_len, min_shared_segment_length=min_shared_segment_length
        )
        if row in rows_of_own:
            return plan
        if fails == "raises":
            raise RuntimeError("the rebuild increased bin occupancy")
        return plan._replace(segments=(*plan.segments, art_rows.Segment((0,), 0, 5000)))

    monkeypatch.setattr(modules[art_rows.PACK], "_prefix_tree_row_plan", build)
    art.install(dp=4, grad_accumulation_sequences=16)
    with caplog.at_level(logging.WARNING):
        assert art_rows.packed(items, 4096) == own
        assert art_rows.packed(items, 4096) == own
    (told,) = caplog.messages
    assert "rows are ART's own" in told
    assert ("bin occupancy" if fails == "raises" else "more than 4096 tokens") in told


def test_a_sequence_beyond_a_row_is_arts_error():
    art.install(dp=4)
    with pytest.raises(RuntimeError, match="item 0 has 700 tokens"):
        art_rows.packed([Item(tuple(range(700)), 0, 0)], 512)


def test_costs_are_the_callers(monkeypatch):
    asked = []
    plan = batchplan.plan
    monkeypatch.setattr(batchplan, "plan", lambda *args, **options: asked.append(options) or plan(*args, **options))
    art.install(dp=4, cost=batchplan.CostModel(3.0))
    art_rows.packed(answers(0, groups=8), 4096)
    assert {one["cost"] for one in asked} == {batchplan.CostModel(3.0)}
    assert {one.get("dp", 1) for one in asked} == {1, 4}


def test_hosts_start_with_planned_rows(modules, monkeypatch):
    items = answers(0, groups=48, mean=900)
    model = batchplan.CostModel(1.0, per_token_squared=1 / 2048)
    art.install(dp=4, grad_accumulation_sequences=32, cost=model)
    art.install(dp=4, grad_accumulation_sequences=32, cost=model)
    planned = art_rows.packed(items, 4096)
    # Pickled by its name, it must stay where it is defined.
    defined = modules[art_rows.BOOTSTRAP].activate_cpu_child_virtualenv
    assert defined is art_rows.activate_cpu_child_virtualenv
    sent = pickle.dumps(modules[art_rows.RUNTIME].activate_cpu_child_virtualenv)
    for name, module in art_rows.modules().items():  # as in another process
        monkeypatch.setitem(sys.modules, name, module)
    assert art_rows.packed(items, 4096) != planned
    before = len(art_rows.started)
    pickle.loads(sent)()
    assert len(art_rows.started) == before + 1
    assert art_rows.packed(items, 4096) == planned


@pytest.mark.parametrize(
    "options, error",
    [
        ({"dp": 0}, "dp is 0; must be at least 1"),
        ({"dp": 8, "grad_accumulation_sequences": 12}, "is 12; must be a positive multiple of dp, 8"),
        ({"grad_accumulation_sequences": 0}, "is 0; must be a positive multiple of dp, 1"),
    ],
)
def test_what_can_not_be_is_refused(options, error):
    with pytest.raises(batchplan.InvalidRequest, match=error):
        art.install(**options)


def test_other_versions_are_refused_by_what_they_have(modules, monkeypatch):
    pack = modules[art_rows.PACK]
    with monkeypatch.context() as one:
        one.setattr(pack, "_place_prefix_tree_groups", print, raising=False)
        with pytest.raises(batchplan.FailedPrecondition, match="has _place_prefix_tree_groups"):
            art.install()
    with monkeypatch.context() as one:
        one.delattr(pack, "_place_prefix_tree_leaves")
        with pytest.raises(batchplan.FailedPrecondition, match="has no _place_prefix_tree_leaves; ART 0.5.20"):
            art.install()
    with monkeypatch.context() as one:
        one.setattr(pack, "_PrefixTreeLeaf", Item)
        with pytest.raises(batchplan.FailedPrecondition, match="has no _PrefixTreeLeaf.segment_path, "):
            art.install()
    with monkeypatch.context() as one:
        one.delattr(modules[art_rows.RUNTIME], "activate_cpu_child_virtualenv")
        with pytest.raises(batchplan.FailedPrecondition, match="has no activate_cpu_child_virtualenv"):
            art.install()
    monkeypatch.setitem(sys.modules, art_rows.PACK, None)
    with pytest.raises(ImportError):
        art.install()
