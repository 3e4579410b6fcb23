"""batchplan.integrations.skyrl: in a SkyRL of small trainers, workers and collators of the names that get it."""

import dataclasses
import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations import skyrl
from lengths import assert_each_once, lockstep, long_tailed

torch = pytest.importorskip("torch")
BUDGET = 4096


class TensorBatch(dict):
    metadata = None

    def __getitem__(self, key):
        if not isinstance(key, slice):
            return super().__getitem__(key)
        part = type(self)({name: None if value is None else value[key] for name, value in self.items()})
        part.metadata = self.metadata
        return part


def pad_training_input_batch(batch, number):
    padded = type(batch)({name: torch.cat([value] + [value[:1]] * number) for name, value in batch.items()})
    padded["loss_mask"][-number:] = 0
    padded.metadata = batch.metadata
    return padded


@dataclasses.dataclass(frozen=True)
class WorkerOutput:
    loss_fn_outputs: list


class TokenBasedBatchIterator:
    """A worker's: as many sequences as fit, and as many micro-batches as the other ranks have."""

    others = 0

    def __init__(self, data, max_tokens_per_microbatch):
        self.data = data
        self._microbatches = [[place] for place in range(len(data["position"]))]
        self.padding = self._sync_num_microbatches() - len(self._microbatches)

    def _sync_num_microbatches(self):
        return max(len(self._microbatches), self.others)


class WorkerDispatch:
    def __init__(self, config, dp=4):
        self.cfg, self.dp, self.ran = config, dp, []

    def dp_size(self, model):
        return self.dp

    def stage_data(self, model, data, mini_batch_boundaries):
        staged = []
        for begin, end in mini_batch_boundaries:
            size = (end - begin) // self.dp
            staged.append([data[begin + rank * size : begin + (rank + 1) * size] for rank in range(self.dp)])
        return staged

    def forward_from_staged(self, model, chunk_refs, loss_fn=None):
        """Of each sequence its position, in the order of ranks; keeps what micro-batches they ran."""
        iterators = [TokenBasedBatchIterator(chunk, BUDGET) for chunk in chunk_refs]
        self.ran.append([
            [[int(one.data["position"][place]) for place in own] for own in one._microbatches] for one in iterators])
        return WorkerOutput([int(position) for chunk in chunk_refs for position in chunk["position"]])

    def forward(self, model, data, loss_fn=None):
        (chunks,) = WorkerDispatch.stage_data(self, model, data, [(0, len(data["position"]))])
        return WorkerDispatch.forward_from_staged(self, model, chunks)


class PackedDataCollator:
    def __init__(self, dp_size, tp_size=1, cp_size=1):
        self.dp_size, self.tp_size, self.cp_size, self.fp8_enabled = dp_size, tp_size, cp_size, False

    def __call__(self, examples, batch_size):
        made = sys.modules["skyrl.train.dataset.collators"].make_seq_packer
        packer = made(
            "first_fit_decreasing", bin_capacity=BUDGET, min_bin_count=self.dp_size, bin_count_multiple=self.dp_size)
        return packer.pack([len(one) for one in examples])


class SFTTrainer:
    def __init__(self, config, **sizes):
        self.cfg, self.sizes = config, sizes

    def _build_collator(self):
        return PackedDataCollator(**self.sizes)


class RayPPOTrainer:
    def __init__(self, config):
        self.cfg = config


class Remote:
    """An actor that runs what it is sent at once, and the method of it that Ray has."""

    def __init__(self):
        self.installed = 0

    @property
    def __ray_call__(self):
        return types.SimpleNamespace(remote=lambda work: work(self) or self.__dict__.update(installed=1))


class PPORayActorGroup:
    def _initiate_actors(self, placement, count):
        self._actor_handlers = [Remote() for _ in range(count)]


def config_of(budget=BUDGET, strategy="fsdp", experts=1):
    megatron = types.SimpleNamespace(expert_model_parallel_size=experts)
    return types.SimpleNamespace(trainer=types.SimpleNamespace(
        max_tokens_per_microbatch=budget, strategy=strategy, policy=types.SimpleNamespace(megatron_config=megatron)))


@pytest.fixture
def trainer(monkeypatch):
    """SkyRL's modules, whose classes are this test's own."""
    def module(name, **members):
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    def of(kind, base=object):
        return type(kind.__name__, (kind,) if base is object else (base,), {})

    for name in ("skyrl", "skyrl.train", "skyrl.train.dataset", "skyrl.train.utils", "skyrl.backends",
                 "skyrl.backends.skyrl_train", "skyrl.backends.skyrl_train.workers"):
        module(name)
    workers = "skyrl.backends.skyrl_train.workers"
    for kind, name in ((TokenBasedBatchIterator, "_sync_num_microbatches"), (PackedDataCollator, "__call__")):
        monkeypatch.setattr(kind, name, getattr(kind, name))
    made = types.SimpleNamespace(
        dispatch=module(f"{workers}.worker_dispatch", WorkerDispatch=of(WorkerDispatch)).WorkerDispatch,
        iterator=TokenBasedBatchIterator,
        groups=module(f"{workers}.worker", PPORayActorGroup=of(PPORayActorGroup)).PPORayActorGroup,
        rl=module("skyrl.train.trainer", RayPPOTrainer=of(RayPPOTrainer)).RayPPOTrainer,
        sft=module("skyrl.train.sft_trainer", SFTTrainer=of(SFTTrainer)).SFTTrainer,
        utils=module("skyrl.train.utils.utils", initialize_ray=lambda config: "Ray"),
        collators=module(
            "skyrl.train.dataset.collators", PackedDataCollator=PackedDataCollator,
            get_packed_seq_align_size=lambda tp, cp, fp8_enabled: tp * 2 * cp if cp > 1 else tp),
    )
    module(f"{workers}.worker_utils", TokenBasedBatchIterator=TokenBasedBatchIterator)
    module("skyrl.backends.skyrl_train.training_batch", pad_training_input_batch=pad_training_input_batch)
    module("ray", get=list)
    return made


def batch_of(lengths):
    mask = (torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]).long()
    batch = TensorBatch({
        "attention_mask": mask, "loss_mask": mask.clone(), "position": torch.arange(len(lengths)), "values": None})
    batch.metadata = {"response_length": 1}
    return batch


@pytest.mark.parametrize("seed", range(3))
def test_mini_batches_are_divided_by_one_plan_each(trainer, seed):
    skyrl.install()
    skyrl.install()
    lengths = long_tailed(256, seed)
    dispatch = trainer.dispatch(config_of())
    staged = dispatch.stage_data("policy", batch_of(lengths), [(0, 128), (128, 256)])
    for begin, chunks in zip((0, 128), staged):
        # Of each its own sequences, as many on each rank, and results in the order in which they came.
        assert dispatch.forward_from_staged("policy", chunks).loss_fn_outputs == list(range(begin, begin + 128))
        ranks = dispatch.ran.pop()
        assert {len(chunk["position"]) for chunk in chunks} == {32} and len({len(own) for own in ranks}) == 1
        assert_each_once([[i - begin for i in one] for own in ranks for one in own], 128)
        assert max(sum(lengths[i] for i in one) for own in ranks for one in own) <= BUDGET
        even = sum(lockstep(lengths, [[one]]) for own in ranks for one in own) / 4
        assert lockstep(lengths, zip(*ranks)) < 1.1 * even
        assert chunks[0]["values"] is None and chunks[0].metadata == {"response_length": 1}


def test_log_probabilities_of_a_whole_batch_come_back_in_its_order(trainer):
    skyrl.install()
    lengths = long_tailed(64, 1)
    dispatch = trainer.dispatch(config_of())
    assert dispatch.forward("ref", batch_of(lengths)).loss_fn_outputs == list(range(64))
    assert len(dispatch.ran[0][0]) < 16  # of several sequences each
    # What has micro-batches of fixed numbers, or is SkyRL's to refuse, is left alone.
    for arguments in ((batch_of(lengths), "cross_entropy"), (batch_of(lengths[:63]), None)):
        dispatch.forward("ref", *arguments)
        assert all(len(one) == 1 for own in dispatch.ran.pop() for one in own)


def test_a_mini_batch_is_filled_up_to_the_ranks(trainer):
    skyrl.install()
    dispatch = trainer.dispatch(config_of())
    batch = batch_of([30, 20, 10, 5, 5])
    del batch["values"]
    (chunks,) = dispatch.stage_data("policy", batch, [(0, 5)])
    assert [len(chunk["position"]) for chunk in chunks] == [2] * 4 and len(batch["position"]) == 5
    masks = torch.cat([chunk["loss_mask"] for chunk in chunks])
    assert int((masks.sum(1) == 0).sum()) == 3
    # As SkyRL has them: those that fill up come last.
    assert dispatch.forward_from_staged("policy", chunks).loss_fn_outputs == [0, 1, 2, 3, 4, 0, 0, 0]


def test_a_sequence_above_the_budget_is_alone_and_one_a_rank_is_possible(trainer):
    skyrl.install()
    dispatch = trainer.dispatch(config_of(), dp=2)
    (chunks,) = dispatch.stage_data("policy", batch_of([5000, 10, 10, 10]), [(0, 4)])
    dispatch.forward_from_staged("policy", chunks)
    (ranks,) = dispatch.ran
    assert [0] in [one for own in ranks for one in own] and {len(own) for own in ranks} == {2}
    for lengths in ([7, 9], [1, 5000]):
        (chunks,) = dispatch.stage_data("policy", batch_of(lengths), [(0, 2)])
        assert dispatch.forward_from_staged("policy", chunks).loss_fn_outputs == [0, 1]


def test_a_worker_without_a_whole_plan_does_as_before(trainer):
    skyrl.install()
    (chunks,) = trainer.dispatch(config_of(), dp=2).stage_data("policy", batch_of([9] * 8), [(0, 8)])
    assert len(trainer.iterator(chunks[0], BUDGET)._microbatches) == 1
    torn = chunks[0][1:]
    assert len(trainer.iterator(torn, BUDGET)._microbatches) == 3
    # Ranks still agree on a number.
    trainer.iterator.others = 5
    try:
        assert trainer.iterator(chunks[0], BUDGET).padding == 4
    finally:
        trainer.iterator.others = 0


def test_ranks_wait_as_the_strategy_has_them(trainer, monkeypatch):
    asked = []
    plan_batch = skyrl.plan_batch

    def seen(data, dp, budget, options):
        asked.append(options["synchronization"])
        return plan_batch(data, dp, budget, options)

    monkeypatch.setattr(skyrl, "plan_batch", seen)
    skyrl.install()
    for config in (config_of(), config_of(strategy="megatron"), config_of(strategy="megatron", experts=2)):
        trainer.dispatch(config).stage_data("policy", batch_of([9] * 8), [(0, 8)])
    skyrl.install(synchronization="lockstep")
    trainer.dispatch(config_of(strategy="megatron")).forward("policy", batch_of([9] * 8))
    assert asked == ["lockstep", "accumulated", "lockstep", "lockstep"]


def test_without_a_budget_it_is_refused_by_name(trainer):
    skyrl.install()
    assert trainer.rl(config_of()).cfg
    with pytest.raises(ValueError, match="trainer.max_tokens_per_microbatch .*is -1, .* set it to the tokens"):
        trainer.rl(config_of(-1))
    # A trainer of SFT has none, and its dispatch is SkyRL's.
    dispatch = trainer.dispatch(config_of(-1))
    assert "batchplan_microbatch" not in dispatch.stage_data("policy", batch_of([9] * 8), [(0, 8)])[0][0]
    assert dispatch.forward("policy", batch_of([9] * 8)).loss_fn_outputs == list(range(8))


def test_workers_get_it_and_a_process_that_starts_ray_is_told(trainer):
    skyrl.install()
    group = trainer.groups()
    group._initiate_actors(None, 3)
    assert [actor.installed for actor in group._actor_handlers] == [1, 1, 1]
    with pytest.raises(batchplan.FailedPrecondition, match="call it in skyrl_entrypoint, or sft_entrypoint"):
        trainer.utils.initialize_ray(config_of())


@pytest.mark.parametrize("strategy", ["megatron", "fsdp"])
def test_packed_rows_are_dealt_alike(trainer, strategy):
    skyrl.install()
    lengths = long_tailed(256, 2)
    collator = trainer.sft(config_of(strategy=strategy), dp_size=4)._build_collator()
    bins = collator([range(length) for length in lengths], 256)
    assert_each_once(bins, 256)
    assert len(bins) % 4 == 0 and max(sum(lengths[i] for i in one) for one in bins) <= BUDGET
    ranks = [[sum(lockstep(lengths, [[one]]) for one in bins[rank::4])] for rank in range(4)]
    assert max(ranks)[0] < 1.05 * min(ranks)[0]


def test_packed_rows_keep_the_budget_as_they_are_padded(trainer):
    skyrl.install()
    collator = trainer.sft(config_of(), dp_size=2, tp_size=4, cp_size=2)._build_collator()
    bins = collator([range(1)] * 512, 512)
    assert_each_once(bins, 512)
    assert max(len(one) for one in bins) * 16 <= BUDGET
    # SkyRL takes what only its padding makes too long.
    assert skyrl.PlannedPacker(9, 2, length_multiple=8).pack([9, 1, 1, 1])
    with pytest.raises(ValueError, match="max_tokens_per_microbatch .*is 4096; sequence 1 of the batch has 4097 tokens"):
        collator([range(1), range(4097)], 2)
    with pytest.raises(ValueError, match="1 sequence"):
        collator([range(1)], 1)


def test_costs_reach_the_plan():
    lengths = long_tailed(128, 3)
    work = numpy.asarray(lengths, dtype=float) ** 2

    def longest(cost):
        options = {"cost": cost, "synchronization": "accumulated"}
        _, order = skyrl.plan_batch(batch_of(lengths), 4, BUDGET, options)
        return max(work[part].sum() for part in numpy.split(order, 4))

    assert longest(batchplan.CostModel(0.0, 1.0)) < longest(batchplan.CostModel(1.0))


def test_what_is_wrong_is_told_at_installation(trainer):
    before = trainer.dispatch.stage_data
    for wrong in ({"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            skyrl.install(**wrong)
    assert trainer.dispatch.stage_data is before


def test_without_the_trainer_there_is_nothing_to_install():
    with pytest.raises(ImportError, match="skyrl"):
        skyrl.install()
