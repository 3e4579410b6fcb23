"""What may be given of each sequence: lengths, ranks, kinds, loads, ..., and what is told of what may not."""

import array
import collections
import itertools
import re

import batchplan
import numpy
import pytest
import torch
from batchplan.torch import BatchSampler
from lengths import long_tailed

BUDGET = 8192
LENGTHS = long_tailed(200, seed=1)
TOKENS = [[7] * 3, [7] * 5]

FORMS = [
    tuple,
    lambda lengths: numpy.array(lengths, numpy.int64),
    lambda lengths: numpy.array(lengths, numpy.uint16),
    lambda lengths: numpy.repeat(numpy.array(lengths, numpy.uint32), 2)[::2],
    lambda lengths: numpy.array(lengths, object),
    lambda lengths: numpy.ma.masked_array(lengths, mask=False),
    torch.tensor,
    lambda lengths: list(map(torch.tensor, lengths)),
    lambda lengths: array.array("q", lengths),
    lambda lengths: memoryview(array.array("i", lengths)),
    collections.deque,
    # What can be read once.
    iter,
    lambda lengths: (length for length in lengths),
    lambda lengths: itertools.chain(lengths[:3], lengths[3:]),
    lambda lengths: dict(enumerate(lengths)).values(),
    # Floats that are whole.
    lambda lengths: numpy.array(lengths, numpy.float64),
    lambda lengths: list(map(float, lengths)),
    lambda lengths: [float(lengths[0]), *lengths[1:]],
    lambda lengths: numpy.array([float(lengths[0]), *lengths[1:]], object),
    lambda lengths: torch.tensor(lengths, dtype=torch.float32),
]


@pytest.mark.parametrize("made", FORMS)
def test_lengths_come_in_any_form_of_whole_numbers(made):
    expected = batchplan.plan(LENGTHS, dp=2, max_tokens=BUDGET)
    assert batchplan.plan(made(LENGTHS), dp=2, max_tokens=BUDGET).fingerprint == expected.fingerprint


@pytest.mark.parametrize("made", FORMS)
def test_samplers_read_them_once(made):
    kinds, patches = [length % 2 for length in LENGTHS], [length // 4 for length in LENGTHS]
    def sampler(form):
        return BatchSampler(
            form(LENGTHS), 50, dp=2, max_tokens=BUDGET, seed=3, kinds=form(kinds), loads={"patches": form(patches)},
            items={"images": form([[length] for length in patches])} if form in (iter, list, tuple) else None,
            group_ids=form(kinds))
    assert list(sampler(made)) == list(sampler(list))


@pytest.mark.parametrize("lengths, field, value", [
    ([], "manifest.lengths", "empty"),
    (iter([]), "manifest.lengths", "empty"),
    ([3, 0], "manifest.lengths[1]", "0"),
    ([3, -2], "manifest.lengths[1]", "-2"),
    (iter([3, -2]), "manifest.lengths[1]", "-2"),
    ([2**32], "manifest.lengths[0]", "4294967296"),
    ([3, 1.5], "manifest.lengths[1]", "1.5"),
    (numpy.array([3, 1.5]), "manifest.lengths[1]", "1.5"),
    (torch.tensor([3, 1.5]), "manifest.lengths[1]", "1.5"),
    (numpy.array([3, -2.0]), "manifest.lengths[1]", "-2.0"),
    (numpy.array([3, 2.0**40]), "manifest.lengths[1]", "1099511627776.0"),
    ([1.0, float("nan")], "manifest.lengths[1]", "nan"),
    (numpy.array([1.0, numpy.nan]), "manifest.lengths[1]", "nan"),
    (numpy.array([1.0, numpy.inf]), "manifest.lengths[1]", "inf"),
    (numpy.ma.masked_array([1, 2], mask=[False, True]), "manifest.lengths[1]", "masked"),
    (["3"], "manifest.lengths[0]", "3"),
    ([b"3"], "manifest.lengths[0]", "b'3'"),
    (numpy.array(["3"]), "manifest.lengths", None),
    ([3, None], "manifest.lengths[1]", "None"),
    (numpy.array([3, None]), "manifest.lengths[1]", "None"),
    ([3, True], "manifest.lengths[1]", "True"),
    ([numpy.True_, 3], "manifest.lengths[0]", "True"),
    (numpy.array([3, True], object), "manifest.lengths[1]", "True"),
    (numpy.array([True]), "manifest.lengths", None),
    ([3, 1 + 2j], "manifest.lengths[1]", "(1+2j)"),
    # As one array they would be floats, or objects.
    ([3, 2**63, -1], "manifest.lengths[1]", str(2**63)),
    ([2**70], "manifest.lengths[0]", str(2**70)),
    (None, "manifest.lengths", "None"),
    ("12", "manifest.lengths", "'12'"),
    (b"12", "manifest.lengths", "b'12'"),
    (7, "manifest.lengths", "7"),
    (torch.tensor(7), "manifest.lengths", "tensor(7)"),
    ({1, 2}, "manifest.lengths", "{1, 2}"),
    (dict.fromkeys(range(100)), "manifest.lengths", "{0: None, 1: None, 2: None, 3: None, ...}"),
    ([BUDGET + 1], "manifest.lengths[0]", "8193"),
])
def test_wrong_lengths_are_named(lengths, field, value):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.plan(lengths, max_tokens=BUDGET)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.argument == field.removeprefix("manifest.")
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("given, told", [
    ({3, 5}, "must be a list or an array: a set has equal entries once, and no order"),
    (frozenset({3, 5}), "a frozenset has equal entries once, and no order"),
    ({3: 0, 5: 0}.keys(), "a dict_keys has equal entries once"),
    ({3: 0, 5: 0}, r"must be a list or an array, such as its values\(\)"),
])
def test_sets_and_mappings_are_no_lists(given, told):
    for where, arguments in (
        (r"manifest.lengths \(lengths\)", {"lengths": given}),
        (r"manifest.kinds \(kinds\)", {"lengths": [3, 5], "kinds": given}),
        (r"manifest.loads\[0\].values \(loads\)", {"lengths": [3, 5], "loads": {"patches": given}}),
        (r"manifest.items\[0\] \(items\)", {"lengths": [3, 5], "items": {"patches": given}}),
    ):
        with pytest.raises(batchplan.InvalidRequest, match=f"^{where} is .*{told}"):
            batchplan.plan(**arguments, max_tokens=BUDGET)
    with pytest.raises(batchplan.InvalidRequest, match=told):
        BatchSampler(given, 2, max_tokens=BUDGET)
    with pytest.raises(batchplan.InvalidRequest, match=told):
        batchplan.Pool().add(["a", "b"], given)


@pytest.mark.parametrize("tokens", [
    TOKENS,
    [TOKENS[0], TOKENS[0]],
    (tuple(one) for one in TOKENS),
    list(map(numpy.array, TOKENS)),
    list(map(torch.tensor, TOKENS)),
    numpy.array([*map(numpy.array, TOKENS)], object),
    numpy.ones((2, 3), int),
    torch.ones((2, 3), dtype=torch.int64),
])
def test_tokens_are_no_lengths(tokens):
    # As samplers take lists in place of lengths for rows of several sequences, these can't be meant.
    with pytest.raises(batchplan.InvalidRequest, match=re.escape("give [len(t) for t in tokens]")) as caught:
        batchplan.plan(tokens, max_tokens=BUDGET)
    assert caught.value.argument in ("lengths[0]", "lengths")


@pytest.mark.parametrize("name", ["group_ids", "ranks", "ages", "shared_prefixes", "shared_with", "prompt_lengths", "kinds"])
def test_what_else_sequences_have_is_read_the_same(name):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.plan([5, 5], max_tokens=BUDGET, **{name: [0.0, 0.5]})
    assert (caught.value.field, caught.value.value) == (f"manifest.{name}[1]", "0.5")
    given = {"group_ids": [0, 0]} if name == "prompt_lengths" else {}
    shared = {"shared_with": "shared_prefixes", "shared_prefixes": "group_ids"}.get(name)
    if shared:
        given[shared] = [0, 0]
    if name == "ages":
        given["selection"] = batchplan.Selection(sequences=2)
    for form in (list, iter, numpy.array, lambda values: map(float, values)):
        batchplan.plan([5, 5], max_tokens=BUDGET, **{name: form([0, 0])}, **given)


@pytest.mark.parametrize("form", FORMS)
def test_loads_come_in_the_same_forms(form):
    options = {"dp": 2, "max_tokens": BUDGET, "limits": {"patches": 30_000}}
    expected = batchplan.plan(LENGTHS, loads={"patches": LENGTHS}, **options)
    plan = batchplan.plan(LENGTHS, loads={"patches": form(LENGTHS)}, **options)
    assert plan.metrics == expected.metrics and plan.fingerprint == expected.fingerprint


@pytest.mark.parametrize("arguments, argument, value", [
    ({"loads": {"patches": [1.0, None]}}, "loads", "None"),
    ({"loads": {"patches": [1.0, "2"]}}, "loads", "2"),
    ({"loads": {"patches": [1.0, [2]]}}, "loads", "[2]"),
    ({"loads": {"patches": numpy.array([1, True], object)}}, "loads", "True"),
    ({"items": {"patches": [[1.0], [2.0, "3"]]}}, "items", "3"),
    ({"items": {"patches": [[1.0], {2.0}]}}, "items", "{2.0}"),
])
def test_wrong_loads_are_named(arguments, argument, value):
    with pytest.raises(batchplan.InvalidRequest) as caught:
        batchplan.plan([5, 5], max_tokens=BUDGET, **arguments)
    assert (caught.value.argument, caught.value.value) == (argument, value)


def test_arrays_of_uint32_are_read_where_they_stand():
    from batchplan._columns import float64_of, uint32_of

    lengths, loads = numpy.arange(5, dtype=numpy.uint32), numpy.arange(5.0)
    assert numpy.shares_memory(uint32_of("lengths", lengths), lengths)
    assert numpy.shares_memory(float64_of("loads", loads), loads)
