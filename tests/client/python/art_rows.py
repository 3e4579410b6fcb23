"""Modules of the names and with the functions of ART's packed rows, small: sequences in a tree of what they share."""

import random
import sys
import types
from typing import NamedTuple

PACK = "art.preprocessing.pack"
SFT = "art.preprocessing.sft"
RUNTIME = "art.distributed.art_runtime"
BOOTSTRAP = "art.distributed.monarch_bootstrap"
# Looked up where they are used, so that a replacement is found.
FUNCTIONS = ("_place_prefix_tree_leaves", "_prefix_tree_row_plan", "_prefix_tree_pack_rows")


class Item(NamedTuple):
    token_ids: tuple
    shareable_length: int
    prompt_id: int


class Segment(NamedTuple):
    sequence_indices: tuple
    start: int
    end: int

    @property
    def length(self):
        return self.end - self.start


class Plan(NamedTuple):
    segments: tuple
    length: int


class _PrefixTreeLeaf(NamedTuple):
    item_index: int
    packing_group_id: int
    segment_path: tuple
    empty_bin_cost: int


class _PrefixTreeBin:
    def __init__(self):
        self.leaves, self.occupied_segments, self.token_count = [], set(), 0

    def new_tokens(self, leaf):
        return sum(tokens for segment, tokens in leaf.segment_path if segment not in self.occupied_segments)

    def add(self, leaf):
        self.token_count += self.new_tokens(leaf)
        self.occupied_segments.update(segment for segment, _ in leaf.segment_path)
        self.leaves.append(leaf)


def segments_of(items, minimum):
    made = []

    def walk(places, start):
        branches = {}
        for place in places:
            token = items[place].token_ids[start] if items[place].shareable_length > start else (place,)
            branches.setdefault(token, []).append(place)
        for branch in branches.values():
            end = start
            most = min(items[place].shareable_length for place in branch)
            while len(branch) > 1 and end < most and len({items[place].token_ids[end] for place in branch}) == 1:
                end += 1
            if len(branch) > 1 and end - start >= minimum:
                made.append(Segment(tuple(branch), start, end))
                walk(branch, end)
            else:
                made.extend(Segment((place,), start, len(items[place].token_ids)) for place in branch)

    walk(range(len(items)), 0)
    return tuple(made)


def _prefix_tree_row_plan(row, *, seq_len, min_shared_segment_length):
    segments = segments_of(row, min_shared_segment_length)
    return Plan(segments, min(sum(segment.length for segment in segments), seq_len))


def _place_prefix_tree_leaves(groups, *, seq_len, groups_are_ordered=False):
    if not groups_are_ordered:
        groups = sorted(groups, key=lambda group: -max(leaf.empty_bin_cost for leaf in group))
    bins = []
    for group in groups:
        for leaf in group:
            counts = [one.token_count + one.new_tokens(leaf) for one in bins]
            room = [(-count, place) for place, count in enumerate(counts) if count <= seq_len]
            if not room:
                bins.append(_PrefixTreeBin())
            bins[min(room)[1] if room else -1].add(leaf)
    return bins


def _prefix_tree_pack_rows(items, *, seq_len, pack_results, min_shared_segment_length, rebuild_rows=True):
    if not items:
        return []
    module = sys.modules[PACK]
    options = {"seq_len": seq_len, "min_shared_segment_length": min_shared_segment_length}
    if not pack_results:
        return [([item], module._prefix_tree_row_plan([item], **options)) for item in items]
    paths = [[] for _ in items]
    for number, segment in enumerate(segments_of(items, min_shared_segment_length)):
        for place in segment.sequence_indices:
            paths[place].append((number, segment.length))
    groups = {}
    for place, path in enumerate(paths):
        tokens = sum(length for _, length in path)
        if tokens > seq_len:
            raise RuntimeError(f"item {place} has {tokens} tokens")
        groups.setdefault(items[place].prompt_id, []).append(
            _PrefixTreeLeaf(place, items[place].prompt_id, tuple(path), tokens)
        )
    rows = []
    for one in module._place_prefix_tree_leaves(groups.values(), seq_len=seq_len):
        row = [items[leaf.item_index] for leaf in one.leaves]
        rows.append((row, module._prefix_tree_row_plan(row, **options)))
    return rows


def packed(items, seq_len):
    """The rows of an RL batch in the order in which they are dealt."""
    rows = sys.modules[PACK]._prefix_tree_pack_rows(
        items, seq_len=seq_len, pack_results=True, min_shared_segment_length=64
    )
    random.Random(len(rows)).shuffle(rows)
    return rows


def packed_for_sft(items, seq_len):
    # As ART has it that imported it by name.
    return sys.modules[SFT]._prefix_tree_pack_rows(
        items, seq_len=seq_len, pack_results=True, min_shared_segment_length=64, rebuild_rows=False
    )


started = []


def activate_cpu_child_virtualenv():
    started.append(len(started))


def modules():
    """The modules and those above them, by name, with nothing replaced."""
    found = {}
    for name in (PACK, SFT, RUNTIME, BOOTSTRAP):
        for end in range(1, name.count(".") + 2):
            above = ".".join(name.split(".")[:end])
            found.setdefault(above, types.ModuleType(above)).__path__ = []
    kinds = {"_PrefixTreeLeaf": _PrefixTreeLeaf, "_PrefixTreeBin": _PrefixTreeBin}
    vars(found[PACK]).update({name: globals()[name] for name in FUNCTIONS}, **kinds)
    found[SFT]._prefix_tree_pack_rows = _prefix_tree_pack_rows
    for name in (RUNTIME, BOOTSTRAP):
        found[name].activate_cpu_child_virtualenv = activate_cpu_child_virtualenv
    return found
