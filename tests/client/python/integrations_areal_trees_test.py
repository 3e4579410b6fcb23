"""AReaL's trees: sequences that share prefixes, planned over all ranks in place of its first fit."""

import logging
import sys
import types

import areal_trees
import batchplan
import numpy
import pytest
from batchplan.integrations import _areal_trees
from lengths import assert_each_once


@pytest.fixture
def trees(monkeypatch):
    """The module with planned trees."""
    for name, module in areal_trees.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    module = sys.modules[areal_trees.NAME]
    engine = types.ModuleType("areal.engine")
    engine.build_packed_tree_batch = module.build_packed_tree_batch
    monkeypatch.setitem(sys.modules, "areal.engine", engine)
    _areal_trees.install(None)
    _areal_trees.install(None)
    # As an engine has it that imported it before.
    assert engine.build_packed_tree_batch is module.build_packed_tree_batch
    assert module.build_packed_tree_batch is not areal_trees.build_packed_tree_batch
    return module


def answers(seed, groups=12, size=8, prompt=200, longest=300):
    """Groups of answers under one system prompt, in a random order, with a copy and a prefix of others."""
    random = numpy.random.default_rng(seed)
    made = []
    for _ in range(groups):
        begin = [7] * 80 + random.integers(0, 999, prompt).tolist()
        made += [begin + random.integers(0, 999, random.integers(1, longest)).tolist() for _ in range(size)]
    made += [list(made[3]), made[5][:150]]
    return [made[place] for place in random.permutation(len(made))]


def built(trees, sequences, budget):
    spec = types.SimpleNamespace(max_tokens_per_mb=budget)
    return trees.build_packed_tree_batch({"input_ids": sequences}, spec)


def gathered(monkeypatch, everyone):
    """As if these were all ranks' sequences, of a group."""
    described = [_areal_trees._described([one for one in sequences if one]) for sequences in everyone]
    groups = []
    monkeypatch.setattr(
        _areal_trees, "gathering_in", lambda group: groups.append(group) or (lambda own: (own(), described)))
    return groups


@pytest.mark.parametrize("seed", range(3))
def test_every_sequence_stands_in_one_tree_whole(trees, seed):
    sequences = answers(seed)
    tries, tokens = built(trees, sequences, 2048)
    assert_each_once(tries, len(sequences))
    for trie, count in zip(tries, tokens):
        assert {one: sequences[one] for one in trie} == trie
        assert count <= 2048
    _, of_first_fit = areal_trees._greedy_build_tries({"input_ids": sequences}, 2048)
    assert len(tokens) <= len(of_first_fit) and sum(tokens) < sum(map(len, sequences)) / 1.5


def test_ranks_have_as_many_trees_of_their_own_sequences(trees, monkeypatch):
    # One has so few sequences that some of its trees are empty, and one has none.
    ranks = [answers(1), answers(2, groups=6), answers(3)[:2], []]
    groups = gathered(monkeypatch, ranks)
    of_ranks = [built(trees, sequences, 2048) for sequences in ranks]
    assert len({len(tries) for tries, _ in of_ranks}) == 1
    for sequences, (tries, tokens) in zip(ranks, of_ranks):
        assert_each_once(tries, len(sequences))
        assert max(tokens) <= 2048
    assert 0 in of_ranks[2][1] and not any(of_ranks[3][1])
    spec = types.SimpleNamespace(max_tokens_per_mb=2048)
    trees.build_packed_tree_batch({"input_ids": ranks[0]}, mb_spec=spec, dp_group="data parallel", parallel_size=2)
    assert groups == [None] * 4 + ["data parallel"]


# The first needs the trees of each rank planned alone, the second those of all ranks planned at once.
@pytest.mark.parametrize("seed, fewer", [(24, 0), (0, 1)])
def test_ranks_have_no_more_trees_than_the_one_of_first_fit_with_the_most(trees, monkeypatch, seed, fewer):
    ranks = [answers(seed + rank, groups=16, size=16, prompt=20, longest=250) for rank in range(8)]
    gathered(monkeypatch, ranks)
    most = max(len(areal_trees._greedy_build_tries({"input_ids": own}, 2048)[0]) for own in ranks)
    assert all(len(built(trees, own, 2048)[0]) <= most - fewer for own in ranks)


def test_sequences_without_tokens_stand_in_no_tree(trees, monkeypatch):
    assert built(trees, [[], [1, 2], [], [1, 3]], 128) == ([{1: [1, 2], 3: [1, 3]}], [3])
    # What every rank runs at least.
    assert built(trees, [[], []], 128) == built(trees, [], 128) == ([{}], [0])
    gathered(monkeypatch, [[[]], []])
    assert built(trees, [[]], 128) == ([{}], [0])


def test_a_sequence_beyond_the_budget_is_refused_on_all_ranks(trees, monkeypatch):
    ranks = [[[1] * 128], [[2], [1] * 129]]
    gathered(monkeypatch, ranks)
    for sequences in ranks:
        with pytest.raises(
            batchplan.InvalidRequest, match="max_tokens_per_mb is 128; sequence 1 of rank 1 has 129 tokens"
        ):
            built(trees, sequences, 128)


def test_costs_are_the_callers(trees, monkeypatch):
    asked = []
    plan = batchplan.plan
    monkeypatch.setattr(batchplan, "plan", lambda *args, **options: asked.append(options) or plan(*args, **options))
    _areal_trees.install(batchplan.CostModel(3.0))
    built(trees, answers(0), 2048)
    assert {one["cost"] for one in asked} == {batchplan.CostModel(3.0)}


def test_an_areal_that_builds_trees_otherwise_keeps_its_own(monkeypatch, caplog):
    found = areal_trees.modules()
    del found[areal_trees.NAME]._compress_trie
    for name, module in found.items():
        monkeypatch.setitem(sys.modules, name, module)
    with caplog.at_level(logging.WARNING):
        _areal_trees.install(None)
    assert "has no _compress_trie" in caplog.text
    assert found[areal_trees.NAME]._greedy_build_tries is areal_trees._greedy_build_tries
