"""batchplan.plan: plans from Python, without a server."""

import copy
import dataclasses
import html
import importlib.metadata
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
import time

import batchplan
import numpy
import pytest
from batchplan import _choices

BUDGET = 8192


def long_tailed(count, seed=1):
    lengths = numpy.random.default_rng(seed).lognormal(6, 1, count)
    return numpy.clip(lengths, 1, BUDGET).astype(numpy.uint32)


def microbatches(plan, ranks):
    return [microbatch for rank in range(ranks) for microbatch in plan.rank(rank)]


def test_every_sequence_is_planned_once_within_the_budget():
    lengths = long_tailed(1000)
    plan = batchplan.plan(lengths, dp=4, max_tokens=BUDGET)
    planned = microbatches(plan, 4)
    assert sorted(index for one in planned for index in one.indices.tolist()) == list(range(1000))
    for one in planned:
        assert one.lengths.sum() <= one.width <= BUDGET
        assert (one.lengths == lengths[one.indices]).all()
    assert plan.metrics.microbatches == len(planned) == len(plan.passes[0].row_widths)
    assert plan.metrics.true_tokens == lengths.sum()


def test_ranks_run_as_many_microbatches():
    plan = batchplan.plan(long_tailed(300), dp=4, max_tokens=BUDGET, mini_batch_size=100)
    of_ranks = [[(one.mini_batch, one.slot) for one in plan.rank(rank)] for rank in range(4)]
    assert of_ranks[0] == of_ranks[1] == of_ranks[2] == of_ranks[3]
    assert {mini_batch for mini_batch, _ in of_ranks[0]} == {0, 1, 2}


def test_a_plan_says_how_it_came_about():
    # In one micro-batch a rank 17 is with 7: 24 + 33.8 + 2.
    plan = batchplan.plan(
        [4, 17, 14, 1, 7, 4],
        dp=2,
        max_tokens=24,
        cost=batchplan.CostModel(per_token=1, per_token_squared=0.1, per_microbatch=2),
    )
    (decision,) = plan.decisions
    assert (decision.method, decision.fewest_slots) == ("balanced", 1)
    assert [one.slots for one in decision.tried] == [1, 2]
    assert decision.tried[0].step_time == pytest.approx(59.8)
    assert decision.tried[1].step_time == pytest.approx(plan.metrics.predicted_step_time)


def test_every_mini_batch_of_every_pass_says_how_it_came_about():
    passes = [
        batchplan.Pass(name="train", max_tokens=BUDGET),
        batchplan.Pass(name="old", max_tokens=BUDGET, ignore_mini_batches=True),
    ]
    plan = batchplan.plan(long_tailed(300), dp=4, passes=passes, mini_batch_size=100, preset="verl")
    assert [one.method for one in plan.passes[0].decisions] == ["verl"] * 3
    assert [one.method for one in plan.passes[1].decisions] == ["karmarkar_karp"]


def test_offsets_are_those_of_packed_rows():
    plan = batchplan.plan([5, 3, 9], passes=[batchplan.Pass(max_tokens=32, length_multiple=4)])
    (one,) = plan.rank(0)
    assert one.cu_seqlens.dtype == one.cu_seqlens_padded.dtype == numpy.int32
    assert numpy.diff(one.cu_seqlens).tolist() == one.lengths.tolist()
    assert numpy.diff(one.cu_seqlens_padded).tolist() == [-(-n // 4) * 4 for n in one.lengths.tolist()]
    assert one.cu_seqlens_padded[-1] == one.width == 24
    assert one.max_seqlen == 9
    assert len(one) == 3


def test_offsets_of_rows_that_int32_does_not_count_are_an_error():
    (one,) = batchplan.plan([2**31 - 1, 2], passes=[batchplan.Pass(max_tokens=2**32 - 1)]).rank(0)
    with pytest.raises(ValueError, match="2147483649 tokens; its offsets, of int32, reach 2147483647"):
        one.cu_seqlens


def test_arrays_are_views_that_outlive_the_plan():
    plan = batchplan.plan(long_tailed(1000), max_tokens=BUDGET)
    index = plan.passes[0].sequence_index
    assert not index.flags.writeable
    assert not index.flags.owndata
    assert all(numpy.shares_memory(one.indices, index) for one in plan.rank(0))
    expected = index.tolist()
    del plan
    assert index.tolist() == expected


@pytest.mark.parametrize("arguments, field, value", [
    ({"dp": 70000}, "topology.data_parallel", "70000"),
    ({"dp": -1}, "topology.data_parallel", "-1"),
    ({"dp": 2**40}, "topology.data_parallel", str(2**40)),
    ({"preset": "best"}, "preset", "best"),
    ({"effort": "most"}, "effort", "most"),
    ({"max_tokens": -5}, "passes[0].max_tokens_per_microbatch", "-5"),
    ({"max_tokens": 0}, "passes[0].max_tokens_per_microbatch", "0"),
    ({"cost": batchplan.CostModel(per_token=-1)}, "cost_model.per_token", "-1"),
    ({"cost": batchplan.CostModel(per_token=float("nan"))}, "cost_model.per_token", "nan"),
    ({"cost": batchplan.CostModel(per_sequence=-2)}, "cost_model.per_sequence", "-2"),
    ({"cost": batchplan.CostModel(per_token_squared=float("-inf"))}, "cost_model.per_token_squared", "-inf"),
    ({"cost": batchplan.CostModel(exchange=((8, -1),))}, "cost_model.exchange[0].per_token", "-1"),
    ({"cost": batchplan.CostModel(exchange=((0, 1), (8, 1)))}, "cost_model.exchange[0].up_to_size", "0"),
    ({"groups": "same_rank"}, "manifest.group_ids", "empty"),
    ({"ranks": [0, 0]}, "manifest.ranks", None),
    ({"ranks": [0, 1, 0]}, "manifest.ranks[1]", "1"),
    ({"ranks": [0, -1, 0], "dp": 2}, "manifest.ranks[1]", "-1"),
    ({"ranks": [0.0, 0.5, 0.0]}, "manifest.ranks[1]", "0.5"),
    ({"pp": 2, "pipeline": batchplan.Pipeline(backward_ratio=-1)}, "pipeline.backward_ratio", "-1"),
    ({"pp": 2, "pipeline": batchplan.Pipeline(stage_shares=[1, -1])}, "pipeline.stage_shares[1]", "-1"),
    ({"pp": 2, "vpp": 2, "pipeline": batchplan.Pipeline(group_size=1)}, "pipeline.group_size", "1"),
    ({"pp": 2, "pipeline": batchplan.Pipeline("gpipe")}, "pipeline.schedule", "gpipe"),
])
def test_wrong_arguments_are_named(arguments, field, value):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.plan([1, 2, 3], **{"max_tokens": BUDGET, **arguments})
    assert (caught.value.field, caught.value.value) == (field, value)


@pytest.mark.parametrize("arguments, field, value", [
    ({"dp": 2.0}, "topology.data_parallel", "2.0"),
    ({"dp": "2"}, "topology.data_parallel", "2"),
    ({"max_tokens": [16]}, "passes[0].max_tokens_per_microbatch", "[16]"),
    ({"sequence_parallel": "yes"}, "topology.sequence_parallel", "yes"),
    ({"shuffle": "no"}, "shuffle", "no"),
    ({"seed": 1.5}, "mini_batches.seed", "1.5"),
    ({"preset": 3}, "preset", "3"),
    ({"effort": 3}, "effort", "3"),
    ({"cost": 3}, "cost", "3"),
    ({"cost": "measured"}, "cost", "measured"),
    ({"cost": batchplan.CostModel("1")}, "cost_model.per_token", "1"),
    ({"cost": batchplan.CostModel(exchange=(8,))}, "cost_model.exchange[0]", "8"),
    ({"cost": batchplan.CostModel(exchange=0.02)}, "cost_model.exchange[0]", "0.02"),
    ({"cost": batchplan.CostModel(exchange=(("8", 1),))}, "cost_model.exchange[0].up_to_size", "8"),
    ({"cost": batchplan.CostModel(exchange_overlaps=1)}, "cost_model.exchange_overlaps", "1"),
    ({"cost": batchplan.CostModel(10**400)}, "cost_model.per_token", str(10**400)),
    ({"passes": 16}, "passes", "16"),
    ({"passes": [{}]}, "passes[0]", "{}"),
    ({"passes": [batchplan.Pass(8, equal_sequence_counts=1)]}, "passes[0].equal_sequence_counts", "1"),
    ({"passes": [batchplan.Pass(8), batchplan.Pass(8.0)]}, "passes[1].max_tokens_per_microbatch", "8.0"),
    ({"passes": [batchplan.Pass(8, buckets=["8"])]}, "passes[0].packed.buckets", "8"),
    ({"passes": [batchplan.Pass(8, forward_only=1)]}, "passes[0].forward_only", "1"),
    ({"pp": 2, "pipeline": "1f1b"}, "pipeline", "1f1b"),
    ({"pp": 2, "pipeline": batchplan.Pipeline(transfer="1")}, "pipeline.transfer", "1"),
    ({"pp": 2, "pipeline": batchplan.Pipeline(stage_shares=[1, "1"])}, "pipeline.stage_shares[1]", "1"),
])
def test_arguments_of_another_type_are_named(arguments, field, value):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.plan([1, 2, 3], **{"max_tokens": None if "passes" in arguments else BUDGET, **arguments})
    assert (caught.value.field, caught.value.value) == (field, value)


def test_what_counts_as_a_whole_number():
    expected = batchplan.plan([1, 2, 3], dp=2, max_tokens=8).fingerprint
    one = batchplan.Pass(numpy.array(8), buckets=())
    assert batchplan.plan([1, 2, 3], dp=numpy.int16(2), passes=iter([one])).fingerprint == expected
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.plan([1], dp=4, max_tokens=8)
    assert caught.value.field == "passes[0]"


def test_the_budget_stands_in_one_place():
    for arguments in ({}, {"max_tokens": 8, "passes": [batchplan.Pass(max_tokens=8)]}):
        with pytest.raises(batchplan.InvalidRequest, match="max_tokens or passes is needed"):
            batchplan.plan([1], **arguments)


def test_sequences_cost_what_the_model_says():
    cost = batchplan.CostModel(2.0, 0.5, 100.0, per_sequence=7.0)
    assert cost.of_sequences([1, 10]).tolist() == [9.5, 77.0]
    plan = batchplan.plan([1, 10], max_tokens=16, cost=cost)
    assert plan.metrics.predicted_step_time == pytest.approx(9.5 + 77 + 100)


def test_cost_models_are_keys():
    listed, paired = (batchplan.CostModel(exchange=one) for one in ([[8, 0.02], (0, 0.065)], ((8, 0.02), (0, 0.065))))
    assert listed == paired and len({listed, paired}) == 1


def test_context_parallel_ranks_exchange_what_the_model_says():
    cost = batchplan.CostModel(1.0, 0.1, exchange=((2, 100.0), (0, 2.0)))
    # Each of four ranks has a quarter of 40 + 160, and receives the other three of 2 * 40.
    plan = batchplan.plan([40], cp=4, max_tokens=40, cost=cost)
    assert plan.metrics.predicted_step_time == pytest.approx(50 + 60)
    assert plan.metrics.ideal_step_time == pytest.approx(50)
    hidden = dataclasses.replace(cost, exchange_overlaps=True)
    plan = batchplan.plan([40], cp=4, max_tokens=40, cost=hidden)
    assert plan.metrics.predicted_step_time == pytest.approx(10 + 60)


def test_micro_batches_have_a_multiple_of_sequences():
    lengths = [100 + 7 * (i % 40) for i in range(96)]
    plan = batchplan.plan(lengths, dp=2, passes=[batchplan.Pass(2048, sequence_count_multiple=4)])
    assert all(len(microbatch) % 4 == 0 for rank in range(2) for microbatch in plan.rank(rank))
    with pytest.raises(batchplan.InvalidRequest, match="has 95 sequences, which sequence_count_multiple 4"):
        batchplan.plan(lengths[1:], dp=2, passes=[batchplan.Pass(2048, sequence_count_multiple=4)])


PASS_FIELDS = {"packer", "rows", "scan", "sharding", "order", "balance_on", "sequence_counts", "kinds_per_slot"}


@pytest.mark.parametrize("field, word", [
    (field, word) for field, (_, words) in _choices.ENUMS.items() for word in words])
def test_every_word_is_one_of_the_planners(field, word):
    arguments = {"groups": {"group_ids": [0] * 40}, "schedule": {"pp": 2}}.get(field, {})
    if word == "megatron_dynamic_cp":
        arguments = {"dynamic_cp": True}
    buckets = [512, BUDGET] if word == "buckets" else ()
    passes = [batchplan.Pass(max_tokens=BUDGET, buckets=buckets,
                             **({field: word} if field in PASS_FIELDS else {}))]
    if field == "schedule":
        arguments.update(vpp=2 if word == "interleaved" else 1, pipeline=batchplan.Pipeline(schedule=word))
    elif field not in PASS_FIELDS:
        arguments["order" if field == "mini_batch_order" else field] = word
    lengths = [7] * 40
    assert len(batchplan.plan(lengths, passes=passes, **arguments).passes[0].sequence_index) == 40


def test_a_pipeline_takes_what_its_stages_do():
    lengths = long_tailed(200)
    options = {"dp": 2, "max_tokens": BUDGET, "cost": batchplan.CostModel(1.0, 1e-4, 1000.0),
               "synchronization": "accumulated"}
    without = batchplan.plan(lengths, **options).metrics
    assert without.pipeline_bubble == 0
    staged = batchplan.plan(lengths, pp=4, **options).metrics
    assert 0 < staged.pipeline_bubble < 1
    assert staged.lower_bound_step_time <= staged.predicted_step_time < without.predicted_step_time
    # Three quarters of the model are on one stage, and sending takes time.
    shares = batchplan.Pipeline(stage_shares=[1, 9, 1, 1], transfer=100.0)
    assert batchplan.plan(lengths, pp=4, pipeline=shares, **options).metrics.predicted_step_time > (
        0.75 * without.predicted_step_time)


def test_passes_share_their_sequences_ranks():
    plan = batchplan.plan(long_tailed(400), dp=4, passes=[
        batchplan.Pass(name="train", max_tokens=BUDGET),
        batchplan.Pass(name="logprobs", max_tokens=2 * BUDGET),
    ])
    train, logprobs = plan.passes
    assert (train.name, logprobs.name) == ("train", "logprobs")
    for rank in range(4):
        in_train, in_logprobs = (
            {index for one in part.rank(rank) for index in one.indices.tolist()} for part in plan.passes)
        assert in_train == in_logprobs
    assert logprobs.metrics.microbatches < train.metrics.microbatches
    assert repr(plan).startswith("<Plan: <PassPlan 'train': 400 sequences on 4 ranks x ")


@pytest.mark.parametrize("preset", ["balanced", "nemo_rl_packing", "roll_dynamic", "verl"])
def test_sequences_stay_on_the_ranks_they_are_given(preset):
    lengths = long_tailed(240)
    given = numpy.random.default_rng(3).integers(0, 4, 240)
    for ranks in (given, given.tolist()):
        plan = batchplan.plan(lengths, dp=4, ranks=ranks, preset=preset, mini_batch_size=120, passes=[
            batchplan.Pass(name="train", max_tokens=BUDGET),
            batchplan.Pass(name="logprobs", max_tokens=2 * BUDGET, ignore_mini_batches=True),
        ])
        for part in plan.passes:
            for rank in range(4):
                own = [index for one in part.rank(rank) for index in one.indices.tolist()]
                assert sorted(own) == numpy.flatnonzero(given == rank).tolist()
        assert plan.passes[0].metrics.lower_bound_step_time <= plan.passes[0].metrics.predicted_step_time


def test_groups_of_a_pool_differ_in_size():
    lengths = [100] * 40 + [4000]
    plan = batchplan.plan(lengths, dp=4, cp=2, max_tokens=2000, dynamic_cp=True)
    assert len(set(plan.passes[0].context_sizes.tolist())) > 1
    assert plan.metrics.lower_bound_step_time <= plan.metrics.predicted_step_time
    only = batchplan.plan(
        lengths, dp=4, cp=2, max_tokens=2000, dynamic_cp=batchplan.DynamicContext(min_size=4, max_size=4))
    assert set(only.passes[0].context_sizes.tolist()) == {4}
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.plan(lengths, dp=4, cp=2, max_tokens=2000, dynamic_cp=batchplan.DynamicContext(min_size=3))
    assert (caught.value.field, caught.value.value) == ("topology.dynamic_context.min_size", "3")
    for wrong in (2, (1, 4)):
        with pytest.raises(batchplan.InvalidRequest, match="True, False or a batchplan.DynamicContext") as caught:
            batchplan.plan(lengths, dp=4, cp=2, max_tokens=2000, dynamic_cp=wrong)
        assert (caught.value.field, caught.value.value) == ("topology.dynamic_context", str(wrong))


def test_given_ranks_and_a_sharding_exclude_each_other():
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.plan([1, 2], dp=2, ranks=[0, 1], passes=[batchplan.Pass(8, sharding="balanced")])
    assert (caught.value.field, caught.value.value) == ("passes[0].sharding", "SHARDING_BALANCED")


def test_long_sequences_are_cut_or_left_out_and_listed():
    lengths = [10, 100, 20]
    cut = batchplan.plan(lengths, max_tokens=50, overlong="truncate")
    assert cut.excluded == (batchplan.ExcludedSequence(index=1, length=100, reason="truncated"),)
    assert sorted(cut.passes[0].sequence_lengths.tolist()) == [10, 20, 50]
    left_out = batchplan.plan(lengths, max_tokens=50, overlong="drop")
    assert [one.reason for one in left_out.excluded] == ["dropped"]
    assert left_out.restore([index * 2 for index in left_out.passes[0].sequence_index.tolist()]) == [0, None, 4]


def test_a_long_sequence_that_is_wanted_whole_runs_alone():
    plan = batchplan.plan([10, 100, 20, 15], max_tokens=50, overlong="alone")
    assert plan.excluded == (batchplan.ExcludedSequence(index=1, length=100, reason="alone"),)
    assert sorted((sorted(one.lengths.tolist()), one.width) for one in plan.rank(0)) == [
        ([10, 15, 20], 45), ([100], 100)]
    assert plan.metrics.bin_utilization == 145 / 150
    assert plan.restore(plan.passes[0].sequence_lengths).tolist() == [10, 100, 20, 15]
    with pytest.raises(batchplan.InvalidRequest, match="overlong is OVERLONG_POLICY_ALONE, but passes"):
        batchplan.plan([10, 100], overlong="alone", passes=[batchplan.Pass(50, rows="longest")])


def test_mini_batches_of_like_lengths():
    lengths = [9, 1, 8, 2, 7, 3]
    plan = batchplan.plan(lengths, max_tokens=50, mini_batch_size=2, order="stratified")
    assert [sorted(one.lengths.tolist()) for one in plan.rank(0)] == [[1, 2], [3, 7], [8, 9]]
    shuffled = {"max_tokens": 50, "mini_batch_size": 2, "seed": 3}
    assert batchplan.plan(lengths, order="shuffled", **shuffled).fingerprint == batchplan.plan(
        lengths, shuffle=True, **shuffled).fingerprint
    with pytest.raises(batchplan.InvalidRequest, match='order is "stratified", and shuffle is True'):
        batchplan.plan(lengths, max_tokens=50, order="stratified", shuffle=True)
    with pytest.raises(batchplan.InvalidRequest, match='order is "largest_first", which is none of preserved'):
        batchplan.plan(lengths, max_tokens=50, order="largest_first")


def test_outputs_come_back_in_the_batchs_order():
    lengths = long_tailed(300)
    plan = batchplan.plan(lengths, dp=3, max_tokens=BUDGET, shuffle=True, seed=7, mini_batch_size=100)
    index = plan.passes[0].sequence_index
    assert (plan.restore(lengths[index]) == lengths).all()
    rows = numpy.stack([lengths[index]] * 2, axis=1)
    assert plan.restore(rows).shape == (300, 2)
    with pytest.raises(ValueError, match="outputs has 2 entries; the plan has 300 sequences"):
        plan.restore([1, 2])


def test_a_rank_that_is_not_there_is_an_error_at_once():
    plan = batchplan.plan([1, 2], dp=2, max_tokens=8)
    for rank in (-1, 2):
        with pytest.raises(IndexError, match=f"rank is {rank}; must be 0 to 1"):
            plan.rank(rank)
    assert len(batchplan.plan([1], dp=None, max_tokens=8).rank(0)) == 1


def test_a_plan_is_json():
    plan = batchplan.plan(long_tailed(50), dp=2, max_tokens=BUDGET)
    read = json.loads(json.dumps(plan.to_dict()))
    assert read["fingerprint"] == plan.fingerprint
    assert read["passes"][0]["sequenceIndex"] == plan.passes[0].sequence_index.tolist()
    assert read["passes"][0]["metrics"]["microbatches"] == plan.metrics.microbatches


def longest_pause_while_planning(lengths):
    """Of this thread, in planning times."""
    planned = []
    thread = threading.Thread(target=lambda: planned.append(batchplan.plan(lengths, dp=64, max_tokens=BUDGET)))
    thread.start()
    longest_pause, last = 0.0, time.perf_counter()
    while thread.is_alive():
        now = time.perf_counter()
        longest_pause, last = max(longest_pause, now - last), now
    thread.join()
    return longest_pause / planned[0].planning_seconds


def test_other_threads_run_while_a_plan_is_made():
    # A busy machine may pause it now and then; Python's lock, if it were held, always.
    lengths = long_tailed(500_000)
    assert any(longest_pause_while_planning(lengths) < 0.5 for _ in range(20))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or os.cpu_count() == 1, reason="needs Linux and two cores")
def test_a_plan_is_made_on_the_cores_of_its_caller():
    program = """
        import batchplan, os

        def threads():
            return {int(one) for one in os.listdir("/proc/self/task")}

        before, cores = threads(), sorted(os.sched_getaffinity(0))
        batchplan.plan([5, 7], max_tokens=16)
        (planner,) = threads() - before
        for own in (cores[:1], cores[-1:], cores):
            os.sched_setaffinity(0, own)
            batchplan.plan([5, 7], max_tokens=16)
            assert threads() - before == {planner}
            print(os.sched_getaffinity(planner) == set(own))
        """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("True\n" * 3, "")


def embedded(page, name):
    return json.loads(re.search(f'id="{name}">(.*?)</script>', page, re.DOTALL)[1])


def test_a_notebook_shows_the_picture():
    lengths = long_tailed(50)
    plan = batchplan.plan(lengths, dp=2, max_tokens=BUDGET)
    page = plan.to_html()
    assert embedded(page, "response") == plan.to_dict()
    assert embedded(page, "request")["topology"]["dataParallel"] == 2
    assert embedded(page, "origin")["where"] == "in process"
    shown = plan._repr_html_()
    assert shown.startswith('<iframe srcdoc="') and html.unescape(shown).count(page) == 1
    assert shown.count('"') == 4
    assert batchplan.plan(long_tailed(40_000), max_tokens=BUDGET)._repr_html_() is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])
def test_a_plan_goes_to_other_processes(copied):
    plan = batchplan.plan(
        [5, 9000, 7, 3], dp=2, max_tokens=BUDGET, overlong="drop", allow_empty_microbatches=True
    )
    other = copied(plan)
    assert other.to_dict() == plan.to_dict() and repr(other) == repr(plan)
    assert other.excluded == plan.excluded and other.to_html() == plan.to_html()
    (first, *_) = map(copied, microbatches(plan, 2))
    assert not (first.indices.flags.writeable or other.passes[0].row_widths.flags.writeable)
    for one, same in zip(microbatches(plan, 2), microbatches(other, 2)):
        assert one.cu_seqlens.tolist() == same.cu_seqlens.tolist()


def test_the_package_is_as_new_as_its_planner():
    assert importlib.metadata.version("batchplanner") == batchplan.__version__
    assert batchplan.plan([1], max_tokens=8).planner_version == batchplan.__version__


def test_the_default_cost_is_the_one_that_plans_have():
    lengths = [900, 40, 6000, 1300, 77, 2500, 4100, 350]
    unset, given = (
        batchplan.plan(lengths, dp=2, max_tokens=8192, **costs) for costs in ({}, {"cost": batchplan.DEFAULT_COST})
    )
    assert unset.metrics.predicted_step_time == given.metrics.predicted_step_time
    assert unset.fingerprint == given.fingerprint
