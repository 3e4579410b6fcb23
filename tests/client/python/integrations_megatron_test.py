"""batchplan.integrations.megatron: the schedule, and its place in a Megatron-LM of stand-ins."""

import collections
import dataclasses
import enum
import math
import sys
import types
import warnings

import batchplan
import pytest
from batchplan.integrations import megatron, slime
from batchplan.integrations._replace import stock_of
from handmade import dynamic_plan
from lengths import assert_each_once, lockstep, long_tailed, verl_cost
from pipelines import makespan, step_time


class BasePackingScheduler:
    """What a scheduler of Megatron's has of its constructor, and what it asserts of a schedule."""

    def __init__(self, max_seqlen_per_dp_cp_rank, cp_size, dp_size, microbatch_group_size_per_vp_stage):
        self.max_seqlen_per_dp_cp_rank = max_seqlen_per_dp_cp_rank
        self.cp_size = cp_size
        self.dp_size = dp_size
        self.microbatch_group_size_per_vp_stage = microbatch_group_size_per_vp_stage

    def get_groups_and_subsamples(self, sample_id_seqlens):
        raise AssertionError("Megatron's own schedule")

    def run(self, lengths, config=None):
        sample_id_seqlens = list(enumerate(lengths))
        groups = self.get_groups_and_subsamples(sample_id_seqlens)
        assert {one for group in groups for rank in group for one in rank} == set(range(len(lengths)))
        return groups


def process_groups(pool, least):
    """As Megatron makes them for dynamic context parallelism, by size: of the powers of two from `least` to less than
    the largest one in the pool, side by side from rank 0; and of the pool. It refuses odd pools."""
    assert pool % 2 == 0
    made = {size: [range(first, first + size) for first in range(0, pool - size + 1, size)]
            for size in (2**power for power in range(int(math.log2(pool)))) if size >= least}
    return {**made, pool: [range(pool)]}


class DynamicScheduler(BasePackingScheduler):
    """Its scheduler of groups that differ in size: what its batches are made of and what trains by them asserts."""

    def __init__(self, *arguments, min_cp_size=1):
        super().__init__(*arguments)
        self.min_cp_size = min_cp_size

    def run(self, lengths, config=None):
        groups = super().run(lengths)
        pool = self.dp_size * self.cp_size
        made = process_groups(pool, self.min_cp_size)
        times_seen = collections.Counter()
        for of_ranks in groups:
            assert len(of_ranks) == pool
            for rank, samples in enumerate(of_ranks):
                # The size of a rank's group is that of its first sample.
                size = sum(samples[0] in others for others in of_ranks)
                members = [other for other, others in enumerate(of_ranks) if samples[0] in others]
                assert members in map(list, made[size]) and rank in members
                # Attention takes two pieces of each sample on each rank.
                assert size == 1 or all(lengths[one] % (2 * size) == 0 for one in samples)
                assert all(of_ranks[other] == samples for other in members)
                assert sum(lengths[one] for one in samples) <= size * self.max_seqlen_per_dp_cp_rank
                times_seen.update(one for one in samples if rank == members[0])
        assert times_seen == collections.Counter(range(len(lengths)))
        assert len(groups) % (self.microbatch_group_size_per_vp_stage or 1) == 0
        return groups


class Names(enum.Enum):
    DP_BALANCED = "dp_balanced"
    DYNAMIC = "default_dynamic_cp"
    OTHER = "other"


@pytest.fixture(params=[Names, str], ids=["by enumeration", "by name"])
def trainer(request, monkeypatch):
    """The module that has the scheduler_map, as Megatron's branches have it."""
    module = types.ModuleType("megatron.core.datasets.data_schedule")
    key = (lambda name: Names(name)) if request.param is Names else str
    module.scheduler_map = {
        key("dp_balanced"): BasePackingScheduler,
        key("default_dynamic_cp"): DynamicScheduler,
        key("other"): BasePackingScheduler,
    }
    module.key = key
    for name in ("megatron", "megatron.core", "megatron.core.datasets"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def registered(trainer, name="dp_balanced", **options):
    megatron.register(**options)
    return trainer.scheduler_map[trainer.key(name)]


def dynamic(trainer, per_rank, cp, dp, multiple=None, min_cp_size=1, **options):
    made = registered(trainer, "default_dynamic_cp", **options)
    return made(per_rank, cp, dp, multiple, min_cp_size=min_cp_size)


def pipeline(stages, virtual=1, experts=1, **more):
    """What Megatron's config has of them."""
    return types.SimpleNamespace(
        pipeline_model_parallel_size=stages, virtual_pipeline_model_parallel_size=virtual if virtual > 1 else None,
        expert_model_parallel_size=experts, **more)


SHAPE = {"num_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_query_groups": 2, "kv_channels": 4,
         "ffn_hidden_size": 64}


def padded_for(pool, lengths):
    """As Megatron's datasets pad samples that any group may get."""
    return [-(-length // (2 * pool)) * 2 * pool for length in lengths]


def test_the_schedule_is_within_the_budget_and_alike_in_cost(trainer):
    scheduler = registered(trainer)(1024, 4, 8, None)
    assert isinstance(scheduler, BasePackingScheduler)
    for seed in range(5):
        lengths = long_tailed(300, seed)
        groups = scheduler.run(lengths)
        assert {len(group) for group in groups} == {32}
        # The four ranks that share a sample stand side by side.
        slots = [group[::4] for group in groups]
        assert all(group == [one for one in slot for _ in range(4)] for group, slot in zip(groups, slots))
        parts = [part for slot in slots for part in slot]
        assert_each_once(parts, 300)
        assert all(0 < sum(lengths[i] for i in part) <= 4096 for part in parts)
        even = sum(lockstep(lengths, [[part]]) for part in parts) / 8
        assert lockstep(lengths, slots) < 1.05 * even
        assert scheduler.run(lengths) == groups


def test_samples_go_by_their_numbers(trainer):
    scheduler = registered(trainer)(8, 1, 2, None)
    groups = scheduler.get_groups_and_subsamples([(7, 8), (3, 8)])
    assert sorted(groups[0]) == [[3], [7]] and len(groups) == 1


def test_virtual_pipelines_have_as_many_microbatches_as_stages_divide(trainer):
    groups = registered(trainer)(4096, 1, 4, 3).run(long_tailed(300, 1))
    assert len(groups) % 3 == 0
    with pytest.raises(ValueError, match="5 sequences, but needs 12 .* microbatch_count_multiple 3"):
        registered(trainer)(4096, 1, 4, 3).run([5] * 5)


@pytest.mark.parametrize("stages, virtual, group, most", [
    (4, 1, None, 0.9), (8, 1, None, 0.9), (4, 2, 4, 0.97), (4, 2, 6, 0.97), (2, 4, 2, 1)])
def test_pipelines_run_shorter_than_by_a_plan_of_whole_models(trainer, stages, virtual, group, most):
    scheduler = registered(trainer)(4096, 1, 8, group)
    times = []
    for seed in range(3):
        lengths = long_tailed(300, seed)
        groups = scheduler.run(lengths, pipeline(stages, virtual))
        parts = [part for slot in groups for part in slot]
        assert_each_once(parts, 300)
        assert all(0 < sum(lengths[i] for i in part) <= 4096 for part in parts)
        assert len(groups) % (group or 1) == 0
        times.append([step_time(lengths, one, stages, virtual, group) for one in (groups, scheduler.run(lengths))])
    planned, whole = map(sum, zip(*times))
    assert planned < most * whole


def test_pipelines_that_share_experts_wait_for_each_other(trainer):
    def waiting(groups):
        return makespan([max(verl_cost(lengths, part) for part in slot) + 1024 * 24576 for slot in groups], 4)

    lengths = long_tailed(300, 1)
    scheduler = registered(trainer)(4096, 1, 8, None)
    apart, together = (scheduler.run(lengths, pipeline(4, experts=experts)) for experts in (1, 8))
    assert waiting(together) < 0.97 * waiting(apart)
    assert step_time(lengths, apart, 4) < step_time(lengths, together, 4)
    assert registered(trainer, synchronization="accumulated")(4096, 1, 8, None).run(
        lengths, pipeline(4, experts=8)) == apart


def test_groups_of_pipelines_are_those_that_megatron_has(trainer):
    def waiting(groups):
        slots = [max(verl_cost(lengths, part) / slot.count(part) for part in slot) for slot in groups]
        return makespan([one + 1024 * 24576 for one in slots], 4, 2)

    on = pipeline(4, 2, experts=8, dynamic_context_parallel=True)
    scheduler = dynamic(trainer, 1024, 2, 4, 4)
    times = []
    for seed in range(3):
        lengths = padded_for(8, long_tailed(300, seed, longest=6000))
        times.append([waiting(scheduler.run(lengths, config)) for config in (on, None)])
    planned, whole = map(sum, zip(*times))
    assert planned < whole
    # Two plans that follow each other, of all ranks and of groups, are of ranks with the whole model.
    lengths = padded_for(6, [5000] * 2 + long_tailed(60, 7, longest=2000))
    scheduler = dynamic(trainer, 1024, 2, 3, 4)
    assert scheduler.run(lengths, on) == scheduler.run(lengths)


def test_costs_are_those_of_the_model_that_megatrons_arguments_name(trainer, monkeypatch):
    lengths = long_tailed(256, 2)
    shape = slime.cost_of(types.SimpleNamespace(**SHAPE, vocab_size=32))
    micro_batch = 1024 * shape.per_token
    known = types.ModuleType("megatron.training.global_vars")
    known.get_args = lambda: types.SimpleNamespace(**SHAPE, padded_vocab_size=32, vocab_size=31)
    monkeypatch.setitem(sys.modules, known.__name__, known)
    for config, beside in ((None, 0), (pipeline(4), micro_batch)):
        def scheduled(**options):
            return registered(trainer, **options)(4096, 1, 4, None).run(lengths, config)

        assert scheduled() == scheduled(cost=dataclasses.replace(shape, per_microbatch=beside))
        assert scheduled() != scheduled(cost=batchplan.CostModel(1.0, 1 / 24576, 1024))
    padded = padded_for(8, long_tailed(200, 4, longest=4000))
    exchange = ((8, 0.02 * shape.per_token), (0, 0.065 * shape.per_token))
    cost = dataclasses.replace(shape, per_microbatch=micro_batch, exchange=exchange)
    assert dynamic(trainer, 1024, 2, 4).run(padded) == dynamic(trainer, 1024, 2, 4, cost=cost).run(padded)
    by_shape = registered(trainer)(4096, 1, 4, None).run(lengths)

    def none_yet():
        raise AssertionError("args is not initialized")

    known.get_args = none_yet
    scheduler = registered(trainer)(4096, 1, 4, None)
    assert scheduler.run(lengths, types.SimpleNamespace(**SHAPE, vocab_size=32, gated_linear_unit=True)) == by_shape
    assert scheduler.run(lengths, types.SimpleNamespace(**SHAPE)) == registered(
        trainer, cost=batchplan.DEFAULT_COST)(4096, 1, 4, None).run(lengths)


def test_a_limit_on_samples_is_kept_where_the_version_has_one(trainer):
    scheduler = registered(trainer)(4096, 1, 4, None)
    scheduler.max_num_seqs = 5
    assert max(len(part) for group in scheduler.run(long_tailed(300, 1)) for part in group) == 5


def test_costs_and_the_rest_reach_the_plan(trainer):
    lengths = long_tailed(256, 2)

    def most_squares(**options):
        groups = registered(trainer, **options)(4096, 1, 4, None).run(lengths)
        return sum(max(sum(lengths[i] ** 2 for i in part) for part in group) for group in groups)

    assert most_squares(cost=batchplan.CostModel(0.0, 1.0)) < most_squares(cost=batchplan.CostModel(1.0))
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            megatron.register(**wrong)


def test_long_samples_are_named(trainer):
    with pytest.raises(ValueError, match=r"lengths\[1\] .*is 17, but .* is 16"):
        registered(trainer)(8, 2, 1, None).run([3, 17])


def test_long_samples_run_alone_where_that_is_asked_for(trainer):
    lengths = [5000, *long_tailed(60, 3, longest=4000)]
    parts = [part for group in registered(trainer, overlong="alone")(4096, 1, 4, None).run(lengths) for part in group]
    assert_each_once(parts, 61)
    assert [0] in parts and all(sum(lengths[i] for i in part) <= 4096 for part in parts if part != [0])
    with pytest.raises(ValueError, match='overlong is "drop"; must be "reject" or "alone"'):
        megatron.register(overlong="drop")


@pytest.mark.parametrize("cp, dp", [(1, 8), (2, 4), (8, 1), (2, 3), (1, 12), (2, 7), (4, 5), (1, 2)])
def test_groups_that_differ_in_size_are_those_that_megatron_has(trainer, cp, dp):
    pool = cp * dp
    for seed in range(3):
        lengths = padded_for(pool, long_tailed(120, seed, longest=1000 * pool))
        scheduler = dynamic(trainer, 1024, cp, dp)
        groups = scheduler.run(lengths)
        assert scheduler.run(lengths) == groups


def test_short_samples_get_small_groups_and_long_ones_what_they_need(trainer):
    lengths = padded_for(8, [8000, *[100] * 200])
    groups = dynamic(trainer, 1024, 1, 8).run(lengths)
    sizes = {one: of_ranks.count(samples) for of_ranks in groups for samples in of_ranks for one in samples}
    assert sizes[0] == 8 and collections.Counter(sizes.values())[1] > 100


def test_groups_of_virtual_pipelines_and_the_least_size_are_kept(trainer):
    lengths = padded_for(8, long_tailed(200, 4, longest=4000))
    assert len(dynamic(trainer, 1024, 2, 4, 3).run(lengths)) % 3 == 0
    dynamic(trainer, 1024, 2, 4, min_cp_size=4).run(lengths)
    # Of all ranks of a number that is no power of two.
    dynamic(trainer, 1024, 2, 3, min_cp_size=6).run(padded_for(6, long_tailed(60, 4, longest=4000)))
    # Process groups are of powers of two alone.
    groups = dynamic(trainer, 1024, 2, 4, min_cp_size=3).run(lengths)
    assert {of_ranks.count(samples) for of_ranks in groups for samples in of_ranks} == {4}
    for pool in ((2, 4), (2, 3)):
        with pytest.raises(ValueError, match=r"lengths\[1\] .*is 12288"):
            dynamic(trainer, 1024, *pool).run([48, 12288])
    with pytest.raises(ValueError, match="there are 3 ranks"):
        dynamic(trainer, 1024, 1, 3).run(padded_for(3, [100] * 10))


@pytest.mark.parametrize("multiple", [1, 2, 3, 5])
@pytest.mark.parametrize("long, others", [(1, 60), (2, 60), (7, 60), (1, 14), (8, 7), (0, 61), (3, 9), (4, 4)])
def test_few_long_samples_do_not_take_the_others_to_all_ranks(trainer, multiple, long, others):
    """Of six ranks, whose largest groups beside the one of all are pairs; rows of 1,020 tokens on each."""
    lengths = padded_for(6, [5000] * long + long_tailed(others, 7, longest=2000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        groups = dynamic(trainer, 1024, 2, 3, multiple).run(lengths)
    sizes = {of_ranks.count(samples) for of_ranks in groups for samples in of_ranks}
    assert min(sizes) <= 2
    # What is not in groups are the longest samples.
    of_all = {one for of_ranks in groups if of_ranks.count(of_ranks[0]) == 6 for one in of_ranks[0]}
    assert set(range(long)) <= of_all
    assert all(lengths[one] >= lengths[other] for one in of_all for other in set(range(len(lengths))) - of_all)


def test_samples_that_are_too_few_for_groups_go_to_all_ranks_with_a_warning(trainer):
    with pytest.warns(UserWarning, match="1 samples do not fill micro-batches of groups of at most 2 of the 6 ranks"):
        assert dynamic(trainer, 1024, 2, 3).run(padded_for(6, [100])) == [[[0]] * 6]
    with pytest.warns(UserWarning, match="their number a multiple of 4"):
        groups = dynamic(trainer, 1024, 2, 3, 4).run(padded_for(6, [100] * 5))
    assert len(groups) == 4
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="3 sequences, but needs 4 micro-batches"):
        dynamic(trainer, 1024, 2, 3, 4).run(padded_for(6, [100] * 3))


def test_without_dynamic_context_parallelism_groups_are_refused(trainer):
    scheduler = dynamic(trainer, 1024, 2, 4)
    lengths = padded_for(8, [100] * 20)
    off, on = (types.SimpleNamespace(dynamic_context_parallel=one) for one in (False, True))
    with pytest.raises(batchplan.FailedPrecondition, match="without --dynamic-context-parallel Megatron-LM makes no"):
        scheduler.run(lengths, off)
    assert scheduler.run(lengths, config=on) == scheduler.run(lengths)


def test_the_sequence_that_padding_adds_has_its_place_in_rows_of_groups(trainer):
    scheduler = dynamic(trainer, 1024, 2, 4)
    trainer._get_scheduler_max_real_num_seqs = lambda config: config.thd_max_packed_sequences - 1
    # As its constructor gets it from Megatron, with that sequence.
    scheduler.max_num_seqs = 4
    groups = scheduler.run(padded_for(8, [100] * 80), types.SimpleNamespace(thd_max_packed_sequences=4))
    assert max(len(samples) for of_ranks in groups for samples in of_ranks) == 3


def test_a_plan_is_written_as_megatron_writes_its_own():
    plan = dynamic_plan([40, 30, 7, 6, 5, 4, 3], 2, 2, 16)
    groups = megatron.sample_id_groups(plan, [70, 71, 72, 73, 74, 75, 76])
    for rank in range(4):
        assert [of_ranks[rank] for of_ranks in groups] == [
            [70 + int(one) for one in microbatch.indices] for microbatch in plan.rank(rank)]
    fixed = batchplan.plan([5, 6, 7, 8], dp=2, cp=2, max_tokens=16)
    ((first,), (second,)) = (list(fixed.rank(rank)) for rank in range(2))
    assert megatron.sample_id_groups(fixed) == [[first.indices.tolist()] * 2 + [second.indices.tolist()] * 2]


@pytest.mark.parametrize("groups, message", [
    ([[[0], [0], [1]]], "micro-batch 0 is of 3 ranks; must be of 4"),
    ([[[0], [0], [1], []]], "rank 3 of micro-batch 0 has no samples"),
    ([[[0], [1], [0], [1]]], "rank 0 of micro-batch 0 has samples of ranks that are not its neighbours"),
    ([[[0], [0], [0], [1]]], "rank 0 of micro-batch 0 begins a group of 3, which has no process group"),
    ([[[3], [3], [2], [2]]], "rank 0 of micro-batch 0 has sample 3 of 10 tokens on 2 ranks; must be a multiple of 4"),
    ([[[3], [3], [3], [3]]], "rank 0 of micro-batch 0 has sample 3 of 10 tokens on 4 ranks; must be a multiple of 8"),
    ([[[2], [1], [1], [0]]], "rank 1 of micro-batch 0 begins a group of 2, which has no process group"),
    ([[[0], [0], [1], [1]]], "sample 2 is in no micro-batch"),
    ([[[0], [0], [1], [1, 2]]], "rank 3 of micro-batch 0 has sample 1, which is none or there twice"),
    ([[[0], [0], [1], [7]]], "rank 3 of micro-batch 0 has sample 7, which is none or there twice"),
    ([[[0], [0], [1], [1]]] * 2, "rank 0 of micro-batch 1 has sample 0, which is none or there twice"),
    ([[[0, 1, 4]] * 4], "rank 0 of micro-batch 0 has 40 tokens on 4 ranks; must be at most 8 each"),
    ([[[0, 1, 2]] * 4] * 3, "there are 3 micro-batches; must be a multiple of 2"),
])
def test_schedules_that_megatron_would_not_survive_are_named(groups, message):
    samples = [(0, 16), (1, 8), (2, 8), (3, 10), (4, 16)]
    with pytest.raises(ValueError, match=message):
        megatron.check_sample_id_groups(
            groups, samples, ranks=4, max_tokens_per_rank=8, multiple=2 if len(groups) == 3 else 1)


def test_groups_are_those_that_megatron_makes_and_no_smaller_or_larger_ones():
    def check(sizes, ranks, min_size=1):
        groups = [[number] for number, size in enumerate(sizes) for _ in range(size)]
        samples = [(number, 2 * size) for number, size in enumerate(sizes)]
        megatron.check_sample_id_groups([groups], samples, ranks=ranks, max_tokens_per_rank=2, min_size=min_size)

    for sizes, ranks, least in (([8, 8, 4], 20, 1), ([20], 20, 8), ([4] * 5, 20, 4), ([4, 2, 2], 8, 2), ([8], 8, 8)):
        check(sizes, ranks, least)
    for sizes, ranks, least, number, size in (
            ([4, 8, 8], 20, 1, 4, 8), ([8, 4], 12, 1, 0, 8), ([2, 1, 1], 4, 2, 2, 1), ([16, 4], 20, 1, 0, 16)):
        with pytest.raises(ValueError, match=f"rank {number} of micro-batch 0 begins a group of {size}, which has no"):
            check(sizes, ranks, least)
    with pytest.raises(ValueError, match="there are 7 ranks; Megatron-LM makes process groups of even numbers alone"):
        check([7], 7)


def test_registered_twice_it_replaces_the_scheduler_once(trainer):
    registered(trainer, effort="fast")
    scheduler = registered(trainer, effort="thorough")
    assert scheduler.plan_options["effort"] == "thorough"
    assert scheduler.__mro__[1] is megatron.PlannedScheduler and stock_of(scheduler) is BasePackingScheduler
    other = trainer.scheduler_map[trainer.key("default_dynamic_cp")]
    assert other.__mro__[1] is megatron.PlannedDynamicScheduler and stock_of(other) is DynamicScheduler
    assert trainer.scheduler_map[trainer.key("other")] is BasePackingScheduler


def test_versions_without_dynamic_groups_keep_the_other_scheduler(trainer):
    del trainer.scheduler_map[trainer.key("default_dynamic_cp")]
    assert registered(trainer)(8, 1, 1, None).run([3]) == [[[0]]]


def test_versions_without_the_scheduler_are_told(trainer):
    for schedulers in ({}, {"another": BasePackingScheduler}):
        trainer.scheduler_map = schedulers
        with pytest.raises(batchplan.FailedPrecondition, match='has no scheduler "dp_balanced"'):
            megatron.register()
    del trainer.scheduler_map
    with pytest.raises(batchplan.FailedPrecondition):
        megatron.register()


def test_without_the_trainer_there_is_nothing_to_register():
    with pytest.raises(ImportError, match="megatron"):
        megatron.register()
