"""plan.compare: what a step took beside what was predicted."""

import copy
import dataclasses
import pickle
import random

import batchplan
import numpy
import pytest

LENGTHS = [1 + 37 * i % 400 for i in range(96)]


def timings_of(plan, ranks, taken):
    return [one.timing(taken(one)) for rank in range(ranks) for one in plan.rank(rank)]


def by_hand(one):
    return 10.0 + 3 * one.rank + 5 * one.slot + one.mini_batch + len(one)


def test_a_timing_has_the_tokens_and_place_of_its_microbatch():
    plan = batchplan.plan([5, 8, 3], dp=1, max_tokens=32, cp=2)
    (microbatch,) = plan.rank(0)
    # Lengths are rounded up to 4 each.
    assert microbatch.timing(2.5, peak_bytes=7) == batchplan.MicroBatchTiming(
        20, 64 + 64 + 16, 2.5, 7, 3, rank=0, slot=0, mini_batch=0, context_parallel=2, model_share=1.0)
    padded = batchplan.plan([5, 8, 3], dp=1, max_tokens=32, preset="nemo_rl_dynamic")
    (microbatch,) = padded.rank(0)
    assert microbatch.timing(1).tokens == 3 * 8
    assert microbatch.timing(1).tokens_squared == 3 * 64


def pipeline_plan(**options):
    return batchplan.plan(LENGTHS, dp=1, max_tokens=4096, pp=2, vpp=2, **options)


def test_a_timing_is_of_the_part_of_the_model_that_a_stage_has():
    one = pipeline_plan().rank(0)[0]
    assert one.timing(1).model_share == one.timing(1, stage=1).model_share == 0.5
    # Virtual stages are the stages' in turn.
    uneven = pipeline_plan(pipeline=batchplan.Pipeline(stage_shares=(1, 0, 3, 0.0)))
    assert uneven.passes[0].stage_shares == (1, 0)
    one = uneven.rank(0)[0]
    assert one.timing(1, stage=0).model_share == 1
    for stage, message in (
        (None, "stage is None; must be 0 to 1, since the stages' parts differ"),
        (1, "stage is 1, whose part of the model's time is 0"),
        (2, "stage is 2; must be 0 to 1"),
        (-1, "stage is -1; must be 0 to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            one.timing(1, stage=stage)
    three = pipeline_plan(pipeline=batchplan.Pipeline(stage_shares=(0.1, 0.2, 0.2, 0.1)))
    assert three.rank(0)[0].timing(1).model_share == pytest.approx(0.5)


def test_the_step_of_a_pipeline_is_not_what_one_stage_does():
    plan = pipeline_plan()
    assert plan.passes[0].synchronization == "accumulated"
    with pytest.raises(ValueError, match="pipeline of 2 stages"):
        plan.compare(timings_of(plan, 1, by_hand))


@pytest.mark.parametrize("synchronization", ["lockstep", "accumulated"])
def test_a_step_takes_what_its_slowest_ranks_take(synchronization):
    plan = batchplan.plan(
        LENGTHS, dp=4, max_tokens=512, mini_batch_size=48, synchronization=synchronization)
    timings = timings_of(plan, 4, by_hand)
    random.Random(1).shuffle(timings)
    found = plan.compare(timings)
    step, total = 0.0, [0.0] * 4
    of_ranks = [list(plan.rank(rank)) for rank in range(4)]
    for mini_batch in range(2):
        times = [[by_hand(one) for one in own if one.mini_batch == mini_batch] for own in of_ranks]
        sums = [sum(one) for one in times]
        step += max(sums) if synchronization == "accumulated" else sum(map(max, zip(*times)))
        total = [a + b for a, b in zip(total, sums)]
    assert found.step_milliseconds == pytest.approx(step)
    assert found.waited == pytest.approx([1 - one / step for one in total])
    assert found.waited_share == pytest.approx(1 - sum(total) / 4 / step)
    assert found.milliseconds.shape == (int(plan.passes[0].microbatches_per_rank.sum()), 4)
    assert found.slowest_ranks.tolist() == found.milliseconds.argmax(axis=1).tolist()


def test_costs_in_another_unit_predict_no_time():
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=512)
    found = plan.compare(timings_of(plan, 2, by_hand))
    assert (found.predicted_milliseconds, found.error) == (None, None)
    assert "predicted" not in repr(found)


def test_a_prediction_in_milliseconds_is_compared():
    cost = batchplan.CostModel(per_token=0.01, per_token_squared=1e-6, per_microbatch=3)
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=512, cost=cost)
    predicted = plan.metrics.predicted_step_time

    def taken(one):
        timing = one.timing(0)
        return 2 * (0.01 * timing.tokens + 1e-6 * timing.tokens_squared + 3)

    found = plan.compare(timings_of(plan, 2, taken), predicted_step_time=predicted)
    assert found.step_milliseconds == pytest.approx(2 * predicted)
    assert found.error == pytest.approx(-0.5)
    assert repr(found).startswith(f"<Comparison: {2 * predicted:.1f} ms, predicted {predicted:.1f} ms (-50.0%), ")


def test_what_is_missing_or_there_twice_is_named():
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=512, mini_batch_size=48)
    timings = timings_of(plan, 2, by_hand)
    last = timings[-1]
    where = f"mini-batch 1, rank 1, slot {last.slot}"
    with pytest.raises(ValueError, match=f"timings has none of {where}$"):
        plan.compare(timings[:-1])
    with pytest.raises(ValueError, match="none of mini-batch 0, rank 0, slot 0 and of .* others"):
        plan.compare([])
    with pytest.raises(ValueError, match=rf"timings\[{len(timings)}\] is of {where}, as timings\[{len(timings) - 1}\]"):
        plan.compare([*timings, last])


@pytest.mark.parametrize("change, message", [
    ({"rank": 2}, r"timings\[0\].rank is 2; the plan has 2"),
    ({"rank": -1}, r"timings\[0\].rank is -1; "),
    ({"rank": None}, r"timings\[0\].rank is None; it must be known"),
    ({"slot": None}, r"timings\[0\].slot is None; it must be known"),
    ({"slot": 99}, r"timings\[0\].slot is 99; each rank of mini-batch 0 has "),
    ({"mini_batch": 1}, r"timings\[0\].mini_batch is 1; the plan has 1"),
    ({"rank": 0.5}, r"timings\[0\].rank is 0.5; must be a whole number"),
    ({"milliseconds": float("nan")}, r"timings\[0\].milliseconds is nan; it must be finite"),
    ({"milliseconds": -1}, r"timings\[0\].milliseconds is -1.0; "),
    ({"milliseconds": "1"}, r"timings\[0\].milliseconds is \"1\"; must be a number"),
])
def test_wrong_timings_are_named(change, message):
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=512)
    timings = timings_of(plan, 2, by_hand)
    timings[0] = dataclasses.replace(timings[0], **change)
    with pytest.raises(ValueError, match=message):
        plan.compare(timings)


@pytest.mark.parametrize("predicted, message", [
    (float("nan"), "predicted_step_time is nan; it must be finite and not negative"),
    (float("inf"), "predicted_step_time is inf; "),
    (-0.5, "predicted_step_time is -0.5; "),
    ("1", 'predicted_step_time is "1"; must be a number'),
])
def test_a_prediction_that_is_no_time_is_named(predicted, message):
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=512)
    timings = timings_of(plan, 2, by_hand)
    for compared in (plan, plan.passes[0]):
        with pytest.raises(ValueError, match=message):
            compared.compare(timings, predicted_step_time=predicted)


def test_one_mini_batch_needs_no_number():
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=512)
    timings = timings_of(plan, 2, by_hand)
    unnumbered = [dataclasses.replace(one, mini_batch=None) for one in timings]
    assert plan.compare(unnumbered).step_milliseconds == plan.compare(timings).step_milliseconds


def test_empty_microbatches_may_be_left_out():
    plan = batchplan.plan([10, 10], dp=4, max_tokens=512, allow_empty_microbatches=True)
    timings = [one for one in timings_of(plan, 4, lambda one: 10.0 if len(one) else 2.0)]
    assert sum(one.tokens == 0 for one in timings) == 2
    with_them = plan.compare(timings)
    without = plan.compare([one for one in timings if one.tokens])
    assert with_them.step_milliseconds == without.step_milliseconds == 10
    assert sorted(with_them.waited.tolist()) == [0, 0, 0.8, 0.8]
    assert sorted(without.waited.tolist()) == [0, 0, 1, 1]


def test_a_pass_is_compared_by_itself():
    plan = batchplan.plan(LENGTHS, dp=2, passes=[
        batchplan.Pass(512, "train"), batchplan.Pass(1024, "logprobs")])
    second = plan.passes[1]
    found = second.compare([one.timing(2) for rank in range(2) for one in second.rank(rank)])
    assert found.step_milliseconds == 2 * len(list(second.rank(0)))
    with pytest.raises(ValueError, match="timings has none of mini-batch 0, rank 0"):
        plan.compare([one.timing(2) for rank in range(2) for one in second.rank(rank)])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])
def test_a_plan_of_another_process_compares_too(copied):
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=512, synchronization="accumulated")
    timings = timings_of(plan, 2, by_hand)
    assert (copied(plan).compare(timings).waited == plan.compare(timings).waited).all()
    assert isinstance(plan.compare(timings).waited, numpy.ndarray)
