"""batchplan.integrations.openrlhf: in an OpenRLHF of small experiences and replay buffers of the names that get it."""

import dataclasses
import pickle
import sys
import types

import batchplan
import pytest
from batchplan.integrations import openrlhf
from lengths import assert_each_once, lockstep, long_tailed

torch = pytest.importorskip("torch")
BUDGET = 4096
RANKS = 4


@dataclasses.dataclass
class Experience:
    """Samples of which only their lengths matter here, and what is logged of them."""

    sequences: object = None
    total_length: object = None
    info: dict = dataclasses.field(default_factory=dict)


def split_experience_batch(experience):
    return [
        Experience(experience.sequences[place], experience.total_length[place],
                   {name: values[place] for name, values in experience.info.items()})
        for place in range(len(experience.sequences))
    ]


def make_experience_batch(items):
    return Experience(
        [item.sequences for item in items], torch.stack([item.total_length for item in items]),
        {name: [item.info[name] for item in items] for name in items[0].info})


def stock_balance_experiences(experiences, args):
    """Longest first, dealt."""
    items = [item for one in experiences for item in split_experience_batch(one)]
    items.sort(key=lambda item: -item.total_length)
    dealt = [items[rank::RANKS] for rank in range(RANKS)]
    return [make_experience_batch(own) for own in dealt if own]


def stock_count(total_lengths, max_tokens_per_gpu, ring_attn_size, ds_tensor_parallel_size):
    return len(total_lengths)


def stock_partitions(seqlen_list, k_partitions, equal_size):
    return [list(range(part, len(seqlen_list), k_partitions)) for part in range(k_partitions)]


class NaiveReplayBuffer:
    """A rank's; what other ranks' steps have at least is `others`."""

    others = 0

    def __init__(self, experience):
        self.items = split_experience_batch(experience)

    def setup_dynamic_batch(self, strategy):
        buffers, args = sys.modules["openrlhf.trainer.ppo_utils.replay_buffer"], strategy.args
        size = args.train.batch_size // strategy.ds_device_mesh["dp"].size()
        steps = [range(begin, begin + size) for begin in range(0, len(self.items) - size + 1, size)]
        lengths = [[int(self.items[place].total_length) for place in step] for step in steps]
        counts = [
            max(self.others, buffers.get_minimum_num_micro_batch_size(own, args.train.max_tokens_per_gpu, 1, 1))
            for own in lengths]
        self.steps = []
        for step, own, count in zip(steps, lengths, counts):
            partitions = buffers.get_seqlen_balanced_partitions(own, count, equal_size=False)
            for part in partitions:
                for place in range(len(part)):
                    part[place] += step[0]
            self.steps.append(partitions)


class Remote:
    """An actor that runs what it is sent at once, and the method of it that Ray has."""

    installed = False

    @property
    def __ray_call__(self):
        return types.SimpleNamespace(remote=lambda work: work(self) or setattr(self, "installed", True))


class RayActorGroup:
    def _initiate_actors(self, placement, count):
        self._actor_handlers = [Remote() for _ in range(count)]

    def async_init_model_from_pretrained(self, strategy, *names):
        return names


def args_of(samples, batch_size=64, budget=BUDGET, dynamic=True):
    return types.SimpleNamespace(
        actor=types.SimpleNamespace(num_nodes=2, num_gpus_per_node=RANKS),
        ds=types.SimpleNamespace(ring_attn_size=2, tensor_parallel_size=1),
        train=types.SimpleNamespace(
            batch_size=batch_size, max_tokens_per_gpu=budget // 2, dynamic_batch_enable=dynamic),
        rollout=types.SimpleNamespace(batch_size=samples, n_samples_per_prompt=1))


def strategy_of(args, ranks=RANKS):
    return types.SimpleNamespace(args=args, ds_device_mesh={"dp": types.SimpleNamespace(size=lambda: ranks)})


def experiences_of(lengths, each=8):
    lengths = torch.tensor(lengths)
    return [
        Experience(list(range(begin, min(begin + each, len(lengths)))), lengths[begin : begin + each],
                   {"reward": torch.zeros(len(lengths[begin : begin + each]))})
        for begin in range(0, len(lengths), each)
    ]


@pytest.fixture
def trainer(monkeypatch):
    """OpenRLHF's modules, whose classes and functions are this test's own."""
    def module(name, **members):
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    for name in ("openrlhf", "openrlhf.trainer", "openrlhf.trainer.ppo_utils", "openrlhf.trainer.ray"):
        module(name)
    module("ray", get=list)
    return types.SimpleNamespace(
        experience=module(
            "openrlhf.trainer.ppo_utils.experience", Experience=Experience,
            balance_experiences=stock_balance_experiences, split_experience_batch=split_experience_batch,
            make_experience_batch=make_experience_batch),
        buffers=module(
            "openrlhf.trainer.ppo_utils.replay_buffer", get_minimum_num_micro_batch_size=stock_count,
            get_seqlen_balanced_partitions=stock_partitions,
            NaiveReplayBuffer=type("NaiveReplayBuffer", (NaiveReplayBuffer,), {})),
        trainer=module("openrlhf.trainer.ppo_trainer", balance_experiences=stock_balance_experiences),
        launcher=module("openrlhf.trainer.ray.launcher", RayActorGroup=type("RayActorGroup", (RayActorGroup,), {})),
    )


def trained(trainer, lengths, args, experiences=None):
    """[steps][ranks] micro-batches of positions in the batch, as the trainer and its workers divide it."""
    balanced = trainer.trainer.balance_experiences(experiences or experiences_of(lengths), args)
    buffers = [trainer.buffers.NaiveReplayBuffer(one) for one in balanced]
    for buffer in buffers:
        buffer.setup_dynamic_batch(strategy_of(args))
        assert all(set(item.info) == {"reward"} for item in buffer.items)
    return [
        [[[buffer.items[place].sequences for place in part] for part in partitions]
         for buffer, partitions in zip(buffers, step)]
        for step in zip(*(buffer.steps for buffer in buffers))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_ranks_and_micro_batches_of_each_step_are_one_plan(trainer, seed):
    lengths = long_tailed(256, seed)
    args = args_of(256)
    stock = trained(trainer, lengths, args)
    openrlhf.install()
    openrlhf.install()
    steps = trained(trainer, lengths, args)
    assert len(steps) == 4
    for own, before in zip(steps, stock):
        parts = [part for rank in own for part in rank]
        # The samples that the step has with OpenRLHF's rule, as many on each rank.
        assert sorted(sum(parts, [])) == sorted(place for rank in before for part in rank for place in part)
        assert {sum(map(len, rank)) for rank in own} == {16} and len({len(rank) for rank in own}) == 1
        assert max(sum(lengths[place] for place in part) for part in parts) <= BUDGET
        even = sum(lockstep(lengths, [[part]]) for part in parts) / RANKS
        assert lockstep(lengths, zip(*own)) < 1.15 * even


def test_all_of_a_rollout_may_be_one_step(trainer):
    openrlhf.install()
    lengths = long_tailed(128, 1)
    (step,) = trained(trainer, lengths, args_of(128, batch_size=128))
    assert_each_once([part for rank in step for part in rank], 128)


def test_samples_beyond_the_last_step_are_told(trainer, caplog):
    openrlhf.install()
    lengths = long_tailed(150, 2)
    steps = trained(trainer, lengths, args_of(150))
    assert trainer.trainer.balance_experiences([], args_of(150)) == []
    assert len(steps) == 2 and "22 of 150 samples are beyond the last whole step" in caplog.text
    caplog.clear()
    # A rollout that came short, and one with fewer samples than ranks.
    for count in (40, 3):
        experiences = trainer.trainer.balance_experiences(experiences_of(lengths[:count]), args_of(150))
        assert_each_once([one.sequences for one in experiences], count)
        assert len(experiences) == min(RANKS, count)
        assert f"{count} of {count} samples" in caplog.text


def test_a_sample_above_the_budget_is_alone(trainer):
    openrlhf.install()
    (step,) = trained(trainer, [5000] + [10] * 7, args_of(8, batch_size=8))
    assert [0] in [part for rank in step for part in rank]


def test_a_rank_that_can_not_keep_its_plan_divides_as_before(trainer):
    openrlhf.install()
    lengths, args = [9] * 16, args_of(16, batch_size=16)
    # Another rank has more.
    trainer.buffers.NaiveReplayBuffer.others = 3
    (step,) = trained(trainer, lengths, args)
    assert [len(rank) for rank in step] == [3] * RANKS
    assert_each_once([part for rank in step for part in rank], 16)
    trainer.buffers.NaiveReplayBuffer.others = 0
    # Samples that were left out since; those of no plan.
    (own, *_) = trainer.trainer.balance_experiences(experiences_of(lengths), args)
    torn, without = map(trainer.buffers.NaiveReplayBuffer, (own, experiences_of([9] * 4)[0]))
    torn.items = torn.items[1:] + without.items[:1]
    for buffer in (torn, without):
        buffer.setup_dynamic_batch(strategy_of(args))
        assert [len(part) for part in buffer.steps[0]] == [1, 1, 1, 1]


def test_a_critic_of_other_ranks_than_the_actors_is_told_once(trainer, caplog):
    openrlhf._warn_of_ranks.cache_clear()
    openrlhf.install()
    args = args_of(64)
    of_ranks = trainer.trainer.balance_experiences(experiences_of(long_tailed(64, 4)), args)
    # Of two ranks of the actor's, and of a part of one.
    whole = make_experience_batch([item for one in of_ranks[:2] for item in split_experience_batch(one)])
    half = make_experience_batch(split_experience_batch(of_ranks[0])[:8])
    for samples, ranks in ((whole, 2), (half, 8)):
        for _ in range(2):
            buffer = trainer.buffers.NaiveReplayBuffer(samples)
            buffer.setup_dynamic_batch(strategy_of(args, ranks))
            assert buffer.steps == [stock_partitions(buffer.items, len(buffer.items), False)]
            assert all(set(item.info) == {"reward"} for item in buffer.items)
        told = [one for one in caplog.messages if f"the critic has {ranks} data-parallel ranks and the actor" in one]
        assert len(told) == 1 and "planned, 4: the critic's micro-batches are divided by OpenRLHF's own" in told[0]
    caplog.clear()
    trainer.buffers.NaiveReplayBuffer(of_ranks[0]).setup_dynamic_batch(strategy_of(args))
    assert not caplog.messages


def test_a_buffer_that_is_gone_through_again_has_its_plan(trainer):
    openrlhf.install()
    (own, *_) = trainer.trainer.balance_experiences(experiences_of([9] * 16), args_of(16, batch_size=16))
    buffer = trainer.buffers.NaiveReplayBuffer(own)
    for _ in range(2):
        buffer.setup_dynamic_batch(strategy_of(args_of(16, batch_size=16)))
        assert len(buffer.steps[0]) == 1


def test_the_trainer_gets_it_with_the_group_and_workers_when_they_are_made(trainer):
    cost = batchplan.CostModel(2.0)
    openrlhf.install(cost=cost)
    group = trainer.launcher.RayActorGroup()
    group._initiate_actors(None, 3)
    assert all(actor.installed for actor in group._actor_handlers)
    # In another process, from which it goes on to a third.
    for _ in range(2):
        sent = pickle.dumps(group.batchplan_installed)
        trainer.trainer.balance_experiences = trainer.experience.balance_experiences = stock_balance_experiences
        group.batchplan_installed = pickle.loads(sent)
        assert trainer.trainer.balance_experiences.keywords == {"cost": cost, "synchronization": None, "effort": None}


def test_micro_batches_of_fixed_numbers_are_refused(trainer):
    openrlhf.install()
    group = trainer.launcher.RayActorGroup()
    assert group.async_init_model_from_pretrained(strategy_of(args_of(8)), "model") == ("model",)
    with pytest.raises(ValueError, match="train.dynamic_batch_enable is False, .* set it, with train.max_tokens"):
        group.async_init_model_from_pretrained(strategy_of(args_of(8, dynamic=False)), "model")


def test_costs_reach_the_plan(trainer):
    lengths = long_tailed(128, 3)

    def longest(cost):
        openrlhf.install(cost=cost, synchronization="accumulated")
        (step,) = trained(trainer, lengths, args_of(128, batch_size=128))
        return max(sum(lengths[place] ** 2 for part in rank for place in part) for rank in step)

    assert longest(batchplan.CostModel(0.0, 1.0)) < longest(batchplan.CostModel(1.0))


def test_what_is_wrong_is_told_at_installation(trainer):
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            openrlhf.install(**wrong)
    assert trainer.trainer.balance_experiences is stock_balance_experiences


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="openrlhf"):
        openrlhf.install()
