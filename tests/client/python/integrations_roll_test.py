"""batchplan.integrations.roll: ROLL's functions, and the plan that travels with the batch. Cluster and the packer are
small classes of the same interface here."""

import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations import roll
from lengths import assert_each_once, lockstep, long_tailed
from roll_batches import DataProto, batch_of, config_of, indices_of

EXAMPLE = [7, 6, 8, 5, 1, 3, 8, 6]


@pytest.mark.parametrize("cp_size, tp_size, multiple", [
    (1, 1, 16), (1, 8, 16), (1, 24, 48), (2, 1, 16), (2, 4, 16), (2, 8, 32), (3, 1, 48)])
def test_rows_keep_the_capacity_as_roll_aligns_their_sequences(cp_size, tp_size, multiple):
    assert roll.pad_factor(cp_size, tp_size) == multiple
    # 56 sequences that are 56 x 18 tokens with an alignment of two, and 1,792 with ROLL's.
    rows = roll.load_balance([17] * 56, 1024, cp_size=cp_size, tp_size=tp_size)
    assert_each_once(rows, 56)
    assert max(len(row) * -(-17 // multiple) * multiple for row in rows) <= 1024


@pytest.mark.parametrize("seed", range(5))
def test_rows_keep_the_capacity_in_the_number_agreed_on(seed):
    lengths = long_tailed(200, seed)
    rows = roll.load_balance(lengths, 4096, cp_size=2, tp_size=8, num_batches_divided_by=4, agree=lambda n: max(n, 36))
    assert_each_once(rows, 200)
    assert max(sum(-(-lengths[i] // 32) * 32 for i in row) for row in rows) <= 4096
    assert len(rows) == 36


def test_rows_are_alike_in_the_cost_that_is_given():
    lengths = long_tailed(100, 1, longest=1500)
    dearest = {}
    for power in (1, 2):
        cost = batchplan.CostModel(float(power == 1), float(power == 2))
        rows = roll.load_balance(lengths, 8192, cost=cost, min_num_micro_batches=12)
        dearest[power] = [max(sum(lengths[i] ** by for i in row) for row in rows) for by in (1, 2)]
    assert dearest[1][0] < dearest[2][0] and dearest[2][1] < dearest[1][1]


def test_parallel_sizes_are_named():
    with pytest.raises(ValueError, match="tp_size is 0; must be at least 1"):
        roll.pad_factor(1, 0)
    with pytest.raises(ValueError, match="dp_size is 0"):
        roll.plan_dynamic_batching(EXAMPLE, 0, 10, 2)


def test_dynamic_batching_keeps_its_rule():
    """The example of ROLL's documentation, with what its rule makes of it."""
    sharded = roll.plan_dynamic_batching(EXAMPLE, 2, 10, 2)
    assert [sorted(EXAMPLE[i] for i in sharded.order[rank * 4 :][:4]) for rank in range(2)] == [
        [1, 5, 6, 8], [3, 6, 7, 8]]
    assert sharded.micro_batch_lengths == [4, 6, 8, 8]
    assert sharded.micro_batch_indices == [[0, 1], [1, 2], [2, 3], [3, 4]]
    wider = roll.plan_dynamic_batching(EXAMPLE, 2, 12, 2)
    padded = [(end - begin) * width for (begin, end), width in zip(
        wider.micro_batch_indices, wider.micro_batch_lengths)]
    assert 2 * sum(padded) == 2 * wider.scheduled_tokens() == 56 and max(padded) <= 12


@pytest.mark.parametrize("seed", range(5))
def test_shards_are_cut_alike_within_the_budget(seed):
    lengths = long_tailed(240, seed)
    sharded = roll.plan_dynamic_batching(lengths, 8, 8192, 64)
    assert_each_once([sharded.order], 240)
    for rank in range(8):
        shard = sharded.order[rank * 30 : rank * 30 + 30]
        for (begin, end), width in zip(sharded.micro_batch_indices, sharded.micro_batch_lengths):
            assert max(lengths[i] for i in shard[begin:end]) <= width
            assert width % 64 == 0 and (end - begin) * width <= 8192
    assert sharded.micro_batch_indices[0][0] == 0 and sharded.micro_batch_indices[-1][1] == 30
    assert sharded.meta_info()["num_micro_batchs"] == len(sharded.micro_batch_lengths)


def test_padded_rows_are_padded_on_every_rank():
    """Also those of ranks whose sequences are all as long as the row."""
    plan = batchplan.plan([8, 8, 4, 5, 8, 8, 3, 4], dp=2, max_tokens=16, preset="roll_dynamic")
    for rank in range(2):
        for one in plan.rank(rank):
            assert one.padded and one.cu_seqlens_padded.tolist() == [one.width * n for n in range(len(one) + 1)]


def test_virtual_pipelines_have_as_many_microbatches_as_stages_divide():
    sharded = roll.plan_dynamic_batching(long_tailed(96, 3), 2, 16384, 64, 4, 2)
    assert len(sharded.micro_batch_indices) % 4 == 0
    with pytest.raises(ValueError, match="7"):
        roll.plan_dynamic_batching(EXAMPLE[:7], 2, 10, 2)


def run_ranks(ranks, capacity, is_train=True, **config):
    """[ranks][micro-batches] of indices, where the ranks of a process group agree."""
    made = [
        list(roll.make_micro_batch_iter_for_sequence_packing(
            rank, 1, 1, 1, is_train, None, None, config_of(capacity, capacity, **config)))
        for rank in ranks
    ]
    for rows in made:
        assert [row.meta_info["num_micro_batchs"] for row in rows] == [len(rows)] * len(rows)
        assert [row.meta_info["micro_batch_idx"] for row in rows] == list(range(len(rows)))
        assert [row.meta_info["partition_indices"] for row in rows] == rows[0].meta_info["partition_indices_list"]
    return [[indices_of(row) for row in rows] for rows in made]


def test_a_shard_of_a_batch_comes_with_its_micro_batches_and_metrics():
    batch = batch_of(EXAMPLE)
    sharded, metrics = roll.dynamic_batching_shard(batch, 2, 10, 2, log_prefix="actor_train/train_step")
    plan = roll.plan_dynamic_batching(EXAMPLE, 2, 10, 2)
    assert indices_of(sharded) == plan.order and indices_of(batch) == list(range(8))
    assert sharded.meta_info == {"global_step": 1, **plan.meta_info()} and batch.meta_info == {"global_step": 1}
    prefix = "dynamic_batching/actor_train/train_step"
    assert metrics == {
        f"{prefix}/valid_tokens": 44, f"{prefix}/actual_tokens_origin": 88, f"{prefix}/actual_tokens": 52,
        f"{prefix}/removed_padding_tokens": 36, f"{prefix}/removed_padding_ratio": 36 / 88}


def test_rows_without_a_token_are_planned_with_a_warning():
    lengths = [5, 0, 3, 0]
    with pytest.warns(UserWarning, match="zero in 2 of 4 rows of train; each is planned as one token"):
        sharded, metrics = roll.dynamic_batching_shard(batch_of(lengths), 2, 10, 2, log_prefix="train")
    assert sorted(indices_of(sharded)) == [0, 1, 2, 3]
    assert metrics["dynamic_batching/train/valid_tokens"] == 8
    with pytest.warns(UserWarning, match="zero in 2 of 4 rows; each"):
        roll.batch_balance(batch_of(lengths), 2, 4)


@pytest.mark.parametrize("keep_minibatch", [False, True])
def test_ranks_are_balanced_by_sequences_of_equal_number(keep_minibatch):
    lengths = long_tailed(256, 1)
    batch = batch_of(lengths)
    metrics = roll.batch_balance(batch, 8, 128, "of_step", keep_minibatch)
    ranks = [indices_of(rank) for rank in batch.chunk(8)]
    assert_each_once(ranks, 256)
    if keep_minibatch:
        assert all(sum(index < 128 for index in rank) == 16 for rank in ranks)
    tokens = [sum(lengths[i] for i in rank) for rank in ranks]
    first = [sum(lengths[begin : begin + 32]) for begin in range(0, 256, 32)]
    assert metrics == {
        "of_step/min": min(first), "of_step/max": max(first), "of_step/minmax_diff": max(first) - min(first),
        "of_step/balanced_min": min(tokens), "of_step/balanced_max": max(tokens),
        "of_step/mean": sum(lengths) / 8}
    assert max(tokens) - min(tokens) < (max(first) - min(first)) / (4 if keep_minibatch else 10)
    for rank in ranks:
        middle = max(range(32), key=lambda place: lengths[rank[place]])
        own = [lengths[i] for i in rank]
        assert own[: middle + 1] == sorted(own[: middle + 1]) and own[middle:] == sorted(own[middle:], reverse=True)


@pytest.mark.parametrize("seed", range(3))
def test_ranks_and_rows_of_one_plan_are_alike_at_every_step(seed):
    lengths = long_tailed(256, seed)
    by_itself, joint = batch_of(lengths), batch_of(lengths)
    roll.batch_balance(by_itself, 8, 256)
    roll.batch_balance(joint, 8, 256, packings=[roll.Packing(4096), roll.Packing(8192, is_train=False)])
    least = max(len(rows) for rows in run_ranks(by_itself.chunk(8), 4096))
    apart = run_ranks(by_itself.chunk(8), 4096, least=least)
    for is_train, capacity in ((True, 4096), (False, 8192)):
        together = run_ranks(joint.chunk(8), capacity, is_train)
        assert_each_once([row for rank in together for row in rank], 256)
        assert {sum(map(len, rank)) for rank in together} == {32} and len({len(rank) for rank in together}) == 1
        assert max(sum(-(-lengths[i] // 16) * 16 for i in row) for rank in together for row in rank) <= capacity
        if is_train:
            assert lockstep(lengths, zip(*together)) < 0.99 * lockstep(lengths, zip(*apart))


def test_rows_are_the_ranks_own_where_no_plan_is_whole():
    lengths = long_tailed(64, 2)
    batch = batch_of(lengths)
    roll.batch_balance(batch, 4, 64, packings=[roll.Packing(4096)])
    planned = run_ranks(batch.chunk(4), 4096)
    # Another capacity, other ranks, no plan: each within the budget all the same.
    for other, capacity in ((batch, 5000), (batch_of(lengths), 4096), (batch.select_idxs(list(range(63, -1, -2))), 4096)):
        rows = run_ranks(other.chunk(4), capacity)
        assert_each_once([[indices_of(other).index(i) for i in row] for rank in rows for row in rank], len(other))
        assert max(sum(-(-lengths[i] // 16) * 16 for i in row) for rank in rows for row in rank) <= capacity
    # Ranks in another order, and rows of a rank, have whole ones.
    assert run_ranks(batch.chunk(4)[::-1], 4096) == planned[::-1]
    turned = [rank.select_idxs(list(range(15, -1, -1))) for rank in batch.chunk(4)]
    assert [[sorted(row) for row in rank] for rank in run_ranks(turned, 4096)] == [
        [sorted(row) for row in rank] for rank in planned]
    # A batch that is balanced anew, for one that packs nothing, has no plan left.
    roll.batch_balance(batch, 4, 64)
    assert batch.batch.keys() == {"attention_mask", "index"} and "batchplan" not in batch.meta_info


def test_a_rank_whose_plan_is_broken_has_all_ranks_do_without(monkeypatch):
    lengths = [600, 500, 400, 300, 200, 100, 90, 80]
    batch = batch_of(lengths)
    roll.batch_balance(batch, 2, 8, packings=[roll.Packing(1024)])
    numbers = []

    def agreement_in(group):
        return lambda number: numbers.append(number) or max(number, 0)

    monkeypatch.setattr(sys.modules["batchplan.integrations.roll._packing"], "agreement_in", agreement_in)
    rows = run_ranks(batch.chunk(2)[:1], 1024)
    assert len(numbers) == 2 and numbers == [numbers[0], -numbers[0]]
    assert sorted(index for row in rows[0] for index in row) == sorted(indices_of(batch)[:4])


def chosen(batch, rows):
    """Those rows, with an index for each."""
    torch = pytest.importorskip("torch")
    own = batch.select_idxs(rows)
    own.batch["index"] = torch.arange(len(rows))
    return own


def test_rows_that_are_not_the_planned_ones_are_divided_anew_within_the_capacity():
    lengths = [896, 128, 64, 960, 512, 512, 320, 704]
    batch = batch_of(lengths)
    roll.batch_balance(batch, 2, 8, packings=[roll.Packing(1024)])
    (rank, _) = batch.chunk(2)
    tokens = [lengths[i] for i in indices_of(rank)]
    dear, cheap = tokens.index(max(tokens)), tokens.index(min(tokens))
    # One twice, one in the place of another, and one left out.
    for rows in ([0, 1, 2, 3, dear], [dear if row == cheap else row for row in range(4)], [0, 1, 2]):
        (made,) = run_ranks([chosen(rank, rows)], 1024)
        assert_each_once(made, len(rows))
        assert max(sum(tokens[rows[i]] for i in row) for row in made) <= 1024
    # A plan holds no longer where sequences have become longer.
    longer = chosen(rank, [0, 1, 2, 3])
    longer.batch["attention_mask"] = 1 + 0 * longer.batch["attention_mask"]
    (made,) = run_ranks([longer], 1024)
    assert sorted(map(len, made)) == [1, 1, 1, 1]


def test_ranks_without_a_plan_make_one_of_their_rows(monkeypatch):
    lengths = long_tailed(256, 2)
    batch = batch_of(lengths)
    roll.batch_balance(batch, 8, 256)
    ranks = [numpy.array([lengths[i] for i in indices_of(rank)]) for rank in batch.chunk(8)]
    least = max(len(rows) for rows in run_ranks(batch.chunk(8), 4096))
    apart = run_ranks(batch.chunk(8), 4096, least=least)
    monkeypatch.setattr(
        sys.modules["batchplan.integrations.roll._packing"], "gathering_in",
        lambda group: lambda lengths: (lengths(), ranks))
    together = run_ranks(batch.chunk(8), 4096)
    assert_each_once([row for rank in together for row in rank], 256)
    assert max(sum(-(-lengths[i] // 16) * 16 for i in row) for rank in together for row in rank) <= 4096
    assert lockstep(lengths, zip(*together)) < 0.99 * lockstep(lengths, zip(*apart))


def test_sizes_that_do_not_divide_and_configs_without_a_capacity_are_named():
    batch = batch_of([8] * 12)
    for arguments, message in (
        ((2, 5), "minibatch_size is 5; must divide the batch, of 12 sequences"),
        ((4, 6), "dp_size is 4; must divide minibatch_size, 6"),
        ((0, 6), "dp_size is 0; must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            roll.batch_balance(batch, *arguments)
    with pytest.raises(ValueError, match="max_packed_sequence_length_forward is None"):
        list(roll.make_micro_batch_iter_for_sequence_packing(batch, 1, 1, 1, False, config=config_of(64)))
    with pytest.raises(ValueError, match=r"max_tokens_per_microbatch .*is 15"):
        roll.batch_balance(batch, 2, 12, packings=[roll.Packing(15)])


class LoadBalancePacker:
    def __init__(self, config):
        self.config = config

    def make_micro_batch_iter_for_sequence_packing(self, mini_batch, tp_size, cp_size, vp_size, is_train=False,
                                                   dp_group=None, micro_batch_size=None):
        raise AssertionError("ROLL's own packer")


class Worker:
    def __init__(self, worker_config):
        self.worker_config = worker_config


class Cluster:
    def __init__(self, name, worker_cls, resource_manager, worker_config):
        self.name, self.worker_cls, self.worker_config = name, worker_cls, worker_config
        self.dp_size, self.tp_size, self.cp_size, self.vp_size = 4, 1, 1, None


@pytest.fixture
def trainer(monkeypatch):
    """Modules by the names of ROLL's; those that use a function have it by its value."""

    def module(name, **members):
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    for name in ("roll", "roll.utils", "roll.distributed", "roll.distributed.scheduler", "roll.distributed.executor"):
        module(name)

    def batch_balance():
        raise AssertionError("ROLL's own batch_balance")

    def dynamic_batching_shard():
        raise AssertionError("ROLL's own dynamic_batching_shard")

    def copy_of(kind):
        return type(kind.__name__, (), dict(vars(kind)))

    own = types.SimpleNamespace(packer=copy_of(LoadBalancePacker), proto=copy_of(DataProto), cluster=copy_of(Cluster))
    module("roll.utils.functionals", batch_balance=batch_balance)
    module("roll.utils.dynamic_batching", dynamic_batching_shard=dynamic_batching_shard)
    module("roll.utils.sequence_packing", LoadBalancePacker=own.packer)
    module("roll.distributed.scheduler.protocol", DataProto=own.proto)
    module("roll.distributed.executor.cluster", Cluster=own.cluster)
    module("roll.workers", Worker=Worker)
    own.pipeline = module("roll.pipeline", batch_balance=batch_balance, dynamic_batching_shard=dynamic_batching_shard)
    return own


def worker_config(config, packs=True):
    return types.SimpleNamespace(use_sequence_packing=packs, sequence_packing_args=config)


def test_installed_it_plans_for_the_clusters_that_pack(trainer):
    roll.install(seed=3)
    assert trainer.pipeline.dynamic_batching_shard is roll.dynamic_batching_shard
    lengths = long_tailed(128, 4)
    train = trainer.cluster("actor_train", "roll.workers.Worker", None, worker_config(config_of(4096, 8192)))
    trainer.cluster("reward", Worker, None, worker_config(config_of(64, algorithm="none")))
    trainer.cluster("infer", Worker, None, worker_config(config_of(64), packs=False))

    batch = batch_of(lengths)
    batch.__class__ = trainer.proto
    trainer.pipeline.batch_balance(batch, dp_size=4, minibatch_size=32, logging_prefix="p")
    mini_batches = [list(one) for one in zip(*(
        rank.make_iterator(mini_batch_size=8, epochs=2, seed=1, dataloader_kwargs={"shuffle": True})
        for rank in map(rank_of(trainer), batch.chunk(4))))]
    assert len(mini_batches) == 8
    packer = trainer.packer(train.worker_config.sequence_packing_args)
    of_epoch = []
    for ranks in mini_batches:
        rows = [list(packer.make_micro_batch_iter_for_sequence_packing(rank, 1, 1, 1, True)) for rank in ranks]
        assert len({len(one) for one in rows}) == 1
        assert max(sum(-(-lengths[i] // 16) * 16 for i in indices_of(row)) for one in rows for row in one) <= 4096
        of_epoch.append(sorted(i for one in rows for row in one for i in indices_of(row)))
    assert_each_once(of_epoch[:4], 128)
    assert of_epoch[4:] == of_epoch[:4] and {len(one) for one in of_epoch} == {32}

    # Another size of mini-batches has ROLL's own iterator, and rows all the same.
    rank = rank_of(trainer)(batch.chunk(4)[0])
    other = list(rank.make_iterator(mini_batch_size=16, epochs=1, seed=1, dataloader_kwargs={"shuffle": True}))
    assert sorted(i for one in other for i in indices_of(one)) == sorted(indices_of(rank))
    assert list(packer.make_micro_batch_iter_for_sequence_packing(other[0], 1, 1, 1, True))


def rank_of(trainer):
    return lambda batch: trainer.proto(batch.batch, batch.meta_info)


def test_installed_twice_or_without_clusters_it_balances_ranks(trainer):
    roll.install()
    roll.install(cost=batchplan.CostModel(1.0))
    batch = batch_of(long_tailed(64, 1))
    metrics = trainer.pipeline.batch_balance(batch, 4, 64)
    assert metrics["global_seqlen/balanced_max"] - metrics["global_seqlen/balanced_min"] <= 4
    assert "batchplan" not in batch.meta_info


def test_the_workers_of_a_cluster_install_it_in_their_process(trainer, monkeypatch):
    installed = []
    module = sys.modules["batchplan.integrations.roll._install"]
    roll.install(cost=batchplan.CostModel(2.0))
    cluster = trainer.cluster("actor", "roll.workers.Worker", None, worker_config(config_of(4096)))
    monkeypatch.setattr(module, "install_in_worker", lambda cost: installed.append(cost))
    assert cluster.worker_cls is not Worker and issubclass(cluster.worker_cls, Worker)
    assert cluster.worker_cls.__name__ == "Worker"
    assert cluster.worker_cls(7).worker_config == 7 and installed == [batchplan.CostModel(2.0)]
    actor = type("Actor", (), {"__ray_actor_class__": Worker})
    with pytest.warns(UserWarning, match="only if it calls .*install_in_worker"):
        assert trainer.cluster("actor", actor, None, worker_config(config_of(4096))).worker_cls is actor
