"""Two ranks of verl's workers: torchrun --nproc-per-node 2 verl_ranks.py FILE, with BATCHPLAN=1.

Each gets its part of a batch that the trainer has planned, in the end or after something has happened to it, and
divides it into micro-batches. FILE is what came of it, by case: of each rank the tokens of its micro-batches, and
whether each of them is one that was planned; or the error.
"""

import datetime
import json
import os
import pathlib
import sys

import verl_batches
from tensordict import NonTensorStack
from torch import distributed
from verl.utils.tensordict_utils import concat_tensordict, index_select_tensor_dict
from verl.workers.engine.utils import prepare_micro_batches

BUDGET = 1600
FIELD = f"batchplan_train_{BUDGET}"


def without_field(own):
    del own[FIELD]
    return own


def with_wrong_variable(own):
    os.environ["BATCHPLAN_COST"] = "1,x"
    return without_field(own)


def limited(patches):
    """From here on."""
    os.environ.pop("BATCHPLAN_LIMIT", None)
    if patches:
        os.environ["BATCHPLAN_LIMIT"] = f"patches={patches}"


def unknown(own):
    """Pixels of which there is no grid."""
    inputs = [{"pixel_values": one} for one in own["number"].unbind()]
    own["multi_modal_inputs"] = NonTensorStack(*inputs)
    return own


def parts():
    lengths = verl_batches.long_tailed(64, 5, median=200, longest=BUDGET)
    batch = verl_batches.with_images(verl_batches.batch_of(lengths), 5, most=24)
    verl_batches.trainer(2, verl_batches.config(BUDGET))._balance_batch(batch, {})
    return verl_batches.of_ranks(batch, 2)


def chosen(own, indices):
    return index_select_tensor_dict(own, list(indices))


def exchanged(own, rank):
    """Its first sequence is the other rank's."""
    return concat_tensordict([chosen(parts()[1 - rank], [0]), chosen(own, range(1, len(own)))])


# What happens on each rank to its part, and what else is asked of its micro-batches.
CASES = {
    "planned": (lambda own, rank: own, {}),
    "reordered": (lambda own, rank: chosen(own, range(len(own) - 1, -1, -1)), {}),
    "no field on one": (lambda own, rank: without_field(own) if rank else own, {}),
    "no field": (lambda own, rank: without_field(own), {}),
    "one left out": (lambda own, rank: own if rank else chosen(own, range(1, len(own))), {}),
    "one repeated": (lambda own, rank: chosen(own, [0, *range(len(own) - 1)]) if rank else own, {}),
    "exchanged": (exchanged, {}),
    "another budget": (lambda own, rank: own, {"max_token_len_per_gpu": 2 * BUDGET}),
    "groups": (lambda own, rank: own, {"force_group_size": 2, "max_token_len_per_gpu": 2 * BUDGET}),
    "too long on one": (
        lambda own, rank: chosen(own, own["input_ids"].offsets().diff().argsort()[: len(own) if rank else 9]),
        {"max_token_len_per_gpu": 600},
    ),
    "too few on one": (lambda own, rank: own if rank else chosen(own, [0]), {}),
    "torn groups on one": (lambda own, rank: own if rank else chosen(own, range(3)), {"force_group_size": 2}),
    "a limit that the plan did not have": (lambda own, rank: own, {}),
    "a plan within the limit": (lambda own, rank: own, {}),
    "no field, a limit": (lambda own, rank: without_field(own), {}),
    "groups, a limit": (lambda own, rank: own, {"force_group_size": 2, "max_token_len_per_gpu": 2 * BUDGET}),
    "too many patches on one": (lambda own, rank: without_field(own), {}),
    "another limit on one": (lambda own, rank: without_field(own), {}),
    "unknown patches on one": (lambda own, rank: unknown(own) if rank else own, {}),
    "no limit on one": (lambda own, rank: without_field(own), {}),
    "wrong variable on one": (lambda own, rank: without_field(own) if rank else with_wrong_variable(own), {}),
}


# By case, the limit of patches when the trainer plans the batch, and those of the ranks.
LIMITS = {
    "a limit that the plan did not have": (None, (2000, 2000)),
    "a plan within the limit": (2000, (2000, 2000)),
    "no field, a limit": (2000, (2000, 2000)),
    "groups, a limit": (2000, (2000, 2000)),
    "too many patches on one": (2000, (500, 2000)),
    "another limit on one": (2000, (2000, 3000)),
    "unknown patches on one": (2000, (2000, 2000)),
    "no limit on one": (2000, (None, 2000)),
}


def outcome(case, rank):
    change, more = CASES[case]
    of_trainer, of_ranks = LIMITS.get(case, (None, (None, None)))
    limited(of_trainer)
    own = parts()[rank]
    limited(of_ranks[rank])
    data = verl_batches.for_micro_batches(change(own, rank), BUDGET)
    for name, value in more.items():
        data = verl_batches.tensordict_utils.assign_non_tensor(data, **{name: value})
    try:
        micro_batches, indices = prepare_micro_batches(data, dp_group=distributed.group.WORLD)
    except ValueError as error:
        return {"error": str(error)}
    assert sorted(index for part in indices for index in part) == list(range(len(data)))
    return {
        "tokens": [verl_batches.tokens(one) for one in micro_batches],
        "patches": [verl_batches.patches(one) for one in micro_batches],
        "planned": [
            FIELD in one.keys() and len(set(one[FIELD].tolist())) == 1 and int(one[FIELD][0]) % 2**32 == len(one)
            for one in micro_batches
        ],
    }


def main():
    distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=300))
    rank = distributed.get_rank()
    found = {}
    for case in CASES:
        found[case] = [None, None]
        distributed.all_gather_object(found[case], outcome(case, rank))
    if rank == 0:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
