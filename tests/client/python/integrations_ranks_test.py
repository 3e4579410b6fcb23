"""Integrations whose ranks divide what they have: two processes of a group, of which one has what it can't divide."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from lengths import assert_each_once

PROGRAM = pathlib.Path(__file__).parent / "two_ranks.py"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Of each case that both ranks came to the end of, what came of it on each."""
    pytest.importorskip("torch.distributed")
    store = tmp_path_factory.mktemp("group") / "store"
    ranks = [
        subprocess.Popen([sys.executable, PROGRAM, store, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        printed = [one.communicate(timeout=300)[0].splitlines() for one in ranks]
    finally:
        for one in ranks:
            one.kill()
            one.wait()
    first, second = (dict(map(json.loads, lines)) for lines in printed)
    return {name: [first[name], second[name]] for name in first if name in second}


def test_ranks_make_one_plan_of_equal_and_unequal_numbers(outcomes):
    for case, counts in (("mindspeed_rl: equal", (4, 4)), ("mindspeed_rl: unequal", (3, 4))):
        for parts, count in zip(outcomes[case], counts, strict=True):
            assert len(parts) == 2
            assert_each_once(parts, count)


def test_ranks_have_as_many_trees(outcomes):
    first, second = outcomes["areal trees: unequal"]
    assert sorted(first) == [[0, 1], [2]] and sorted(second) == [[], [0]]


def test_ranks_do_without_a_plan_that_only_one_has(outcomes):
    for case in ("roll: planned", "roll: planned on one"):
        first, second = outcomes[case]
        assert len(first) == len(second), case
        assert_each_once(first + second, 8)


@pytest.mark.parametrize("case, message", [
    ("mindspeed_rl: none on one", "rank 0 of the process group has no sequences"),
    ("mindspeed_rl: too long on one", "max_tokens_per_microbatch .*is 9.*sequence 0 of rank 0 has 10 tokens"),
    ("mindspeed_rl: too few on one", "rank 1 needs 2 micro-batches, but rank 0 has 1 sequence"),
    ("areal trees: too long on one", "max_tokens_per_mb is 9; sequence 0 of rank 1 has 10 tokens"),
    ("areal: none on one", "rank 0 of the process group has 0 sequences"),
    ("areal: too long on one", "max_tokens_per_microbatch .*is 9.*sequence 0 of rank 0 has 10 tokens"),
    ("areal: too few on one", "n_mbs is 2.*rank 0 of the process group has 1 sequences"),
    ("roll: too long on one", "max_tokens_per_microbatch .*is 1024.*multiples of 16.*sequence 0 of rank 0 has 1025"),
])
def test_what_one_rank_can_not_divide_both_refuse_by_its_name(outcomes, case, message):
    assert all(re.search(f"InvalidRequest: .*{message}", outcome) for outcome in outcomes[case])


@pytest.mark.parametrize("case, failing, error", [
    ("mindspeed_rl: fractions on one", 0, "InvalidRequest: seqlen_list has 1 dimensions of float64; must be one, of"),
    ("areal: no numbers on one", 0, "TypeError: "),
    ("areal trees: no tokens on one", 1, "TypeError: "),
    ("roll: no mask on one", 1, "KeyError: 'attention_mask'"),
    ("roll: too long for load_balance on one", 0, "InvalidRequest: manifest.lengths[0] (lengths[0]) is 17"),
    ("roll: too few for load_balance on one", 0, "InvalidRequest: passes[0]: mini-batch 0 has 1 sequence"),
    ("verl: no numbers on one", 0, "InvalidRequest: manifest.lengths[0] (lengths[0]) is None; must be a whole number"),
])
def test_what_fails_on_one_rank_is_an_error_of_both(outcomes, case, failing, error):
    assert outcomes[case][failing].startswith(error)
    assert outcomes[case][1 - failing].startswith("InvalidRequest: another rank of the process group can't divide")
