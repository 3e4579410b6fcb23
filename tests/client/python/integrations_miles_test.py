"""batchplan.integrations.miles: where a miles of stand-ins divides its samples."""

import functools
import pickle
import sys
import types

import batchplan
import pytest
from batchplan.integrations import miles, slime
from batchplan.integrations._replace import stock_of
from lengths import assert_each_once, long_tailed

# As miles says that there are no virtual stages.
PARALLEL = {"dp_size": 4, "cp_size": 1, "vpp_size": None, "microbatch_group_size_per_vp_stage": None}


def arguments(**other):
    given = {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 4096, "balance_data": False}
    return types.SimpleNamespace(**given | other)


@pytest.fixture
def trainer(monkeypatch):
    """Its modules: the manager of rollouts has a function that calls another module's, which has it by value."""
    modules = {}
    for name in ("miles", "miles.utils", "miles.ray", "miles.ray.rollout", "miles.utils.dp_schedule",
                 "miles.ray.rollout.train_data_conversion", "miles.ray.rollout.rollout_manager",
                 "miles.ray.placement_group"):
        modules[name] = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, modules[name])
    schedule = modules["miles.utils.dp_schedule"]
    schedule.build_dp_schedule = lambda *args, **kwargs: "miles' own"
    conversion = modules["miles.ray.rollout.train_data_conversion"]
    conversion.build_dp_schedule = schedule.build_dp_schedule
    conversion.can_schedule_on_rollout_side = lambda args, data, config: "images" not in data

    def split_train_data_by_dp(args, data, config):
        if "images" in data:
            return "where it trains"
        return conversion.build_dp_schedule(
            args, config, data["lengths"], global_batch_size=args.batch, rollout_indices=data["rollouts"])

    conversion.split_train_data_by_dp = split_train_data_by_dp
    manager = modules["miles.ray.rollout.rollout_manager"]
    manager.split_train_data_by_dp = split_train_data_by_dp
    groups = modules["miles.ray.placement_group"]
    groups.create_rollout_manager = lambda args, pg: (args, pg)
    return types.SimpleNamespace(schedule=schedule, conversion=conversion, manager=manager, groups=groups)


def test_the_manager_divides_by_a_plan_in_its_own_process(trainer):
    stock = trainer.schedule.build_dp_schedule
    miles.install(effort="fast")
    # Nothing but what the actor's class uses is changed here. It goes to the actor, where miles is imported anew.
    assert trainer.conversion.build_dp_schedule is trainer.schedule.build_dp_schedule is stock
    sent = pickle.loads(pickle.dumps(trainer.manager.split_train_data_by_dp))
    lengths, rollouts = long_tailed(100, 1), list(range(100))
    args = arguments(batch=50)
    for _ in range(2):
        found = sent(args, {"lengths": lengths, "rollouts": rollouts}, PARALLEL)
        assert found == slime.build_dp_schedule(
            args, PARALLEL, lengths, global_batch_size=50, rollout_indices=rollouts, effort="fast")
    assert trainer.conversion.build_dp_schedule.func is slime.build_dp_schedule


def test_what_miles_itself_wraps_stays(trainer):
    plain = trainer.groups.create_rollout_manager

    @functools.wraps(plain)
    def timed(args, pg):
        return "timed", plain(args, pg)

    trainer.groups.create_rollout_manager = timed
    for _ in range(2):
        miles.install()
        args = arguments()
        assert trainer.groups.create_rollout_manager(args, "pg") == ("timed", (args, "pg"))
    assert stock_of(trainer.groups.create_rollout_manager) is timed


def test_samples_that_miles_divides_elsewhere_are_told(trainer, caplog):
    miles.install()
    assert trainer.manager.split_train_data_by_dp(arguments(), {"images": []}, PARALLEL) == "where it trains"
    assert "miles divides these samples where it trains, by its own rule" in caplog.text
    for _ in range(2):
        with pytest.raises(ValueError, match="delay_split_train_data_by_dp is True.*ft-components train.*leave that out"):
            trainer.groups.create_rollout_manager(arguments(delay_split_train_data_by_dp=True), None)
        args = arguments(delay_split_train_data_by_dp=False)
        assert trainer.groups.create_rollout_manager(args, "pg") == (args, "pg")
        miles.install()


@pytest.mark.parametrize("rollouts, sizes", [(25, [10, 10, 5]), (20, [10, 10]), (23, [10, 10]), (24, [10, 10, 4])])
def test_rollouts_beyond_the_last_whole_step_make_a_smaller_one_where_they_can(rollouts, sizes):
    lengths = [9] * rollouts
    given = {"global_batch_size": 10, "rollout_indices": list(range(rollouts))}
    args = arguments(allow_partial_train_step=True)
    partitions, indices, numbers, found = slime.build_dp_schedule(args, PARALLEL, lengths, **given)
    assert found == sizes and len(numbers) == len(sizes)
    assert all(len(own) == sum(numbers) for own in indices)
    assert_each_once(partitions, sum(sizes))
    assert slime.build_dp_schedule(arguments(), PARALLEL, lengths, **given)[3] == [10, 10]
    # What is left are fewer than the 8 micro-batches that virtual stages of 4 ranks take.
    virtual = {**PARALLEL, "vpp_size": 2, "microbatch_group_size_per_vp_stage": 2}
    assert slime.build_dp_schedule(args, virtual, lengths, **given)[3] == [10, 10]


def test_what_is_wrong_is_told_at_installation(trainer):
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            miles.install(**wrong)
    del trainer.manager.split_train_data_by_dp
    with pytest.raises(batchplan.FailedPrecondition, match="rollout_manager has no split_train_data_by_dp"):
        miles.install()


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="miles"):
        miles.install()
