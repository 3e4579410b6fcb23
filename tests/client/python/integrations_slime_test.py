"""batchplan.integrations.slime: the schedule of a rollout, and its place in a slime of stand-ins."""

import dataclasses
import sys
import types

import batchplan
import pytest
from batchplan.integrations import slime
from lengths import assert_each_once, lockstep, long_tailed
from pipelines import step_time

COSTS = batchplan.CostModel(24576.0, 1.0)


def arguments(**other):
    given = {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 4096, "micro_batch_size": 1, "balance_data": False}
    return types.SimpleNamespace(**given | other)


def parallel(dp_size, cp_size=1, vpp_size=1, group=1):
    return {"dp_size": dp_size, "cp_size": cp_size, "vpp_size": vpp_size,
            "microbatch_group_size_per_vp_stage": group}


def steps_of(lengths, args, config, rollouts=None, batch=None, **options):
    """The schedule as [steps][slots][ranks] of positions; what is said twice must be the same."""
    rollouts = list(range(len(lengths))) if rollouts is None else rollouts
    batch = len(set(rollouts)) if batch is None else batch
    partitions, indices, numbers, sizes = slime.build_dp_schedule(
        args, config, lengths, global_batch_size=batch, rollout_indices=rollouts, **options)
    assert sizes == [batch] * len(numbers) and len(partitions) == len(indices) == config["dp_size"]
    for partition, own in zip(partitions, indices):
        assert [place for one in own for place in one] == list(range(len(partition)))
        assert len(own) == sum(numbers)
    slots = [list(slot) for slot in zip(*[
        [[partition[place] for place in one] for one in own] for partition, own in zip(partitions, indices)])]
    return [slots[sum(numbers[:step]) : sum(numbers[: step + 1])] for step in range(len(numbers))]


def parts_of(steps):
    return [part for slots in steps for slot in slots for part in slot]


@pytest.mark.parametrize("seed", range(5))
def test_micro_batches_are_within_the_budget_and_alike_in_cost(seed):
    lengths = long_tailed(300, seed)
    (slots,) = steps_of(lengths, arguments(), parallel(8), cost=COSTS)
    parts = parts_of([slots])
    assert_each_once(parts, 300)
    assert all(0 < sum(lengths[i] for i in part) <= 4096 for part in parts)
    even = sum(lockstep(lengths, [[part]]) for part in parts) / 8
    assert lockstep(lengths, slots) < 1.05 * even


def test_context_parallel_padding_is_within_the_budget():
    lengths = [17] * 120
    parts = parts_of(steps_of(lengths, arguments(max_tokens_per_gpu=64), parallel(2, cp_size=4)))
    # Each takes 24 tokens, three of each GPU.
    assert max(map(len, parts)) == 256 // 24


def test_virtual_pipelines_have_as_many_microbatches_as_stages_divide():
    lengths = long_tailed(300, 1)
    for slots in steps_of(lengths, arguments(), parallel(4, vpp_size=2, group=3), batch=100):
        assert len(slots) % 3 == 0
    (slots,) = steps_of([5] * 8, arguments(), parallel(4, vpp_size=1, group=3))
    assert len(slots) == 1


@pytest.mark.parametrize("stages, virtual, group, most", [
    (4, 1, 1, 0.9), (8, 1, 1, 0.9), (4, 2, 4, 0.97), (4, 2, 6, 0.97)])
def test_pipelines_run_shorter_than_by_a_plan_of_whole_models(stages, virtual, group, most):
    config = parallel(8, vpp_size=virtual, group=group)
    times = []
    for seed in range(3):
        lengths = [5000, *long_tailed(300, seed)]
        (planned,), (whole,) = (
            steps_of(lengths, arguments(pipeline_model_parallel_size=size), config) for size in (stages, 1))
        parts = parts_of([planned])
        assert_each_once(parts, 301)
        assert [0] in parts and all(sum(lengths[i] for i in part) <= 4096 for part in parts if part != [0])
        assert len(planned) % group == 0
        times.append([step_time(lengths, slots, stages, virtual, group) for slots in (planned, whole)])
    planned, whole = map(sum, zip(*times))
    assert planned < most * whole


def test_pipelines_that_share_experts_wait_for_each_other():
    lengths = long_tailed(300, 1)
    stages = {"pipeline_model_parallel_size": 4, "expert_model_parallel_size": 8}
    for options, same in (({"synchronization": "lockstep"}, True), ({"synchronization": "accumulated"}, False)):
        assert same == (
            steps_of(lengths, arguments(**stages), parallel(8))
            == steps_of(lengths, arguments(pipeline_model_parallel_size=4), parallel(8), **options))


def test_samples_of_a_rollout_stay_in_one_step_and_the_rest_is_left_out():
    lengths = long_tailed(90, 2)
    rollouts = [place * 7 % 20 for place in range(90)]
    steps = steps_of(lengths, arguments(), parallel(2), rollouts, batch=6)
    first_seen = list(dict.fromkeys(rollouts))
    assert [{rollouts[i] for slot in slots for part in slot for i in part} for slots in steps] == [
        set(first_seen[0:6]), set(first_seen[6:12]), set(first_seen[12:18])]
    assert len([i for part in parts_of(steps) for i in part]) == sum(
        rollout in first_seen[:18] for rollout in rollouts)


def test_a_sample_beyond_the_budget_has_a_micro_batch_of_its_own():
    lengths = [5000, *long_tailed(60, 3, longest=4000), 4097]
    parts = parts_of(steps_of(lengths, arguments(), parallel(4)))
    assert_each_once(parts, 62)
    assert [0] in parts and [61] in parts
    assert all(sum(lengths[i] for i in part) <= 4096 for part in parts if part not in ([0], [61]))


def test_a_step_that_can_not_be_divided_leaves_out_its_last_rollouts(caplog):
    """Each sample needs a micro-batch: slime's pull request 2065."""

    def divided(lengths, rollouts, batch, dp_size, stages=1, **other):
        config = parallel(dp_size, **other)
        partitions, indices, numbers, sizes = slime.build_dp_schedule(
            arguments(max_tokens_per_gpu=10, pipeline_model_parallel_size=stages), config, lengths, global_batch_size=batch, rollout_indices=rollouts)
        assert all(len(own) == sum(numbers) for own in indices)
        return sorted(place for part in partitions for place in part), sizes

    assert divided([9] * 9, range(9), 9, 2) == (list(range(8)), [8])
    assert "training step 0 leaves out the last 1 of its 9 rollouts: its 9 samples can't fill" in caplog.text
    # The steps after it have theirs.
    kept = [place for place in range(18) if place not in (8, 17)]
    assert divided([9] * 18, range(18), 9, 2) == (kept, [8, 8])
    # A rollout's samples go together: of 3, 3 and 3 the last one, so that 6 are divided.
    assert divided([9] * 9, [0, 0, 0, 1, 1, 1, 2, 2, 2], 3, 2) == (list(range(6)), [2])
    assert divided([9] * 11, range(11), 11, 2, vpp_size=2, group=2) == (list(range(8)), [8])
    assert divided([9] * 11, range(11), 11, 2, stages=2, vpp_size=2, group=2) == (list(range(8)), [8])
    assert divided([9] * 9, range(9), 9, 2, stages=4) == (list(range(8)), [8])
    # What can share a micro-batch is not left out.
    assert divided([9] * 7 + [4, 5], range(9), 9, 2) == (list(range(9)), [9])
    with pytest.raises(slime.ScheduleError, match="3 sequences, but needs 4 .* in training step 0 of 3 samples"):
        divided([9] * 3, [0, 0, 0], 1, 2)


def test_costs_are_those_of_the_model_that_the_arguments_name():
    shape = {"num_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_query_groups": 2, "kv_channels": 4,
             "ffn_hidden_size": 64, "vocab_size": 32, "num_experts": None}
    dense = slime.cost_of(arguments(**shape))
    # Projections of 16 x (16 + 8 + 8 + 16), three matrices of 16 x 64; the vocabulary of 16 x 32.
    assert dense.per_token == pytest.approx((2 * 2 * (16 * 48 + 3 * 16 * 64) + 2 * 16 * 32) * 1e-9)
    assert dense.per_token_squared == pytest.approx(2 * 2 * 16 * 1e-9)
    experts = {"num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 10, "moe_layer_freq": [0, 1]}
    sparse = slime.cost_of(arguments(**shape | experts))
    assert dense.per_token - sparse.per_token == pytest.approx(2 * 3 * 16 * (64 - 2 * 10) * 1e-9)
    every = slime.cost_of(arguments(**shape | experts | {"moe_layer_freq": 2, "moe_shared_expert_intermediate_size": 5}))
    assert every.per_token - sparse.per_token == pytest.approx(2 * 3 * 16 * 5 * 1e-9)
    multi_head = slime.cost_of(arguments(**shape, group_query_attention=False))
    assert multi_head.per_token - dense.per_token == pytest.approx(2 * 2 * 16 * 16 * 1e-9)
    ungated = slime.cost_of(arguments(**shape, swiglu=False))
    assert dense.per_token - ungated.per_token == pytest.approx(2 * 2 * 16 * 64 * 1e-9)
    for unknown in (arguments(), arguments(**shape, multi_latent_attention=True), arguments(**shape, window_size=(7, 0)),
                    arguments(**shape | {"kv_channels": None})):
        assert slime.cost_of(unknown) is None
    lengths = long_tailed(256, 2)
    by_shape = steps_of(lengths, arguments(**shape), parallel(4))
    assert by_shape == steps_of(lengths, arguments(), parallel(4), cost=dense)
    on_pipelines = arguments(pipeline_model_parallel_size=4)
    beside = dataclasses.replace(dense, per_microbatch=1024 * dense.per_token)
    assert steps_of(lengths, arguments(**shape, pipeline_model_parallel_size=4), parallel(4)) == steps_of(
        lengths, on_pipelines, parallel(4), cost=beside)
    assert by_shape != steps_of(lengths, arguments(), parallel(4), cost=batchplan.CostModel(0.0, 1.0))


def test_without_a_budget_micro_batches_are_runs_of_as_many_samples():
    fixed = {"use_dynamic_batch_size": False, "micro_batch_size": 2}
    lengths = [1, 2, 3, 4, 5, 6, 7, 8, 90, 1, 1, 1]
    assert steps_of(lengths, arguments(**fixed), parallel(2), batch=4) == [
        [[[0, 1], [2, 3]]], [[[4, 5], [6, 7]]], [[[8, 9], [10, 11]]]]
    (slots,) = steps_of([9, 9, 9, 9, 1, 1, 1, 1], arguments(**fixed, balance_data=True), parallel(2))
    assert sorted(sum(sum([9, 9, 9, 9, 1, 1, 1, 1][i] for i in slot[rank]) for slot in slots) for rank in range(2)) == [
        20, 20]
    with pytest.raises(slime.ScheduleError, match="micro_batch_size is 2, which makes num_mbs 3; must be a multiple"):
        steps_of([1] * 6, arguments(**fixed), parallel(2))
    with pytest.raises(slime.ScheduleError, match="num_mbs 2; .* dp_size 2 [*] mb_group 2"):
        steps_of([1] * 4, arguments(**fixed), parallel(2, vpp_size=2, group=2))
    with pytest.raises(slime.ScheduleError, match="micro_batch_size is 0"):
        steps_of([1] * 4, arguments(use_dynamic_batch_size=False, micro_batch_size=0), parallel(2))


def test_what_can_not_be_scheduled_is_named_as_a_failed_assertion():
    for refused in (AssertionError, batchplan.InvalidRequest):
        with pytest.raises(refused, match="num_rollouts is 3; must be at least global_batch_size 4"):
            steps_of([3] * 6, arguments(), parallel(1), [0, 0, 1, 1, 2, 2], batch=4)
    with pytest.raises(slime.ScheduleError, match="1 sequence, but needs 2 .*; in training step 1 of 1 samples"):
        steps_of([3] * 3, arguments(), parallel(2), [0, 0, 1], batch=1)
    with pytest.raises(slime.ScheduleError, match=r"lengths\[1\] .*is 0.*; in training step 0 of 2 samples"):
        steps_of([3, 0], arguments(), parallel(1))
    with pytest.raises(slime.ScheduleError, match="max_tokens_per_gpu is None; must be a whole number"):
        steps_of([3, 1], arguments(max_tokens_per_gpu=None), parallel(1))
    with pytest.raises(slime.ScheduleError, match="global_batch_size is 0"):
        steps_of([3, 1], arguments(), parallel(1), batch=0)
    with pytest.raises(slime.ScheduleError, match="total_lengths has 2 entries; rollout_indices has 1"):
        steps_of([3, 1], arguments(), parallel(1), [0], batch=1)


@pytest.fixture
def trainer(monkeypatch):
    """The module of the function, and the one that imports it by value."""
    schedule = types.ModuleType("slime.utils.dp_schedule")
    schedule.build_dp_schedule = "slime's own"
    for name in ("slime", "slime.utils", "slime.ray"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, schedule.__name__, schedule)
    return schedule


@pytest.mark.parametrize("imported", [False, True])
def test_installed_it_is_what_the_rollout_manager_calls(trainer, imported, monkeypatch):
    manager = types.ModuleType("slime.ray.rollout")
    manager.build_dp_schedule = trainer.build_dp_schedule
    if imported:
        monkeypatch.setitem(sys.modules, manager.__name__, manager)
    slime.install(cost=COSTS, effort="fast")
    lengths = long_tailed(100, 1)
    given = {"global_batch_size": 50, "rollout_indices": list(range(100))}
    expected = slime.build_dp_schedule(arguments(), parallel(4), lengths, **given, cost=COSTS, effort="fast")
    assert trainer.build_dp_schedule(arguments(), parallel(4), lengths, **given) == expected
    assert manager.build_dp_schedule == (trainer.build_dp_schedule if imported else "slime's own")


def test_what_is_wrong_is_told_at_installation(trainer):
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            slime.install(**wrong)
    assert trainer.build_dp_schedule == "slime's own"


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="slime"):
        slime.install()
