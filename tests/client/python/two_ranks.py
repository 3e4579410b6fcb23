"""Two ranks of a gloo group that divide what they have: two_ranks.py STORE RANK [CASES].

Prints a line for each case, of its name and what came of it: micro-batches, or an error. A rank that waits in vain for
the other one ends with the group's time limit.
"""

import datetime
import json
import sys
import types

import areal_trees
from batchplan.integrations import _areal_trees, areal, mindspeed_rl, roll, verl
from roll_batches import batch_of, config_of, indices_of
from torch import distributed


def spec_of(max_tokens_per_mb=None, n_mbs=1):
    return types.SimpleNamespace(max_tokens_per_mb=max_tokens_per_mb, n_mbs=n_mbs, n_mbs_divisor=1)


def trees_of(sequences, budget):
    """The sequences of each tree."""
    tree = sys.modules[areal_trees.NAME]
    return [sorted(trie) for trie in tree.build_packed_tree_batch({"input_ids": sequences}, spec_of(budget))[0]]


def rows_of(own):
    """Of a worker of ROLL, by index."""
    made = roll.make_micro_batch_iter_for_sequence_packing(own, 1, 1, 1, True, None, None, config_of(1024))
    return [indices_of(row) for row in made]


def planned(rank):
    batch = batch_of([896, 128, 64, 960, 512, 512, 320, 704])
    roll.batch_balance(batch, 2, 8, packings=[roll.Packing(1024)])
    return batch.chunk(2)[rank]


def without(own, rank, *names):
    """The second one's has those columns no more, and no information on them."""
    if rank == 1:
        own.batch = {name: rows for name, rows in own.batch.items() if name not in names}
        own.meta_info = {}
    return own


# What a rank does, by its number. All but the first five are refused.
CASES = {
    "areal trees: unequal": lambda rank: trees_of([[[1] * 100, [1] * 90 + [2] * 9, [3] * 70], [[1], []]][rank], 128),
    "areal trees: too long on one": lambda rank: trees_of([[[1] * 9], [[1] * 10, [2]]][rank], 9),
    "areal trees: no tokens on one": lambda rank: trees_of([[[1] * 9], [5]][rank], 9),
    "mindspeed_rl: equal": lambda rank: mindspeed_rl.rearrange_micro_batches([[8, 1, 1, 1], [2, 3, 2, 3]][rank], 9),
    "mindspeed_rl: unequal": lambda rank: mindspeed_rl.rearrange_micro_batches([[8, 1, 1], [2, 3, 2, 3]][rank], 9),
    "roll: planned": lambda rank: rows_of(planned(rank)),
    "roll: planned on one": lambda rank: rows_of(without(planned(rank), rank)),
    "mindspeed_rl: none on one": lambda rank: mindspeed_rl.rearrange_micro_batches([[], [2, 3]][rank], 9),
    "mindspeed_rl: fractions on one": lambda rank: mindspeed_rl.rearrange_micro_batches([[2.5, 3], [2, 3]][rank], 9),
    "mindspeed_rl: too long on one": lambda rank: mindspeed_rl.rearrange_micro_batches([[10, 1], [2, 3, 2]][rank], 9),
    "mindspeed_rl: too few on one": lambda rank: mindspeed_rl.rearrange_micro_batches([[9], [9, 9]][rank], 9),
    "areal: none on one": lambda rank: areal.allocate_balanced_mbs_synced(spec_of(), [[], [2, 3]][rank]),
    "areal: no numbers on one": lambda rank: areal.allocate_balanced_mbs_synced(spec_of(9), [[None], [2, 3]][rank]),
    "areal: too long on one": lambda rank: areal.allocate_balanced_mbs_synced(spec_of(9), [[10, 1], [2, 3, 2]][rank]),
    "areal: too few on one": lambda rank: areal.allocate_balanced_mbs_synced(spec_of(None, 2), [[9], [9, 9]][rank]),
    "roll: no mask on one": lambda rank: rows_of(without(batch_of([8, 9]), rank, "attention_mask")),
    "roll: too long on one": lambda rank: rows_of(batch_of([[1025, 1], [2, 3, 2]][rank])),
    "roll: too long for load_balance on one": lambda rank: roll.load_balance(
        [[17, 1], [2, 3, 2]][rank], 16, agree=roll.by_all_reduce()),
    "roll: too few for load_balance on one": lambda rank: roll.load_balance(
        [[16], [16, 16]][rank], 16, agree=roll.by_all_reduce()),
    "verl: no numbers on one": lambda rank: verl.get_micro_batches(
        [[None], [2, 3]][rank], 16, force_group_size=2, agree=verl.by_all_reduce()),
}


def main():
    store, rank = sys.argv[1], int(sys.argv[2])
    sys.modules.update(areal_trees.modules())
    _areal_trees.install(None)
    distributed.init_process_group(
        "gloo", f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=200))
    for name in sys.argv[3:] or CASES:
        try:
            outcome = CASES[name](rank)
        except (ValueError, TypeError, KeyError) as error:
            outcome = f"{type(error).__name__}: {error}"
        print(json.dumps([name, outcome]), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
