"""A module of the name and with the functions of AReaL's trees, small: a trie of every micro-batch, by first fit."""

import sys
import types

NAME = "areal.models.tree_attn.tree"
# What AReaL's own first fit calls, looked up where it is used, so that a replacement is found.
FUNCTIONS = ("_extract_sequences", "_insert_sequence", "_compress_trie", "_greedy_build_tries", "build_packed_tree_batch")


class Node:
    def __init__(self, tree_id, token_id, node_id):
        self.token_id, self.node_id = token_id, node_id
        self.children, self.sequence_ids = {}, []


def _extract_sequences(data):
    return [list(ids) for ids in data["input_ids"]]


def _insert_sequence(root, all_nodes, sequence, tree_id, sequence_id):
    for token in sequence:
        if token not in root.children:
            root.children[token] = Node(tree_id, token, len(all_nodes))
            all_nodes.append(root.children[token])
        root = root.children[token]
        root.sequence_ids.append(sequence_id)


def _compress_trie(root):
    """Of each sequence, the tokens on its path: what AReaL reads of a trie."""
    paths, waiting = {}, [root]
    while waiting:
        node = waiting.pop()
        for child in node.children.values():
            waiting.append(child)
            for one in child.sequence_ids:
                paths.setdefault(one, []).append(child.token_id)
    return paths


def _greedy_build_tries(data, max_tokens_per_tree):
    module = sys.modules[NAME]
    made = []
    for place, sequence in enumerate(module._extract_sequences(data)):
        for root, nodes in made:
            if len(nodes) + len(sequence) - _in_common(root, sequence) <= max_tokens_per_tree:
                break
        else:
            root, nodes = module._BuildNode(len(made), -1, -1), []
            made.append((root, nodes))
        module._insert_sequence(root, nodes, sequence, 0, place)
    return [module._compress_trie(root) for root, _ in made], [len(nodes) for _, nodes in made]


def _in_common(root, sequence):
    for count, token in enumerate(sequence):
        if token not in root.children:
            return count
        root = root.children[token]
    return len(sequence)


def build_packed_tree_batch(data, mb_spec, pad_to_maximum=True, dp_group=None, parallel_size=1):
    return sys.modules[NAME]._greedy_build_tries(data, mb_spec.max_tokens_per_mb)


def modules():
    """The module and those above it, by name, with nothing replaced."""
    found = {}
    for end in range(1, NAME.count(".") + 2):
        name = ".".join(NAME.split(".")[:end])
        found[name] = types.ModuleType(name)
        found[name].__path__ = []
    vars(found[NAME]).update({name: globals()[name] for name in FUNCTIONS}, _BuildNode=Node)
    return found
