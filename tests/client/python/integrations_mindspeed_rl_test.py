"""batchplan.integrations.mindspeed_rl: its functions, and modules of the same names that get them."""

import ast
import subprocess
import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations import mindspeed_rl
from lengths import assert_each_once, long_tailed, verl_cost


@pytest.fixture
def agree_on(monkeypatch):
    """Has the ranks of any group agree on so many more micro-batches; returns the groups that did."""

    def set_more(more):
        groups = []
        monkeypatch.setattr(
            mindspeed_rl, "agreement_in", lambda group: groups.append(group) or (lambda number: number + more))
        return groups

    return set_more


def divided(monkeypatch, ranks, *arguments, **options):
    """What each of the ranks gets, by one group."""
    monkeypatch.setattr(mindspeed_rl, "gathering_in", lambda group: lambda own: [numpy.array(rank) for rank in ranks])
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


def test_ranks_of_unequal_numbers_of_sequences_agree_on_a_number(monkeypatch, agree_on):
    groups = agree_on(2)
    ranks = [[8, 7, 6, 5, 4, 3], [8, 8, 8, 8]]
    assert [len(parts) for parts in divided(monkeypatch, ranks, 16, None, "dp")] == [5, 4] and groups == ["dp", "dp"]


def test_processes_make_one_plan(tmp_path):
    pytest.importorskip("torch.distributed")
    program = """
import sys, torch.distributed
from batchplan.integrations import mindspeed_rl
rank = int(sys.argv[2])
torch.distributed.init_process_group("gloo", sys.argv[1], rank=rank, world_size=2)
for lengths in [[8, 1, 1, 1], [2, 3, 2, 3]][rank], [[8, 1, 1], [2, 3, 2, 3]][rank]:
    print(mindspeed_rl.rearrange_micro_batches(lengths, 9))
torch.distributed.destroy_process_group()
"""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program, f"file://{tmp_path}/store", str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    printed = [[ast.literal_eval(line) for line in one.communicate(timeout=300)[0].splitlines()] for one in ranks]
    assert [one.returncode for one in ranks] == [0, 0]
    for equal, unequal in zip(*printed):
        assert len(equal) == len(unequal) == 2
    for parts, counts in zip(printed, ((4, 3), (4, 4))):
        assert [len([i for part in one for i in part]) for one in parts] == list(counts)


@pytest.mark.parametrize("seed", range(5))
def test_the_budget_and_the_largest_batch_hold_in_the_number_agreed_on(seed, agree_on):
    lengths = long_tailed(200, seed)
    alone = mindspeed_rl.rearrange_micro_batches(lengths, 4096)
    groups = agree_on(3)
    parts = mindspeed_rl.rearrange_micro_batches(lengths, 4096, 16, "dp")
    assert groups == ["dp"]
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


def test_micro_batches_are_alike_in_the_cost_that_is_given(agree_on):
    lengths = long_tailed(100, 1, longest=1500)
    agree_on(4)
    by_tokens = mindspeed_rl.rearrange_micro_batches(lengths, 8192)
    by_squares = mindspeed_rl.rearrange_micro_batches(lengths, 8192, cost=batchplan.CostModel(0.0, 1.0))
    dearest = [max(sum(lengths[i] ** 2 for i in part) for part in parts) for parts in (by_squares, by_tokens)]
    assert dearest[0] < dearest[1]


def test_budgets_of_modalities_are_refused_by_name():
    with pytest.raises(ValueError, match=r"max_token_len is \[64, 32\]; .* a budget for each modality is not supported"):
        mindspeed_rl.rearrange_micro_batches([8, 8], [64, 32])
    with pytest.raises(ValueError, match='max_token_len is "64"; must be a whole number'):
        mindspeed_rl.rearrange_micro_batches([8, 8], "64")


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
    engine = module("mindspeed_rl.engine", rearrange_micro_batches=stock)
    manager = module("mindspeed_rl.manager", get_seqlen_balanced_partitions=of_queue)

    mindspeed_rl.install()
    # Padded to multiples of 16, as its parallel sizes say.
    assert sorted(map(len, engine.rearrange_micro_batches([17] * 56, 1024, dynamic_max_batch_size=None))) == [28, 28]
    assert balancing.get_seqlen_balanced_partitions is manager.get_seqlen_balanced_partitions
    assert manager.get_seqlen_balanced_partitions([1, 2], 2, True)
    mindspeed_rl.install(length_multiple=1)
    assert len(engine.rearrange_micro_batches([17] * 56, 1024)) == 1
