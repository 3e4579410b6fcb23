"""batchplan.integrations.unsloth: the order of a step's rows, and its place in an Unsloth of stand-ins."""

import sys
import types

import numpy
import pytest
from batchplan.integrations import unsloth
from batchplan.integrations._replace import stock_of
from lengths import assert_each_once, lockstep, long_tailed


def stock(indices, lengths, batch_size, grad_accum, world_size=1, cross_rank=True):
    """Rows by length, dealt to micro-batches in turn and back."""
    if len(indices) != batch_size * grad_accum * world_size:
        raise ValueError(f"expected {batch_size * grad_accum * world_size} indices, got {len(indices)}")
    by_length = sorted(indices, key=lambda index: -lengths[index])
    micro_batches = [[] for _ in range(grad_accum * world_size)]
    for turn in range(batch_size):
        dealt = by_length[turn * len(micro_batches) : (turn + 1) * len(micro_batches)]
        for micro_batch, index in zip(micro_batches[:: -1 if turn % 2 else 1], dealt):
            micro_batch.append(index)
    return [index for micro_batch in micro_batches for index in micro_batch]


def slots_of(order, batch_size, grad_accum, world_size):
    return numpy.array(order).reshape(grad_accum, world_size, batch_size).tolist()


@pytest.mark.parametrize("slack", [0.0, 0.1])
@pytest.mark.parametrize(("batch_size", "grad_accum"), [(8, 4), (4, 8), (2, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_micro_batches_at_the_same_time_are_alike_and_little_longer_than_stocks(batch_size, grad_accum, seed, slack):
    shape = batch_size, grad_accum, 4
    count = 4 * batch_size * grad_accum
    lengths = long_tailed(3 * count, seed)
    indices = numpy.random.default_rng(seed).permutation(3 * count)[:count].tolist()
    theirs = slots_of(stock(indices, lengths, *shape), *shape)
    ours = slots_of(unsloth.balance_step_indices(indices, lengths, *shape, stock=stock, slack=slack), *shape)
    found = sorted(index for slot in ours for part in slot for index in part)
    assert found == sorted(indices)
    assert lockstep(lengths, ours) <= lockstep(lengths, theirs)
    if batch_size > 2 and slack:
        assert lockstep(lengths, ours) < 0.97 * lockstep(lengths, theirs)
    most = [max(sum(lengths[index] for index in part) for slot in slots for part in slot) for slots in (ours, theirs)]
    assert most[0] <= (1 + slack) * most[1]


def test_what_leaves_nothing_to_gain_has_unsloths_order():
    lengths = long_tailed(32, 1)
    for world_size, cross_rank in ((1, False), (4, False), (1, True)):
        given = list(range(32)), lengths, 4, 8 // world_size, world_size, cross_rank
        assert unsloth.balance_step_indices(*given, stock=stock) == stock(*given)
    # All alike, it is as good.
    order = unsloth.balance_step_indices(list(range(16)), [7] * 16, 2, 2, 4, stock=stock)
    assert_each_once([order], 16)
    # A row without tokens is one.
    assert_each_once([unsloth.balance_step_indices(list(range(8)), [0, 5, 1, 0, 9, 2, 2, 4], 2, 2, 2, stock=stock)], 8)
    with pytest.raises(ValueError, match="expected 8 indices, got 7"):
        unsloth.balance_step_indices(list(range(7)), [5] * 8, 2, 2, 2, stock=stock)


@pytest.fixture
def trainer(monkeypatch):
    module = types.ModuleType("unsloth.utils.token_budget")
    module.balance_step_indices = stock
    for name in ("unsloth", "unsloth.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    # Set, so that it is as it was afterwards.
    monkeypatch.setenv("UNSLOTH_TOKEN_BALANCE", "1")
    monkeypatch.delenv("UNSLOTH_TOKEN_BALANCE")
    return module


def test_installed_it_is_what_the_sampler_calls_and_the_switch_is_on(trainer, monkeypatch):
    import os

    # A sampler's module that has it by name.
    sampler = types.ModuleType("unsloth.sampler")
    sampler.balance = stock
    monkeypatch.setitem(sys.modules, sampler.__name__, sampler)
    unsloth.install()
    unsloth.install(effort="fast")
    assert os.environ["UNSLOTH_TOKEN_BALANCE"] == "1"
    given = list(range(64)), long_tailed(64, 2), 4, 4, 4
    assert trainer.balance_step_indices(*given) == unsloth.balance_step_indices(*given, stock=stock, effort="fast")
    assert stock_of(trainer.balance_step_indices) is trainer.balance_step_indices.keywords["stock"] is stock
    assert sampler.balance is trainer.balance_step_indices


def test_what_is_wrong_is_told_at_installation(trainer, monkeypatch):
    for wrong in ({"slack": -0.1}, {"cost": 3.0}, {"effort": "much"}, {"synchronization": "never"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            unsloth.install(**wrong)
    monkeypatch.setenv("UNSLOTH_TOKEN_BALANCE", "0")
    with pytest.raises(ValueError, match='UNSLOTH_TOKEN_BALANCE is "0"; must be 1'):
        unsloth.install()
    assert trainer.balance_step_indices is stock


def test_without_the_trainer_there_is_nothing_to_install(monkeypatch):
    monkeypatch.delenv("UNSLOTH_TOKEN_BALANCE", raising=False)
    with pytest.raises(ImportError, match="unsloth"):
        unsloth.install()
