"""AReaL's trees of sequences that share prefixes: which sequences stand in which tree, on all ranks at once."""

from __future__ import annotations

import contextvars
import functools
import importlib
import logging
from collections.abc import Sequence
from typing import Any

import numpy

import batchplan
from batchplan.integrations._agreement import Lengths, gathering_in
from batchplan.integrations._replace import wrap

_log = logging.getLogger("batchplan")
_MODULE = "areal.models.tree_attn.tree"
_USED = (
    "build_packed_tree_batch",
    "_greedy_build_tries",
    "_extract_sequences",
    "_BuildNode",
    "_insert_sequence",
    "_compress_trie",
)
# The process group whose ranks have as many trees, while a batch is built.
_group = contextvars.ContextVar[Any]("batchplan_areal_group", default=None)


def install(cost: batchplan.CostModel | None) -> None:
    """Puts planned trees in the place of AReaL's first fit. An AReaL without trees, or with others, stays as it is."""
    try:
        trees = importlib.import_module(_MODULE)
    except ModuleNotFoundError:
        return
    missing = [name for name in _USED if not hasattr(trees, name)]
    if missing:
        _log.warning("batchplan: trees are AReaL's own, as its %s has no %s", _MODULE, ", ".join(missing))
        return

    def within_group(stock: Any) -> Any:
        @functools.wraps(stock)
        def build_packed_tree_batch(
            data: Any, mb_spec: Any, pad_to_maximum: bool = True, dp_group: Any = None, parallel_size: int = 1
        ) -> Any:
            before = _group.set(dp_group)
            try:
                return stock(data, mb_spec, pad_to_maximum, dp_group, parallel_size)
            finally:
                _group.reset(before)

        return build_packed_tree_batch

    def planning(stock: Any) -> Any:
        @functools.wraps(stock)
        def _greedy_build_tries(data: dict[str, Any], max_tokens_per_tree: int) -> tuple[list[Any], list[int]]:
            return _tries(trees, data, max_tokens_per_tree, cost)

        return _greedy_build_tries

    wrap(trees, "build_packed_tree_batch", within_group)
    wrap(trees, "_greedy_build_tries", planning)


def has_tokens(item: dict[str, Any]) -> bool:
    """Whether the tokens of a trajectory's sequences are on this machine."""
    import torch

    ids, mask = item.get("input_ids"), item.get("attention_mask")
    return isinstance(ids, torch.Tensor) and isinstance(mask, torch.Tensor) and ids.shape == mask.shape


def tree_tokens(items: Sequence[dict[str, Any]]) -> int:
    """How many tokens one tree of these trajectories' sequences has."""
    sequences: list[Any] = []
    for item in items:
        ids, mask = (item[name].reshape(-1, item[name].shape[-1]).cpu() for name in ("input_ids", "attention_mask"))
        sequences += [tokens[seen.bool()].numpy() for tokens, seen in zip(ids, mask)]
    shared_prefixes, _ = batchplan.common_prefixes(sequences)
    return sum(map(len, sequences)) - int(shared_prefixes.sum())


def _tries(
    trees: Any, data: dict[str, Any], budget: int, cost: batchplan.CostModel | None
) -> tuple[list[Any], list[int]]:
    """This rank's tries, as many as every rank has, and the tokens of each."""
    sequences: list[list[int]] = []
    # Those with tokens: one without stands in no tree, as in AReaL.
    own: list[int] = []

    def read() -> Lengths:
        sequences.extend(trees._extract_sequences(data))
        own.extend(place for place, tokens in enumerate(sequences) if tokens)
        return _described([sequences[place] for place in own])

    gather = gathering_in(_group.get())
    if gather is None:
        described = read()
        everyone = [described]
    else:
        described, everyone = gather(read)
    return _built(trees, sequences, [[own[k] for k in row] for row in divide(described, everyone, budget, cost)])


def _described(sequences: Sequence[Sequence[int]]) -> Lengths:
    """What other ranks need to know of sequences: lengths, shared_prefixes and shared_with, end to end."""
    shared_prefixes, shared_with = batchplan.common_prefixes(sequences)
    lengths = [len(tokens) for tokens in sequences]
    described: Lengths = numpy.concatenate((lengths, shared_prefixes, shared_with)).astype(numpy.int64)
    return described


def divide(
    own: Lengths, everyone: Sequence[Lengths], budget: int, cost: batchplan.CostModel | None = None
) -> list[list[int]]:
    """One rank's trees. Every rank makes the same plans of all ranks' sequences, and takes the faster one.

    Args:
        own: the rank's sequences: their lengths, at least 1 each, then their shared_prefixes, then their
            shared_with.
        everyone: those of all ranks, its own among them.
        budget: tokens of a tree, each counted once; all trees are padded to it.
        cost: what is balanced; that of a model of 7B parameters unless given.

    Returns:
        positions among the rank's sequences, of each tree. As many trees as every rank has; where others have more
        sequences, some are empty.

    Raises:
        ValueError: a sequence is longer than the budget; of any rank, the same on all.
    """
    parts = [one.reshape(3, -1) for one in everyone]
    for rank, (lengths, *_) in enumerate(parts):
        if lengths.max(initial=0) > budget:
            raise batchplan.InvalidRequest(
                f"max_tokens_per_mb is {budget}; sequence {int(lengths.argmax())} of rank {rank} has "
                f"{int(lengths.max())} tokens"
            )
    place = next(place for place, one in enumerate(everyone) if numpy.array_equal(one, own))
    model = cost or batchplan.DEFAULT_COST
    one = batchplan.Pass(budget, rows="capacity")
    slots = min(
        (_in_one_plan(parts, one, model), _each_alone(parts, one, model)),
        key=lambda slots: sum(max(tree.cost for tree in slot) for slot in slots),
    )
    return [slot[place].sequences for slot in slots]


class _Tree:
    """One of a rank's trees: positions among its sequences, ascending, and what it costs."""

    def __init__(self, row: batchplan.MicroBatch | None, first: int, one: batchplan.Pass, cost: batchplan.CostModel):
        self.sequences: list[int] = []
        # Padded to the budget, also where it is empty.
        self.cost = cost.per_token * one.max_tokens + cost.per_microbatch
        if row is None or len(row) == 0:
            return
        self.sequences = sorted(index - first for index in row.indices.tolist())
        shared = numpy.zeros(len(row)) if row.shared_tokens is None else row.shared_tokens.astype(float)
        squares = (row.lengths.astype(float) ** 2 - shared**2).sum()
        self.cost += cost.per_token_squared * float(squares) + cost.per_sequence * len(row)


# [slots][ranks]
_Slots = list[list[_Tree]]


def _in_one_plan(parts: Sequence[Lengths], one: batchplan.Pass, cost: batchplan.CostModel) -> _Slots:
    """Trees that run at the same time are alike."""
    counts = [part.shape[1] for part in parts]
    if not any(counts):
        return [[_Tree(None, 0, one, cost) for _ in parts]]
    firsts = (numpy.cumsum(counts) - counts).tolist()
    plan = batchplan.plan(
        numpy.concatenate([part[0] for part in parts]),
        dp=len(parts),
        ranks=numpy.repeat(numpy.arange(len(parts)), counts),
        shared_prefixes=numpy.concatenate([part[1] for part in parts]),
        shared_with=numpy.concatenate([part[2] + first for part, first in zip(parts, firsts)]),
        cost=cost,
        allow_empty_microbatches=True,
        passes=[one],
    )
    of_ranks = [[_Tree(row, first, one, cost) for row in plan.rank(rank)] for rank, first in enumerate(firsts)]
    return [list(slot) for slot in zip(*of_ranks)]


def _each_alone(parts: Sequence[Lengths], one: batchplan.Pass, cost: batchplan.CostModel) -> _Slots:
    """The fewest trees of each rank, which may be fewer slots: every slot costs a whole budget. Costly ones meet."""
    of_ranks: list[list[_Tree]] = []
    for lengths, shared_prefixes, shared_with in parts:
        rows: list[batchplan.MicroBatch] = []
        if len(lengths):
            plan = batchplan.plan(
                lengths, shared_prefixes=shared_prefixes, shared_with=shared_with, cost=cost, passes=[one]
            )
            rows = list(plan.rank(0))
        made = [_Tree(row, 0, one, cost) for row in rows]
        of_ranks.append(sorted(made, key=lambda tree: -tree.cost))
    most = max(1, *(len(own) for own in of_ranks))
    return [
        [own[slot] if slot < len(own) else _Tree(None, 0, one, cost) for own in of_ranks] for slot in range(most)
    ]


def _built(
    trees: Any, sequences: Sequence[list[int]], rows: Sequence[Sequence[int]]
) -> tuple[list[Any], list[int]]:
    """A trie of each row, and its tokens. Those of empty rows are AReaL's dummies."""
    tries, counts = [], []
    for number, row in enumerate(rows):
        root = trees._BuildNode(number, -1, -1)
        nodes: list[Any] = []
        for place in row:
            trees._insert_sequence(root, nodes, sequences[place], number, place)
        tries.append(trees._compress_trie(root))
        counts.append(len(nodes))
    return tries, counts
