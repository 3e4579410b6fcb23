"""batchplan.integrations.megatron: the schedule, and its place in a Megatron-LM of stand-ins."""

import enum
import sys
import types

import batchplan
import pytest
from batchplan.integrations import megatron
from lengths import assert_each_once, lockstep, long_tailed


class BasePackingScheduler:
    """What a scheduler of Megatron's has of its constructor, and what it asserts of a schedule."""

    def __init__(self, max_seqlen_per_dp_cp_rank, cp_size, dp_size, microbatch_group_size_per_vp_stage):
        self.max_seqlen_per_dp_cp_rank = max_seqlen_per_dp_cp_rank
        self.cp_size = cp_size
        self.dp_size = dp_size
        self.microbatch_group_size_per_vp_stage = microbatch_group_size_per_vp_stage

    def get_groups_and_subsamples(self, sample_id_seqlens):
        raise AssertionError("Megatron's own schedule")

    def run(self, lengths):
        sample_id_seqlens = list(enumerate(lengths))
        groups = self.get_groups_and_subsamples(sample_id_seqlens)
        assert {one for group in groups for rank in group for one in rank} == set(range(len(lengths)))
        return groups


class Names(enum.Enum):
    DP_BALANCED = "dp_balanced"
    OTHER = "other"


@pytest.fixture(params=[Names, str], ids=["by enumeration", "by name"])
def trainer(request, monkeypatch):
    """The module that has the scheduler_map, as Megatron's branches have it."""
    module = types.ModuleType("megatron.core.datasets.data_schedule")
    key = (lambda name: Names(name)) if request.param is Names else str
    module.scheduler_map = {key("dp_balanced"): BasePackingScheduler, key("other"): BasePackingScheduler}
    module.key = key
    for name in ("megatron", "megatron.core", "megatron.core.datasets"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def registered(trainer, **options):
    megatron.register(**options)
    return trainer.scheduler_map[trainer.key("dp_balanced")]


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
    with pytest.raises(ValueError, match=r"lengths\[1\] is 17, but .* is 16"):
        registered(trainer)(8, 2, 1, None).run([3, 17])


def test_long_samples_run_alone_where_that_is_asked_for(trainer):
    lengths = [5000, *long_tailed(60, 3, longest=4000)]
    parts = [part for group in registered(trainer, overlong="alone")(4096, 1, 4, None).run(lengths) for part in group]
    assert_each_once(parts, 61)
    assert [0] in parts and all(sum(lengths[i] for i in part) <= 4096 for part in parts if part != [0])
    with pytest.raises(ValueError, match='overlong is "drop"; must be "reject" or "alone"'):
        megatron.register(overlong="drop")


def test_registered_twice_it_replaces_the_scheduler_once(trainer):
    registered(trainer, effort="fast")
    scheduler = registered(trainer, effort="thorough")
    assert scheduler.plan_options["effort"] == "thorough"
    assert scheduler.__mro__[1:3] == (megatron.PlannedScheduler, BasePackingScheduler)
    assert trainer.scheduler_map[trainer.key("other")] is BasePackingScheduler


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
