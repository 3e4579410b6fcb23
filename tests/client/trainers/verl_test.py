"""verl's own trainer, batches and engines, as they are and with batchplan's plans."""

import asyncio
import functools
import json
import os
import pathlib
import subprocess
import sys
import types

import numpy
import pytest
import torch
from verl_batches import (
    Workers, batch_of, config, cost, for_micro_batches, long_tailed, mini_batches, of_ranks, patches, tokens, trainer,
    with_images)
from pipelines import makespan
from tiny_llama import tiny_llama
from verl import DataProto
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.trainer.ppo.v1 import agent_loop_tq, trainer_base
from verl.utils import dynamic_cp_scheduler, seqlen_balancing, tensordict_utils
from verl.workers.engine import utils
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.padding import no_padding_2_padding

STOCK_MICRO_BATCHES = utils.rearrange_micro_batches

import batchplan  # noqa: E402
from batchplan.integrations.verl import install, rearrange_micro_batches  # noqa: E402
from batchplan.integrations.verl import _micro_batches, _trainers  # noqa: E402
from batchplan_plugins import switched_on  # noqa: E402

install()
BUDGET = 1600
DP = 4


def balanced(lengths, settings, *, stock=False, **more):
    """A batch as the trainer orders it, and the metrics."""
    batch, metrics = batch_of(lengths), {}
    balance = RayPPOTrainer._balance_batch.__wrapped__ if stock else RayPPOTrainer._balance_batch
    balance(trainer(DP, settings), batch, metrics, **more)
    return batch, metrics


def steps(batch, size):
    """Of each mini-batch, what each rank has of it."""
    return list(zip(*(mini_batches(own, size // DP) for own in of_ranks(batch, DP))))


def numbers(parts):
    return sorted(number for part in parts for number in part["number"].tolist())


def micro_batches(data, budget=BUDGET):
    return utils.prepare_micro_batches(for_micro_batches(data, budget))


def stock_micro_batches(data, count=None):
    return STOCK_MICRO_BATCHES(for_micro_batches(data, BUDGET), BUDGET, min_num_micro_batch=count)


def stock_ranks(step):
    """Each rank's micro-batches, as many as verl's ranks agree on."""
    count = max(len(stock_micro_batches(part)[0]) for part in step)
    return [stock_micro_batches(part, count)[0] for part in step]


def lockstep(ranks):
    assert len({len(rank) for rank in ranks}) == 1
    return sum(max(map(cost, slot)) for slot in zip(*ranks))


@pytest.mark.parametrize("size", [128, 32])
@pytest.mark.parametrize("log_probs", [BUDGET, 2 * BUDGET])
def test_the_sequences_of_verls_mini_batches_are_divided_within_the_budget_alike_on_all_ranks(size, log_probs):
    planned_time = stock_time = 0
    for seed in range(3):
        lengths = long_tailed(128, seed, median=150, longest=BUDGET)
        settings = config(BUDGET, mini_batch=size, log_probs=log_probs)
        planned, metrics = balanced(lengths, settings)
        stock, stock_metrics = balanced(lengths, settings, stock=True)
        assert stock_metrics.keys() < metrics.keys()
        for step, stock_step in zip(steps(planned, size), steps(stock, size), strict=True):
            assert numbers(step) == numbers(stock_step)
            ranks = [micro_batches(part)[0] for part in step]
            assert max(tokens(one) for rank in ranks for one in rank) <= BUDGET
            assert [numbers(rank) for rank in ranks] == [numbers([part]) for part in step]
            planned_time += lockstep(ranks)
            stock_time += lockstep(stock_ranks(stock_step))
        whole = [micro_batches(own, log_probs)[0] for own in of_ranks(planned, DP)]
        assert max(tokens(one) for rank in whole for one in rank) <= log_probs
        # Mini-batches do not bind what is not trained.
        assert lockstep(whole) < 1.02 * sum(map(cost, of_ranks(planned, DP))) / DP
    assert planned_time < stock_time


def loss_and_gradient(batch, ranks_of):
    """verl's token mean over its micro-batches, of a model that sees each sequence by itself."""
    model = tiny_llama()
    all_tokens = int(batch.batch["response_mask"].sum())
    loss = 0.0
    for rank in ranks_of(of_ranks(batch, DP)):
        for one in rank:
            values = []
            for ids in one["input_ids"].unbind():
                logits = model(input_ids=ids[None], use_cache=False).logits[0]
                chosen = torch.log_softmax(logits, -1)[:-1].gather(-1, ids[1:, None])[:, 0]
                values.append(torch.nn.functional.pad(chosen, (0, 1)))
            of_responses = no_padding_2_padding(torch.cat(values), one)
            mask = one["response_mask"][:, : of_responses.shape[1]]
            own = agg_loss(-of_responses, mask, "token-mean", dp_size=DP, batch_num_tokens=all_tokens) / DP
            own.backward()
            loss += float(own.detach())
    return loss, torch.cat([one.grad.flatten() for one in model.parameters()])


def test_the_loss_and_its_gradient_are_verls():
    lengths = long_tailed(32, 3, median=60, longest=400)
    settings = config(BUDGET)
    loss, gradient = loss_and_gradient(
        balanced(lengths, settings)[0], lambda parts: [micro_batches(part)[0] for part in parts])
    stock_loss, stock_gradient = loss_and_gradient(balanced(lengths, settings, stock=True)[0], stock_ranks)
    assert loss == pytest.approx(stock_loss, abs=1e-6)
    assert torch.allclose(gradient, stock_gradient, atol=1e-6)


def test_outputs_come_back_in_the_order_of_the_batch():
    batch, _ = balanced(long_tailed(64, 1, median=150, longest=BUDGET), config(BUDGET))
    for own in of_ranks(batch, DP):
        parts, indices = micro_batches(own)
        outputs = [{"model_output": {"ids": one["input_ids"]}} for one in parts]
        restored = utils.postprocess_batch_func(outputs, indices, own)["model_output"]["ids"]
        assert torch.equal(restored.values(), own["input_ids"].values())


def test_mini_batches_in_the_order_of_the_batch(monkeypatch):
    monkeypatch.setenv("BATCHPLAN_MINI_BATCHES", "in_order")
    batch, _ = balanced(long_tailed(128, 1, median=150, longest=BUDGET), config(BUDGET, mini_batch=32))
    assert [numbers(step) for step in steps(batch, 32)] == [list(range(first, first + 32)) for first in (0, 32, 64, 96)]


def test_batches_that_are_no_plans_are_divided_within_the_budget():
    """Also into groups, a multiple and a least number; of TensorDicts and DataProtos."""
    batch = batch_of(long_tailed(48, 2, median=150, longest=500))
    (own,) = of_ranks(batch, 1)
    least = len(rearrange_micro_batches(own, BUDGET)[0])
    for more in ({}, {"min_num_micro_batch": least + 3}, {"num_batches_divided_by": 5}, {"force_group_size": 3},
                 {"use_dynamic_bsz_balance": False}, {"cost": batchplan.CostModel(1.0)}):
        parts, indices = rearrange_micro_batches(own, BUDGET, **more)
        assert sorted(index for part in indices for index in part) == list(range(48))
        assert [part["number"].tolist() for part in parts] == indices
        assert max(map(tokens, parts)) <= BUDGET
        assert len(parts) >= more.get("min_num_micro_batch", 1)
        assert len(parts) % more.get("num_batches_divided_by", 1) == 0
        together = {index: number for number, part in enumerate(indices) for index in part}
        size = more.get("force_group_size", 1)
        assert all(together[index] == together[index - index % size] for index in range(48))
        of_protos, _ = rearrange_micro_batches(batch, BUDGET, **more)
        assert [part.batch["number"].tolist() for part in of_protos] == indices
        assert isinstance(of_protos[0], DataProto)
    for wrong, message in (({"max_token_len": 20}, "max_token_len is 20; a sequence.* has [0-9]+ tokens"),
                           ({"min_num_micro_batch": 49}, "num_micro_batch is 49.*a rank has 48 sequences"),
                           ({"force_group_size": 5}, "force_group_size is 5; it does not divide")):
        with pytest.raises(ValueError, match=message):
            rearrange_micro_batches(own, **{"max_token_len": BUDGET, **wrong})


@pytest.mark.parametrize("settings, key", [
    (config(BUDGET, use_dynamic_bsz=False), "use_dynamic_bsz"),
    (config(BUDGET, use_prefix_grouper=True), "use_prefix_grouper"),
    (config(BUDGET, use_prefix_grouper=True, use_dynamic_bsz=False), "use_prefix_grouper"),
    (config(BUDGET, mini_batch=32, shuffle=True), "shuffle"),
    (config(None), "ppo_max_token_len_per_gpu"),
])
def test_what_a_plan_can_not_be_kept_with_is_refused_by_name(settings, key):
    with pytest.raises(ValueError, match=rf"actor_rollout_ref\.actor\.{key} is .*unset BATCHPLAN"):
        balanced(long_tailed(64, 1, median=150, longest=BUDGET), settings)


def test_a_shuffle_of_one_mini_batch_changes_nothing():
    batch, _ = balanced(long_tailed(64, 1, median=150, longest=BUDGET), config(BUDGET, mini_batch=64, shuffle=True))
    shuffled = [next(tensordict_utils.make_iterator(own, 16, 1, seed=rank, dataloader_kwargs={"shuffle": True}))
                for rank, own in enumerate(of_ranks(batch, DP))]
    ranks = [micro_batches(own)[0] for own in shuffled]
    assert lockstep(ranks) == lockstep([micro_batches(own)[0] for own in of_ranks(batch, DP)])


def test_a_sequence_beyond_the_budget_is_named_with_verls_setting():
    with pytest.raises(ValueError, match=r"actor\.ppo_max_token_len_per_gpu is 400, .*sequence 7 has 401 tokens"):
        balanced([100] * 7 + [401], config(400))
    with pytest.raises(ValueError, match=r"rollout\.log_prob_max_token_len_per_gpu is 300, .*sequence 7 has 400"):
        balanced([100] * 7 + [400], config(400, log_probs=300))


@pytest.mark.parametrize("name, value", [
    ("BATCHPLAN_COST", "1,x"), ("BATCHPLAN_COST", "1,1,1,1,1,1"), ("BATCHPLAN_EFFORT", "most"),
    ("BATCHPLAN_MINI_BATCHES", "random"), ("BATCHPLAN_LIMIT", "patches=0"), ("BATCHPLAN_LIMIT", "tokens=7"),
    ("BATCHPLAN_LIMIT", "inf"), ("BATCHPLAN_LIMIT", "patches=-3"), ("BATCHPLAN_LOAD_COST", "patches=1:separate")])
def test_variables_are_checked(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=value.rpartition(",")[2]):
        balanced([100] * 8, config(400))


def test_costs_of_the_environment_are_those_of_the_plan(monkeypatch):
    lengths = long_tailed(64, 4, median=150, longest=BUDGET)
    usual, _ = balanced(lengths, config(BUDGET))
    for text, same in (("24576,1", True), ("0,1", False)):
        monkeypatch.setenv("BATCHPLAN_COST", text)
        assert torch.equal(balanced(lengths, config(BUDGET))[0].batch["number"], usual.batch["number"]) == same


@pytest.mark.parametrize("size", [0, 32])
def test_micro_batches_of_every_pass_keep_to_the_limit_of_patches(monkeypatch, size):
    monkeypatch.setenv("BATCHPLAN_LIMIT", "patches=5000")
    settings = config(BUDGET, mini_batch=size, log_probs=2 * BUDGET)
    batch = with_images(batch_of(long_tailed(128, 1, median=150, longest=BUDGET)))
    made = trainer(DP, settings)
    metrics = {}
    made._balance_batch(batch, metrics)
    found = [[micro_batches(part)[0] for part in step] for step in steps(batch, size or 128)]
    largest = max(patches(one) for step in found for rank in step for one in rank)
    assert largest == metrics["batchplan/train_largest_patches"] <= 5000
    for step in found:
        lockstep(step)
    whole = [micro_batches(own, 2 * BUDGET)[0] for own in of_ranks(batch, DP)]
    assert max(tokens(one) for rank in whole for one in rank) > BUDGET
    assert max(patches(one) for rank in whole for one in rank) <= 5000
    # By tokens alone, the same batch is not within it.
    monkeypatch.delenv("BATCHPLAN_LIMIT")
    blind = with_images(batch_of(long_tailed(128, 1, median=150, longest=BUDGET)))
    made._balance_batch(blind, metrics := {})
    wider = [micro_batches(own, 2 * BUDGET)[0] for own in of_ranks(blind, DP)]
    assert max(patches(one) for rank in wider for one in rank) > 5000
    assert "batchplan/train_largest_patches" not in metrics
    monkeypatch.setenv("BATCHPLAN_LIMIT", "patches=500")
    with pytest.raises(ValueError, match="BATCHPLAN_LIMIT has 500 patches; sequence [0-9]+ has [0-9]+"):
        made._balance_batch(blind, {})


def test_the_encoder_is_a_phase_that_ranks_wait_for(monkeypatch):
    per_patch = 24576

    def takes(batch):
        ranks = [micro_batches(own)[0] for own in of_ranks(batch, DP)]
        encoders = sum(max(per_patch * patches(one) for one in slot) for slot in zip(*ranks))
        return encoders + lockstep(ranks)

    def planned():
        batch = with_images(batch_of(long_tailed(128, 2, median=150, longest=BUDGET)))
        trainer(DP, config(BUDGET))._balance_batch(batch, {})
        return takes(batch)

    monkeypatch.setenv("BATCHPLAN_COST", "24576,1")
    blind = planned()
    monkeypatch.setenv("BATCHPLAN_LOAD_COST", f"patches={per_patch}:separate")
    assert planned() < 0.95 * blind


@pytest.mark.parametrize("text", ["patches", "patches=x", "patches=-1", "tokens=1", "patches=1:dealt"])
def test_costs_of_loads_are_checked(monkeypatch, text):
    monkeypatch.setenv("BATCHPLAN_COST", "24576,1")
    monkeypatch.setenv("BATCHPLAN_LOAD_COST", text)
    with pytest.raises(ValueError, match=f'BATCHPLAN_LOAD_COST is "{text}"; must be "patches="'):
        balanced([100] * 8, config(400))


def test_patches_that_are_not_known_are_refused(monkeypatch):
    batch = with_images(batch_of([100] * 8))
    batch.non_tensor_batch["multi_modal_inputs"][5] = {"pixel_values": torch.zeros(1, 3, 4, 4), "image_grid_thw": None}
    trainer(DP, config(400))._balance_batch(batch, {})
    place = next(place for place, one in enumerate(batch.non_tensor_batch["multi_modal_inputs"]) if len(one) == 2
                 and one.get("image_grid_thw", 0) is None)
    monkeypatch.setenv("BATCHPLAN_LIMIT", "patches=5000")
    with pytest.raises(ValueError, match=rf"multi_modal_inputs\[{place}\] has pixels without image_grid_thw"):
        trainer(DP, config(400))._balance_batch(batch, {})
    dynamic = config(400, strategy="megatron", megatron={"dynamic_context_parallel": True})
    checked = _trainers.checked(lambda self, settings: setattr(self, "config", settings), _trainers.check_ray_ppo)
    with pytest.raises(ValueError, match='BATCHPLAN_LIMIT is "patches=5000": with dynamic_context_parallel'):
        checked(types.SimpleNamespace(), dynamic)


def test_budgets_are_multiplied_by_the_ranks_that_share_sequences():
    lengths = long_tailed(64, 4, median=150, longest=BUDGET)
    for settings in (config(800, ulysses_sequence_parallel_size=2),
                     config(800, fsdp_config={"ulysses_sequence_parallel_size": 2}),
                     config(800, strategy="megatron", megatron={"context_parallel_size": 2})):
        batch, _ = balanced(lengths, settings)
        assert "batchplan_train_1600" in batch.batch.keys()
    virtual = config(BUDGET, strategy="megatron", megatron={
        "virtual_pipeline_model_parallel_size": 2, "pipeline_model_parallel_size": 3})
    batch, _ = balanced(lengths, virtual)
    assert all(len(micro_batches(own)[0]) % 3 == 0 for own in of_ranks(batch, DP))


def on_megatron(stages, virtual=1, experts=1, **more):
    return config(BUDGET, strategy="megatron", megatron={
        "pipeline_model_parallel_size": stages, "expert_model_parallel_size": experts,
        "virtual_pipeline_model_parallel_size": virtual if virtual > 1 else None}, **more)


def pipelines_take(ranks, stages, virtual):
    """Until the last rank has ended; a micro-batch with as much beside as 1,024 tokens cost."""
    return max(makespan([cost(one) + 1024 * 24576 for one in rank], stages, virtual) for rank in ranks)


@pytest.mark.parametrize("stages, virtual", [(4, 1), (2, 2)])
@pytest.mark.parametrize("size", [0, 64])
def test_pipelines_run_shorter_than_by_a_plan_of_whole_models(stages, virtual, size):
    times = []
    for seed in range(3):
        lengths = long_tailed(128, seed, median=150, longest=BUDGET)
        of_stages, of_none = (
            steps(balanced(lengths, on_megatron(*machine, mini_batch=size))[0], size or 128)
            for machine in ((stages, virtual), (1, 1)))
        for step, other in zip(of_stages, of_none, strict=True):
            assert numbers(step) == numbers(other)
            ranks, others = ([micro_batches(part)[0] for part in parts] for parts in (step, other))
            assert max(tokens(one) for rank in ranks for one in rank) <= BUDGET
            if virtual == 1 or len(others[0]) % stages == 0:
                times.append([pipelines_take(one, stages, virtual) for one in (ranks, others)])
            assert virtual == 1 or len(ranks[0]) % stages == 0
    planned, whole = map(sum, zip(*times))
    assert planned < whole


def test_pipelines_that_share_experts_wait_for_each_other():
    def waiting(settings):
        ranks = [micro_batches(own)[0] for own in of_ranks(balanced(lengths, settings)[0], DP)]
        return makespan([max(map(cost, slot)) + 1024 * 24576 for slot in zip(*ranks)], 4)

    lengths = long_tailed(128, 1, median=150, longest=BUDGET)
    assert waiting(on_megatron(4, experts=2)) < waiting(on_megatron(4))


@pytest.fixture
def state(monkeypatch):
    """What Megatron-Core says of a process: a pipeline of four stages."""
    made = types.ModuleType("megatron.core.parallel_state")
    group = object()
    made.model_parallel_is_initialized = lambda: True
    made.get_data_parallel_group = lambda: group
    made.get_pipeline_model_parallel_world_size = lambda: 4
    made.get_virtual_pipeline_model_parallel_world_size = lambda: None
    made.get_expert_model_parallel_world_size = made.get_tensor_model_parallel_world_size = lambda: 1
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def test_workers_that_divide_what_they_have_know_their_pipeline(state, monkeypatch):
    group = state.get_data_parallel_group()
    lengths = long_tailed(64, 1, median=150, longest=BUDGET)
    own = of_ranks(batch_of(lengths), DP)
    counts = [sum(len(part) for part in own[:rank]) for rank in range(DP + 1)]
    everyone = [lengths[first:last].astype(numpy.int64) for first, last in zip(counts, counts[1:])]
    monkeypatch.setattr(_micro_batches, "gathering_in", lambda of: lambda found: (found(), everyone))
    monkeypatch.setattr(_micro_batches, "_over_ranks", lambda of: lambda facts: list(facts))

    def divided(of):
        return [rearrange_micro_batches(part, BUDGET, of)[0] for part in own]

    planned, of_another = divided(group), divided(object())
    assert len({len(rank) for rank in planned}) == 1
    assert numbers(part for rank in planned for part in rank) == list(range(64))
    assert pipelines_take(planned, 4, 1) < pipelines_take(of_another, 4, 1)
    state.model_parallel_is_initialized = lambda: False
    assert [[part["number"].tolist() for part in rank] for rank in divided(group)] == [
        [part["number"].tolist() for part in rank] for rank in of_another]


def grouped(lengths, *, dp, cp, tensor, per_rank=400):
    """By verl's own scheduler, which asserts what its groups must be: the samples of each micro-batch's ranks."""
    (data,) = of_ranks(batch_of(lengths), 1)
    scheduler = dynamic_cp_scheduler.DynamicCPScheduler(per_rank, dp, cp)
    ranks = []
    for rank in range(dp * cp):
        group = types.SimpleNamespace(size=lambda: dp * cp, rank=lambda rank=rank: rank)
        parts = scheduler.schedule(data, group, tp_size=tensor)
        ranks.append([part["number"].tolist() for part in parts])
        assert [tensordict_utils.get_non_tensor_data(part, dynamic_cp_scheduler.DCP_SAMPLE_IDS, None)
                for part in parts] == ranks[-1]
    return [list(slot) for slot in zip(*ranks, strict=True)]


@pytest.mark.parametrize("dp, cp, tensor, virtual", [(4, 2, 1, None), (8, 1, 2, None), (3, 2, 1, None), (4, 2, 1, 2)])
def test_groups_that_differ_in_size_are_planned_where_all_ranks_have_the_batch(
        state, monkeypatch, dp, cp, tensor, virtual):
    core = types.ModuleType("megatron.core.datasets.data_schedule")
    core.DefaultDynamicCPScheduler = object
    for name in ("megatron", "megatron.core", "megatron.core.datasets"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, core.__name__, core)
    state.get_tensor_model_parallel_world_size = lambda: tensor
    state.get_virtual_pipeline_model_parallel_world_size = lambda: virtual
    lengths = long_tailed(128, 2, median=150, longest=1500)

    def takes(slots):
        return makespan([max(
            sum(24576 * int(lengths[one]) + int(lengths[one]) ** 2 for one in part) / slot.count(part)
            for part in slot) + 1024 * 24576 for slot in slots], 4, virtual or 1)

    state.get_expert_model_parallel_world_size = lambda: 2
    slots = grouped(lengths, dp=dp, cp=cp, tensor=tensor)
    assert len(slots) % (4 if virtual else 1) == 0
    firsts = [part for slot in slots for rank, part in enumerate(slot) if slot.index(part) == rank]
    assert sorted(one for part in firsts for one in part) == list(range(128))
    for slot in slots:
        for part in slot:
            size = slot.count(part)
            multiple = tensor * (2 * size if size > 1 else 1)
            assert sum(-(-int(lengths[one]) // multiple) * multiple for one in part) <= size * 400
    if dp != 3 and virtual is None:
        state.get_pipeline_model_parallel_world_size = lambda: 1
        assert takes(slots) < takes(grouped(lengths, dp=dp, cp=cp, tensor=tensor))


def test_the_driver_leaves_a_batch_that_all_ranks_get_as_verl_orders_it():
    lengths = long_tailed(64, 1, median=150, longest=BUDGET)
    settings = config(None, use_dynamic_bsz=False, shuffle=True, mini_batch=32, strategy="megatron",
                      megatron={"dynamic_context_parallel": True})
    batch, _ = balanced(lengths, settings)
    stock, _ = balanced(lengths, settings, stock=True)
    assert torch.equal(batch.batch["number"], stock.batch["number"])
    assert batch.batch.keys() == stock.batch.keys()


def test_the_critic_and_the_reference_have_plans_of_their_own():
    settings = config(BUDGET, mini_batch=32)
    settings.actor_rollout_ref.ref = {"strategy": "fsdp", "log_prob_max_token_len_per_gpu": 2000}
    settings.critic = {"strategy": "fsdp", "use_dynamic_bsz": True, "ppo_mini_batch_size": 64,
                       "ppo_max_token_len_per_gpu": 2400, "forward_max_token_len_per_gpu": 2800, "shuffle": False}
    made = trainer(DP, settings)
    made.use_critic = made.use_reference_policy = True
    batch = batch_of(long_tailed(128, 6, median=150, longest=BUDGET))
    made._balance_batch(batch, {})
    for budget in (2000, 2800):
        whole = [micro_batches(own, budget)[0] for own in of_ranks(batch, DP)]
        assert lockstep(whole) < 1.02 * sum(map(cost, of_ranks(batch, DP))) / DP
    for step in steps(batch, 64):
        lockstep([micro_batches(part, 2400)[0] for part in step])
    settings.critic.shuffle = True
    with pytest.raises(ValueError, match="critic.shuffle is True"):
        made._balance_batch(batch, {})


def test_trainers_refuse_when_they_are_made(caplog):
    def made(self, settings):
        self.config = settings

    checked = _trainers.checked(made, _trainers.check_ray_ppo)
    checked(types.SimpleNamespace(), config(BUDGET))
    assert not caplog.text
    off = config(BUDGET)
    off.trainer.balance_batch = False
    checked(types.SimpleNamespace(), off)
    assert "trainer.balance_batch is False" in caplog.text
    with pytest.raises(ValueError, match="actor_rollout_ref.actor.use_dynamic_bsz is False.* set it to True, and "
                                         "actor_rollout_ref.actor.ppo_max_token_len_per_gpu to the tokens"):
        checked(types.SimpleNamespace(), config(BUDGET, use_dynamic_bsz=False))
    for kind in (RayPPOTrainer, trainer_base.PPOTrainer):
        assert hasattr(kind.__init__, "__wrapped__") and hasattr(kind._balance_batch, "__wrapped__")


def test_the_plan_travels_through_a_queue(monkeypatch):
    """The trainers over a TransferQueue, whose batches are keys and tags."""
    queue = pytest.importorskip("transfer_queue")
    put = {}

    def kv_batch_put(keys, partition_id, fields):
        assert partition_id == "train"
        for place, key in enumerate(keys):
            put[key] = {name: fields[name][place] for name in fields.keys()}

    monkeypatch.setattr(trainer_base.tq, "kv_batch_put", kv_batch_put)
    lengths = long_tailed(128, 3, median=150, longest=BUDGET)
    for stock in (False, True):
        keys = [f"key{number}" for number in range(128)]
        batch = queue.KVBatchMeta(keys=keys, tags=[{"seq_len": int(n)} for n in lengths], partition_id="train")
        made = trainer(DP, config(BUDGET, mini_batch=32), QueueTrainer)
        made.critic_warmup = made.global_steps = 0
        made.tokenizer = types.SimpleNamespace(eos_token_id=0)
        made.config.trainer.critic_warmup = 0
        balance = trainer_base.PPOTrainer._balance_batch
        batch = (balance.__wrapped__ if stock else balance)(made, batch, {})
        members = [numpy.array([int(key[3:]) for key in batch.keys]).reshape(DP, 4, 8)[:, one] for one in range(4)]
        found = [sorted(one.reshape(-1).tolist()) for one in members]
        if stock:
            assert found == planned
            break
        planned = found
        data = batch_of(lengths)
        data.reorder(torch.tensor([int(key[3:]) for key in batch.keys]))
        for name in put["key0"]:
            data.batch[name] = torch.stack([put[key][name] for key in batch.keys])
        for step in steps(data, 32):
            ranks = [micro_batches(part)[0] for part in step]
            assert lockstep(ranks) < 1.1 * sum(map(cost, step)) / DP


def test_agent_loops_put_the_patches_among_the_tags(monkeypatch, caplog):
    queue = pytest.importorskip("transfer_queue")
    data = with_images(batch_of(long_tailed(128, 3, median=150, longest=BUDGET)))
    put = {}

    async def async_kv_batch_put(keys, partition_id, fields=None, tags=None):
        put["tags"] = tags

    def tags_of(**variables):
        with monkeypatch.context() as own:
            for name, value in variables.items():
                own.setenv(name, value)
            of_loops = _trainers.TaggingQueue(types.SimpleNamespace(async_kv_batch_put=async_kv_batch_put, init=len))
            fields = tensordict_utils.list_of_dict_to_tensordict(
                [{"multi_modal_inputs": one} for one in data.non_tensor_batch["multi_modal_inputs"]])
            tags = [{"seq_len": int(n)} for n in data.batch["attention_mask"].sum(-1)]
            asyncio.run(of_loops.async_kv_batch_put(keys=list(map(str, range(128))), fields=fields, tags=tags, partition_id="train"))
            assert of_loops.init is len
        return put["tags"]

    assert "tq" in vars(agent_loop_tq) and isinstance(agent_loop_tq.tq, _trainers.TaggingQueue)
    assert all(tag.keys() == {"seq_len"} for tag in tags_of())
    tags = tags_of(BATCHPLAN_LIMIT="patches=5000")
    own = [patches({"multi_modal_inputs": [one]}) for one in data.non_tensor_batch["multi_modal_inputs"]]
    assert [tag["batchplan_patches"] for tag in tags] == own and max(own) > 2000

    monkeypatch.setenv("BATCHPLAN_LIMIT", "patches=5000")
    monkeypatch.setattr(trainer_base.tq, "kv_batch_put", lambda keys, partition_id, fields: put.update(fields=fields))
    made = trainer(DP, config(BUDGET, mini_batch=128), QueueTrainer)
    made.critic_warmup = made.global_steps = 0
    made.config.trainer.critic_warmup = 0
    made.tokenizer = types.SimpleNamespace(eos_token_id=0)
    batch = queue.KVBatchMeta(keys=list(map(str, range(128))), tags=tags, partition_id="train")
    batch = made._balance_batch(batch, {})
    data.reorder(torch.tensor(list(map(int, batch.keys))))
    for name in put["fields"].keys():
        data.batch[name] = put["fields"][name]
    ranks = [micro_batches(own)[0] for own in of_ranks(data, DP)]
    lockstep(ranks)
    assert max(patches(one) for rank in ranks for one in rank) <= 5000
    # What fills a batch up has no images; what other loops put has no such tag.
    assert _trainers.tagged_patches([{"is_padding": True, "batchplan_patches": 7}, {"batchplan_patches": 3}]).tolist() == [0, 3]
    put.clear()
    bare = queue.KVBatchMeta(
        keys=list(map(str, range(128))), tags=[{"seq_len": tag["seq_len"]} for tag in tags], partition_id="train")
    made._balance_batch(bare, {})
    assert not put and "a sequence has no batchplan_patches tag" in caplog.text


class QueueTrainer(trainer_base.PPOTrainer):
    on_sample_end = on_step_end = None


def test_batches_of_the_sft_trainer_are_planned_on_their_way(monkeypatch):
    sent = []
    dispatch = _trainers.dispatch_planned(functools.partial(lambda mesh, group, data: sent.append(data), "train"))
    group = Workers(DP)
    group._query_dispatch_info = lambda mesh: [0, 0, 1, 1, 2, 2, 3, 3]
    engine = types.SimpleNamespace(strategy="fsdp", ulysses_sequence_parallel_size=2)
    group.ray_cls_with_init = types.SimpleNamespace(
        kwargs={"config": types.SimpleNamespace(engine_config=engine)})
    (data,) = of_ranks(batch_of(long_tailed(128, 2, median=150, longest=BUDGET)), 1)
    dispatch(group, for_micro_batches(data, BUDGET // 2))
    ranks = [micro_batches(own)[0] for own in tensordict_utils.chunk_tensordict(sent[0], DP)]
    assert numbers([one for rank in ranks for one in rank]) == list(range(128))
    assert lockstep(ranks) < 1.02 * cost(data) / DP
    assert max(tokens(one) for rank in ranks for one in rank) <= BUDGET
    with pytest.raises(ValueError, match="data.use_dynamic_bsz is False.* and data.max_token_len_per_gpu to the tokens"):
        dispatch(group, tensordict_utils.assign_non_tensor(data, use_dynamic_bsz=False))
    (images,) = of_ranks(with_images(batch_of(long_tailed(128, 2, median=150, longest=BUDGET))), 1)
    monkeypatch.setenv("BATCHPLAN_LIMIT", "patches=5000")
    dispatch(group, for_micro_batches(images, BUDGET // 2))
    parts = tensordict_utils.chunk_tensordict(sent[-1], DP)
    assert max(patches(one) for own in parts for one in micro_batches(own)[0]) <= 5000
    engine.dynamic_context_parallel = True
    dispatch(group, data)
    assert sent[-1] is data
    registered = next(value for name, value in vars(TrainingWorker.train_batch).items() if name.startswith("attrs_"))
    assert registered["dispatch_mode"]["dispatch_fn"].__module__ == dispatch.__module__


HERE = pathlib.Path(__file__).parent


def test_two_ranks_take_the_same_way_whatever_happened_to_their_parts(tmp_path):
    """Also that verl loads the plugin, in processes of its own."""
    made = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone",
         HERE / "verl_ranks.py", tmp_path / "found.json"],
        env={**os.environ, "BATCHPLAN": "1"}, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-4000:]
    found = json.loads((tmp_path / "found.json").read_text())
    for case in ("planned", "reordered"):
        assert all(all(rank["planned"]) for rank in found[case]), case
    for case in ("planned", "reordered", "no field on one", "no field", "one left out", "one repeated", "exchanged",
                 "another budget", "groups"):
        first, second = found[case]
        assert len(first["tokens"]) == len(second["tokens"]), case
        budget = 3200 if case in ("another budget", "groups") else 1600
        assert max(first["tokens"] + second["tokens"]) <= budget, case
        if case not in ("planned", "reordered"):
            assert not (all(first["planned"]) and all(second["planned"])), case
    for case, message in (("too long on one", "max_token_len is 600; a sequence"),
                          ("too few on one", "a rank has 1 sequences"),
                          ("torn groups on one", "force_group_size is 2; it does not divide")):
        assert all(message in rank["error"] for rank in found[case]), case
    # Without the limit, some have more.
    assert max(max(rank["patches"]) for rank in found["planned"]) > 2000
    for case in ("a limit that the plan did not have", "a plan within the limit", "no field, a limit", "groups, a limit"):
        first, second = found[case]
        assert len(first["tokens"]) == len(second["tokens"]), case
        assert max(first["patches"] + second["patches"]) <= 2000, case
        assert all(all(rank["planned"]) for rank in found[case]) == (case == "a plan within the limit"), case
    # As the driver's variables should be the workers', these only go on.
    for case, limits in (("another limit on one", (2000, 2000)), ("no limit on one", (1e9, 2000))):
        assert all(max(rank["patches"]) <= limit for rank, limit in zip(found[case], limits)), case
        assert len({len(rank["tokens"]) for rank in found[case]}) == 1, case
    for rank in found["too many patches on one"]:
        assert "BATCHPLAN_LIMIT has 500 patches; a sequence" in rank["error"]
    unknown, other = found["unknown patches on one"][::-1]
    assert "multi_modal_inputs[0] has pixels without image_grid_thw" in unknown["error"]
    assert "another rank" in other["error"]
    wrong, other = found["wrong variable on one"]
    assert 'BATCHPLAN_COST is "1,x"' in wrong["error"] and "another rank" in other["error"]
    assert "sequences were left out, repeated or exchanged since" in made.stderr


def test_verl_is_left_alone_unless_asked():
    program = """
import sys
import verl.utils.seqlen_balancing as stock
print([name for name in sys.modules if name.split(".")[0] == "batchplan"], stock.rearrange_micro_batches.__module__)
"""
    environment = {name: value for name, value in os.environ.items() if name != "BATCHPLAN"}
    made = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert made.stdout == "[] verl.utils.seqlen_balancing\n", made.stderr


def test_the_switch_is_1_or_0(monkeypatch):
    for value, on in (("1", True), ("0", False), ("", False), (" 1 ", True)):
        monkeypatch.setenv("BATCHPLAN", value)
        assert switched_on() == on
    monkeypatch.setenv("BATCHPLAN", "yes")
    with pytest.raises(ValueError, match='BATCHPLAN is "yes"; must be 1, or 0 for off'):
        switched_on()


def test_a_verl_that_is_another_is_named():
    from batchplan.integrations.verl import _patches

    with pytest.raises(ImportError, match="verl.fake of verl .* has no rearrange_micro_batches.*Unset BATCHPLAN"):
        _patches._micro_batches(types.ModuleType("verl.fake"))


def test_verls_modules_have_the_functions_that_replace_theirs():
    assert utils.rearrange_micro_batches is seqlen_balancing.rearrange_micro_batches is rearrange_micro_batches
