"""batchplan.integrations.areal: its functions, and small controllers and engines of the names that get them."""

import asyncio
import importlib
import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations import areal
from lengths import assert_each_once, lockstep, long_tailed


def spec_of(max_tokens_per_mb=None, n_mbs=1, n_mbs_divisor=1):
    """A MicroBatchSpec."""
    return types.SimpleNamespace(
        max_tokens_per_mb=max_tokens_per_mb, n_mbs=n_mbs, n_mbs_divisor=n_mbs_divisor, granularity=1)


def items_of(lengths, rows=1):
    """Trajectories, each of so many sequences."""
    torch = pytest.importorskip("torch")
    return [
        {"attention_mask": (torch.arange(max(lengths) + 1)[None] < torch.tensor(lengths[begin : begin + rows])[:, None])}
        for begin in range(0, len(lengths), rows)
    ]


def divided(monkeypatch, ranks, spec):
    """What each of the ranks gets, by one group."""
    everyone = [numpy.maximum(rank, 1) for rank in ranks]
    monkeypatch.setattr(areal, "gathering_in", lambda group: lambda lengths: (lengths(), everyone))
    return [areal.allocate_balanced_mbs_synced(spec, numpy.array(rank)) for rank in ranks]


@pytest.mark.parametrize("seed", range(3))
def test_ranks_and_micro_batches_are_alike(seed, monkeypatch):
    lengths = long_tailed(256, seed)
    step_times = []
    # AReaL's greedy dispatch by tokens, and ours.
    greedy = [[] for _ in range(8)]
    for index in sorted(range(256), key=lambda index: -lengths[index]):
        least = (rank for rank in greedy if len(rank) < 32)
        min(least, key=lambda rank: sum(lengths[i] for i in rank)).append(index)
    for ranks in (greedy, areal.dispatch_tensors(items_of(lengths), 8, max_tokens_per_mb=8192)[1]):
        assert_each_once(ranks, 256)
        assert {len(rank) for rank in ranks} == {32}
        parts = divided(monkeypatch, [[lengths[i] for i in rank] for rank in ranks], spec_of(8192))
        micro_batches = [[[rank[i] for i in part] for part in own] for rank, own in zip(ranks, parts)]
        assert_each_once([part for own in micro_batches for part in own], 256)
        assert max(sum(lengths[i] for i in part) for own in micro_batches for part in own) <= 8192
        assert len({len(own) for own in micro_batches}) == 1
        step_times.append(lockstep(lengths, zip(*micro_batches)))
    assert step_times[1] < step_times[0]


@pytest.mark.parametrize("max_tokens_per_mb", [None, 2048])
def test_trajectories_that_belong_together_go_to_one_rank(max_tokens_per_mb):
    lengths = long_tailed(128, 1, longest=2048)
    items = items_of(lengths, rows=2)
    splits, indices = areal.dispatch_tensors(items, 4, 2, max_tokens_per_mb=max_tokens_per_mb)
    assert_each_once(indices, 64)
    for split, rank in zip(splits, indices):
        assert len(rank) == 16 and all(item is items[index] for item, index in zip(split, rank))
        assert all(rank[place + 1] == rank[place] + 1 and rank[place] % 2 == 0 for place in range(0, 16, 2))


def test_dispatch_is_by_cost_where_there_is_no_budget():
    lengths = long_tailed(128, 2)
    for cost in (batchplan.CostModel(1.0), batchplan.CostModel(0.0, 1.0)):
        ranks = areal.dispatch_tensors(items_of(lengths), 4, cost=cost)[1]
        costs = [sum(cost.per_token * lengths[i] + cost.per_token_squared * lengths[i] ** 2 for i in rank) for rank in ranks]
        assert max(costs) < 1.01 * min(costs)


def test_trajectories_on_other_machines_are_as_long_as_they_are_wide():
    torch = pytest.importorskip("torch")

    def remote(*shape):
        return types.SimpleNamespace(data=torch.empty(shape, device="meta"))

    items = [{"attention_mask": remote(1, width)} for width in (90, 10, 20, 80)]
    assert sorted(areal.dispatch_tensors(items, 2)[1]) == [[0, 1], [2, 3]]
    without = [{"label": remote(1), "tokens": remote(1, width)} for width in (90, 10, 20, 80)]
    assert sorted(areal.dispatch_tensors(without, 2)[1]) == [[0, 1], [2, 3]]
    # What no engine can take is not the controller's to refuse.
    assert areal.dispatch_tensors(items, 2, max_tokens_per_mb=50)[1]
    assert areal.dispatch_tensors([{"label": 1}, {"label": 2}], 2)[1] in ([[0], [1]], [[1], [0]])


def tree_items():
    """Trajectories of 270, 260, 250 and 100 tokens. The sequences of the first share 80 and are a tree of 110."""
    torch = pytest.importorskip("torch")
    made = []
    for width, rows in ((90, 3), (260, 1), (250, 1), (100, 1)):
        ids = torch.arange(width).repeat(rows, 1)
        ids[:, 80:] += torch.arange(rows)[:, None] * 1000
        made.append({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    return made


def test_ranks_are_alike_in_the_tokens_of_trees():
    items = tree_items()
    assert sorted(areal.dispatch_tensors(items, 2, max_tokens_per_mb=512, trees=True)[1]) == [[0, 2], [1, 3]]
    # In all tokens without trees, and where they are on another machine.
    assert sorted(areal.dispatch_tensors(items, 2, max_tokens_per_mb=512)[1]) == [[0, 3], [1, 2]]
    items[1]["input_ids"] = types.SimpleNamespace(data=items[1]["input_ids"])
    assert sorted(areal.dispatch_tensors(items, 2, max_tokens_per_mb=512, trees=True)[1]) == [[0, 3], [1, 2]]


def test_numbers_that_do_not_divide_are_named():
    items = [{"label": 1}] * 6
    for arguments, message in (
        ((items, 4), "6 trajectories; their number must be divisible by dp_size times group_size, 4 times 1"),
        ((items, 2, 2), "divisible by dp_size times group_size, 2 times 2"),
        ((items, 2, 4), "divisible by group_size, 4"),
        (([], 2), "item_list has 0 trajectories"),
        ((items, 0), "dp_size is 0; must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            areal.dispatch_tensors(*arguments)


def test_mini_batches_without_a_budget_are_alike(monkeypatch):
    lengths = long_tailed(128, 3)
    ranks = [lengths[:64], lengths[64:]]
    for spec in (spec_of(None, 4), spec_of(10**12, 3, 2)):
        for rank, parts in zip(ranks, divided(monkeypatch, ranks, spec)):
            assert_each_once(parts, 64)
            costs = [sum(24576 * rank[i] + rank[i] ** 2 for i in part) for part in parts]
            assert {len(part) for part in parts} == {16} and max(costs) < 1.05 * min(costs)
    (uneven,) = divided(monkeypatch, [lengths[:62]], spec_of(None, 4))
    assert_each_once(uneven, 62)
    assert len(uneven) == 4


def test_ranks_of_unequal_numbers_have_as_many_micro_batches(monkeypatch):
    ranks = [[8, 8, 8, 8, 0], [8, 8, 8, 8]]
    parts = divided(monkeypatch, ranks, spec_of(16, 2, 2))
    assert [len(own) for own in parts] == [4, 4]
    for rank, own in zip(ranks, parts):
        assert_each_once(own, len(rank))
        assert max(sum(max(rank[i], 1) for i in part) for part in own) <= 16
    with pytest.raises(ValueError, match="max_tokens_per_microbatch .*is 16.*sequence 1 of rank 0 has 17 tokens"):
        divided(monkeypatch, [[16, 17]], spec_of(16))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_budget_above_all_tokens_is_none(rows):
    items = items_of([9, 1, 2, 8, 3, 4, 5, 6], rows)
    unlimited, of_all = (
        areal.dispatch_tensors(items, 2, max_tokens_per_mb=budget)[1] for budget in (10**12, 38))
    assert unlimited == of_all


class TrainController:
    def __init__(self, config):
        self.config = config
        self.engines = []

    def _partition_inputs(self, group_size, /, *args, **kwargs):
        return sys.modules["areal.infra.controller.train_controller"]._dispatch_tensors(args[0], 2, group_size=group_size)

    async def _async_create_engines(self, engine):
        self.engines.append(engine)


class Engine:
    pass


def test_installed_it_dispatches_and_reaches_the_engines(monkeypatch):
    def module(name, **members):
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    def stock():
        raise AssertionError("AReaL's own")

    def dispatch(item_list, dp_size, group_size):
        return "AReaL's own"

    for name in ("areal", "areal.infra", "areal.infra.controller", "areal.utils"):
        module(name)
    kind = type("TrainController", (), dict(vars(TrainController)))
    module("areal.infra.controller.train_controller", _dispatch_tensors=dispatch, TrainController=kind)
    other = module("areal.experimental", _dispatch_tensors=dispatch)
    gateways = module("areal.experimental.training_service.controller.controller")
    gateways.GatewayTrainController = type("GatewayTrainController", (), {})
    data = module("areal.utils.data", allocate_balanced_mbs_synced=stock)
    module("areal.engines", Engine=Engine)

    cost = batchplan.CostModel(3.0)
    areal.install()
    areal.install(cost=cost)
    assert other._dispatch_tensors([{"label": 1}, {"label": 2}], 2)[1]
    assert data.allocate_balanced_mbs_synced(spec_of(None, 2), [1, 2]) in ([[0], [1]], [[1], [0]])

    controller = kind(types.SimpleNamespace(mb_spec=spec_of(4096), enable_tree_training=False))
    seen = []
    monkeypatch.setattr(areal, "_ranks_of_plan", lambda groups, dp, budget, cost: seen.append((budget, cost)) or [[0], [1]])
    assert controller._partition_inputs(1, items_of([3, 5]))[1] == [[0], [1]]
    assert seen == [(4096, cost)]
    controller.config.enable_tree_training = True
    items = tree_items()
    assert sorted(controller._partition_inputs(1, items)[1]) == [[0, 2], [1, 3]]
    items[2]["input_ids"] = types.SimpleNamespace(data=items[2]["input_ids"])
    assert controller._partition_inputs(1, items) == "AReaL's own"
    assert seen == [(4096, cost)]

    # As a worker finds the class that a controller names.
    asyncio.run(controller._async_create_engines("areal.engines.Engine"))
    where, _, name = controller.engines[0].rpartition(".")
    data.allocate_balanced_mbs_synced = stock
    assert getattr(importlib.import_module(where), name) is Engine
    assert data.allocate_balanced_mbs_synced is not stock
    with pytest.raises(AttributeError):
        importlib.import_module(where).nothing
    # One that dispatches where it does not reach.
    of_actor = type("PPOActorControllerV2", (gateways.GatewayTrainController,), {})
    with pytest.raises(batchplan.FailedPrecondition, match='_version is "v2", whose PPOActorControllerV2 dispatches in'):
        of_actor(train_engine=Engine, config={})
