"""batchplan.integrations.mindspeed_rl: its functions, and modules of the same names that get them."""

import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations import mindspeed_rl
from lengths import assert_each_once, long_tailed, verl_cost


def divided(monkeypatch, ranks, *arguments, **options):
    """What each of the ranks gets, by one group."""
    everyone = [numpy.array(rank) for rank in ranks]
    monkeypatch.setattr(mindspeed_rl, "gathering_in", lambda group: lambda lengths: (lengths(), everyone))
    return [mindspeed_rl.rearrange_micro_batches(rank, *arguments, **options) for rank in ranks]


@pytest.mark.parametrize("seed", range(5))
def test_ranks_run_like_micro_batches_at_the_same_time(seed, monkeypatch):
    lengths = long_tailed(256, seed)
    dispatched = mindspeed_rl.get_seqlen_balanced_partitions(lengths, 8, True)
    ranks = [[lengths[i] for i in part] for part in dispatched]
    alone = [mindspeed_rl.rearrange_micro_batches(rank, 4096) for rank in ranks]
    together = divided(monkeypatch, ranks, 4096)
    # A tensor-parallel group's second member among them.
    assert divided(monkeypatch, ranks + ranks[:1], 4096) == together + together[:1]
    assert len({len(parts) for parts in together}) == 1
    for rank, parts in zip(ranks, together):
        assert_each_once(parts, 32)
        assert max(sum(rank[i] for i in part) for part in parts) <= 4096

    def step_time(divisions):
        slots = max(map(len, divisions))
        costs = [[verl_cost(rank, part) for part in parts] + [0] * (slots - len(parts))
                 for rank, parts in zip(ranks, divisions)]
        return sum(map(max, zip(*costs)))

    assert step_time(together) < 0.99 * step_time(alone)


def test_ranks_of_unequal_numbers_of_sequences_have_as_many_micro_batches(monkeypatch):
    ranks = [[8, 7, 6, 5, 4, 3], [8, 8, 8, 8]]
    together = divided(monkeypatch, ranks, 16, None, "dp")
    assert [len(parts) for parts in together] == [3, 3]
    for rank, parts in zip(ranks, together):
        assert_each_once(parts, len(rank))
        assert max(sum(rank[i] for i in part) for part in parts) <= 16


@pytest.mark.parametrize("seed", range(5))
def test_the_budget_and_the_largest_batch_hold_in_the_number_that_all_have(seed, monkeypatch):
    lengths = long_tailed(200, seed)
    alone = mindspeed_rl.rearrange_micro_batches(lengths, 4096)
    parts, _ = divided(monkeypatch, [lengths, long_tailed(300, seed + 10)], 4096, 16, "dp")
    assert_each_once(parts, 200)
    assert max(sum(lengths[i] for i in part) for part in parts) <= 4096
    assert max(map(len, parts)) <= 16 and len(parts) > len(alone)


def test_ranks_have_sequences_of_equal_number():
    ranks = mindspeed_rl.get_seqlen_balanced_partitions(long_tailed(200, 1), 8, True)
    assert_each_once(ranks, 200)
    assert {len(rank) for rank in ranks} == {25}


def test_rows_keep_the_budget_as_their_sequences_are_padded():
    parts = mindspeed_rl.rearrange_micro_batches([17] * 56, 1024, length_multiple=16)
    assert_each_once(parts, 56)
    assert max(map(len, parts)) * 32 <= 1024


def test_micro_batches_are_alike_in_the_cost_that_is_given():
    lengths = long_tailed(100, 1, longest=1500)
    by_tokens = mindspeed_rl.rearrange_micro_batches(lengths, 8192, 16)
    by_squares = mindspeed_rl.rearrange_micro_batches(lengths, 8192, 16, cost=batchplan.CostModel(0.0, 1.0))
    dearest = [max(sum(lengths[i] ** 2 for i in part) for part in parts) for parts in (by_squares, by_tokens)]
    assert dearest[0] < dearest[1]


def tokens_and_patches(count, seed):
    draw = numpy.random.default_rng(seed)
    patches = numpy.where(draw.random(count) < 0.4, draw.integers(64, 3000, count), 0)
    return numpy.stack([long_tailed(count, seed), patches], axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_each_budget_of_a_list_holds(seed, monkeypatch):
    ranks = [tokens_and_patches(64, 10 * seed + rank) for rank in range(4)]
    alone = [mindspeed_rl.rearrange_micro_batches(rank, [8192, 6000]) for rank in ranks]
    by_tokens = [mindspeed_rl.rearrange_micro_batches(rank[:, 0], 8192) for rank in ranks]
    together = divided(monkeypatch, [*ranks, ranks[0]], [8192, 6000])
    assert together[4] == together[0] and len({len(parts) for parts in together}) == 1
    for divisions in (alone, together):
        for rank, parts in zip(ranks, divisions):
            assert_each_once(parts, 64)
            assert all((rank[part].sum(0) <= [8192, 6000]).all() for part in parts)
    assert max(rank[part, 1].sum() for rank, parts in zip(ranks, by_tokens) for part in parts) > 6000


def test_budgets_have_any_loads_which_may_cost(monkeypatch):
    table = numpy.concatenate([tokens_and_patches(64, 3), numpy.arange(64)[:, None]], axis=1)
    names = ("frames", "answers")
    parts = mindspeed_rl.rearrange_micro_batches(table, (8192, 9000, 400), loads=names)
    assert all((table[part].sum(0) <= [8192, 9000, 400]).all() for part in parts)
    ranks = [tokens_and_patches(64, rank) for rank in range(4)]

    def takes(cost):
        together = divided(monkeypatch, ranks, [8192, 9000], cost=cost)
        of_ranks = [[rank[part].sum(0) @ [1, 3] for part in parts] for rank, parts in zip(ranks, together)]
        return sum(map(max, zip(*of_ranks)))

    costly = batchplan.CostModel(1.0, loads={"patches": 3.0})
    assert takes(costly) < 0.98 * takes(batchplan.CostModel(1.0))


def test_what_is_wrong_with_budgets_is_said_by_name(monkeypatch):
    rearrange = mindspeed_rl.rearrange_micro_batches
    with pytest.raises(ValueError, match="max_token_len has 3 budgets; must be one of tokens, or then one of each of patches"):
        rearrange([[8, 8, 8]], [64, 32, 32])
    for wrong, found in (([8, 8], "1 dimensions of int64"), ([[8, 8.5]], "2 dimensions of float64"), (8, "0 dimensions")):
        with pytest.raises(ValueError, match=f"seqlen_list has {found}.*; must be two, of whole numbers"):
            rearrange(wrong, [64, 32])
    with pytest.raises(ValueError, match="seqlen_list has 1 numbers a sequence; max_token_len has 2 budgets"):
        rearrange([[8], [8]], [64, 32])
    with pytest.raises(ValueError, match="seqlen_list has 2 dimensions of int64; must be one, of whole numbers"):
        rearrange([[8, 8]], [64])
    with pytest.raises(ValueError, match=r'sequence 1 has 33 of load "patches".* max_per_microbatch 32'):
        rearrange([[8, 8], [8, 33]], [64, 32])
    with pytest.raises(ValueError, match="limits has 32 patches; sequence 0 of rank 1 has 33"):
        divided(monkeypatch, [[[8, 8], [8, 3]], [[8, 33]]], [64, 32])
    with pytest.raises(ValueError, match="sequence 1 of rank 0 has -3 patches; must have at least 0"):
        divided(monkeypatch, [[[8, 8], [8, -3]], [[8, 3]]], [64, 32])
    with pytest.raises(ValueError, match='max_token_len is "64"; must be a whole number'):
        rearrange([8, 8], "64")


def test_installed_it_is_where_the_functions_are_used(monkeypatch):
    def module(name, **members):
        made = types.ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    def stock():
        raise AssertionError("MindSpeed-RL's own")

    class State:
        get_tensor_model_parallel_world_size = staticmethod(lambda: 4)
        get_context_parallel_world_size = staticmethod(lambda: 2)

    for name in ("mindspeed_rl", "mindspeed_rl.utils", "mindspeed_rl.utils.transfer_queue"):
        module(name)
    own, of_queue = (lambda: stock()), (lambda: stock())
    balancing = module(
        "mindspeed_rl.utils.seqlen_balancing", rearrange_micro_batches=stock, get_seqlen_balanced_partitions=own)
    module("mindspeed_rl.utils.transfer_queue.tq_utils", get_seqlen_balanced_partitions=of_queue)
    module("mindspeed_rl.utils.compute", get_parallel_state=State)

    class BaseTrainingEngine:
        @staticmethod
        def _split_batches_with_dynamic_bsz(batch, max_packing_token, dynamic_max_batch_size):
            lengths = [a + b for a, b in zip(batch["prompt_length"], batch["response_length"])]
            return engine.rearrange_micro_batches(lengths, max_packing_token, dynamic_max_batch_size=dynamic_max_batch_size)

    for name in ("mindspeed_rl.models", "mindspeed_rl.models.base"):
        module(name)
    engine = module(
        "mindspeed_rl.models.base.base_training_engine", rearrange_micro_batches=stock, BaseTrainingEngine=BaseTrainingEngine)
    manager = module("mindspeed_rl.manager", get_seqlen_balanced_partitions=of_queue)

    mindspeed_rl.install()
    # Padded to multiples of 16, as its parallel sizes say.
    assert sorted(map(len, engine.rearrange_micro_batches([17] * 56, 1024, dynamic_max_batch_size=None))) == [28, 28]
    assert balancing.get_seqlen_balanced_partitions is manager.get_seqlen_balanced_partitions
    assert manager.get_seqlen_balanced_partitions([1, 2], 2, True)
    mindspeed_rl.install(length_multiple=1)
    assert len(engine.rearrange_micro_batches([17] * 56, 1024)) == 1

    # Of a list of budgets, the second is of what the batch has of images.
    batch = {"prompt_length": [9] * 6, "response_length": [8] * 6, "image_grid_thw": [
        numpy.array([[1, 4, 4]]), numpy.array([[1, 2, 8], [1, 4, 4]]), *[numpy.zeros((0, 3), int)] * 3, numpy.array([[2, 4, 4]])]}
    split = BaseTrainingEngine()._split_batches_with_dynamic_bsz
    parts = split(batch, [1024, 48], None)
    assert_each_once(parts, 6)
    patches = numpy.array([16, 32, 0, 0, 0, 32])
    assert len(parts) == 2 and max(patches[part].sum() for part in parts) == 48
    assert len(split(batch, 1024, None)) == 1 and len(split(batch, [1024], None)) == 1
    with pytest.raises(ValueError, match='sequence 1 has 32 of load "patches"'):
        split(batch, [1024, 31], None)
    del batch["image_grid_thw"]
    assert len(split(batch, [1024, 48], 6)) == 1 and len(split(batch, [1024, 48], 3)) == 2
    with pytest.raises(ValueError, match="image_grid_thw has 1 entries; prompt_length has 6"):
        split({**batch, "image_grid_thw": [[[1, 4, 4]]]}, [1024, 48], None)
