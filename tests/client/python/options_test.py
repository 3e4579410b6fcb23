"""The options of a plan, as one sees them: in signatures, in help(), in errors, by a type checker."""

import dataclasses
import inspect
import pathlib
import pickle
import re
import subprocess
import sys

import batchplan
import pytest
from batchplan import _choices
from batchplan._argument_names import argument_of, with_arguments
from batchplan._option_table import BY_NAME, FIELDS, OPTIONS, OTHER_FIELDS
from batchplan._request import Request

PROJECT = pathlib.Path(__file__).parents[3]
PROTO = PROJECT / "proto/batchplan/v1"
SOURCE = PROJECT / "client/python/src"
FUNCTIONS = [
    batchplan.plan, batchplan.Client.plan, batchplan.Client.join, batchplan.AsyncClient.plan, batchplan.AsyncClient.join,
]
# What no option of a plan sets: arguments of clients, and costs by a model's shape.
NOT_OPTIONS = {"job_id", "step", "request_id", "cost_model.shape"}
# Set by options of other kinds: cost="fitted".
MADE_OF_OTHERS = {"cost_model.fitted"}
BELOW = {
    "passes": (batchplan.Pass,), "pipeline": (batchplan.Pipeline,), "selection": (batchplan.Selection,),
    "cost_model": (batchplan.CostModel, batchplan.LoadCost), "topology": (batchplan.DynamicContext,),
}


def messages():
    found, own = {}, {}
    for line in (PROTO / "options.proto").read_text().splitlines() + (PROTO / "batch_planner.proto").read_text().splitlines():
        if start := re.match(r"message (\w+)", line):
            own = found[start[1]] = {}
        elif field := re.match(r"\s+(?:repeated |optional )?([\w.]+) (\w+) = \d+;", line):
            own[field[2]] = field[1]
    return found


def fields(message="PlanBatchRequest", prefix=""):
    """Paths of all fields, messages as well as what they have."""
    known = messages()
    for name, kind in known[message].items():
        yield prefix + name
        if kind in known and prefix + name not in NOT_OPTIONS:
            yield from fields(kind, f"{prefix}{name}.")


def is_reached(path):
    whole = {FIELDS[one] for one in FIELDS if one not in ("passes", "pipeline", "selection", "cost", "dynamic_cp")}
    if any(path == one or path.startswith(one + ".") for one in whole):
        return True
    first, _, last = path.rpartition(".")
    if path in FIELDS.values() or any(one.startswith(path + ".") for one in FIELDS.values()):
        return True
    names = {field.name for kind in BELOW.get(path.partition(".")[0], ()) for field in dataclasses.fields(kind)}
    # The coefficients of an exchange are pairs.
    return last in names or first == "cost_model.exchange"


def test_the_table_has_each_option_once():
    assert [one.name for one in OPTIONS] == list(batchplan.PlanOptions.__annotations__)
    assert set(BY_NAME) <= set(FIELDS)


def test_every_field_of_the_contract_is_an_option_or_named_as_none():
    paths = set(fields())
    assert set(FIELDS.values()) <= paths and NOT_OPTIONS | MADE_OF_OTHERS <= paths
    missing = {path for path in paths - NOT_OPTIONS - MADE_OF_OTHERS if not is_reached(path)}
    assert not missing


def test_other_names_are_those_of_a_pass():
    names = {field.name for field in dataclasses.fields(batchplan.Pass)}
    assert set(OTHER_FIELDS) - {"lengths"} <= names


def test_words_are_those_of_the_contract():
    enums = dict(re.findall(r"^enum (\w+) \{(.*?)^\}", (PROTO / "options.proto").read_text(), re.MULTILINE | re.DOTALL))
    for prefix, words in _choices.ENUMS.values():
        (own,) = [body for body in enums.values() if f" {prefix}_UNSPECIFIED =" in body]
        assert {f"{prefix}_{word.upper()}" for word in words} == set(re.findall(r"^  (\w+) = [1-9]", own, re.MULTILINE))


def test_presets_are_those_of_the_planner():
    known = re.search(r"must be.*|preset is .*", str(pytest.raises(
        batchplan.InvalidRequest, batchplan.plan, [1], max_tokens=8, preset="none such").value))[0]
    for word in _choices.get_args(_choices.Preset):
        assert word in known


def test_defaults_are_those_that_a_plan_takes():
    given = {one.name: one.default for one in OPTIONS if one.default is not None and one.name != "groups"}
    plain = batchplan.plan([5, 3, 4], max_tokens=8)
    assert batchplan.plan([5, 3, 4], max_tokens=8, **given).fingerprint == plain.fingerprint
    assert batchplan.plan([5, 3, 4], max_tokens=8, **dict.fromkeys(given)).fingerprint == plain.fingerprint
    assert Request([1], max_tokens=8, **given).ranks == 1


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__qualname__)
def test_signatures_and_help_show_every_option(function):
    parameters = inspect.signature(function).parameters
    for one in OPTIONS:
        assert parameters[one.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[one.name].default == one.default
        assert f"{one.name}: " in function.__doc__
    assert "options" not in parameters
    assert "effort: Literal['fast', 'default', 'thorough'] = 'default'" in str(inspect.signature(function))


def test_what_decides_by_itself_shows_the_others():
    torch = pytest.importorskip("batchplan.torch")
    take, sampler = (inspect.signature(one).parameters for one in (batchplan.Pool.take, torch.BatchSampler))
    assert "dp" in take and "group_ids" not in take and "loads" not in take
    assert "group_ids" in sampler and "ranks" not in sampler and sampler["shuffle"].default is True


@pytest.mark.parametrize("field, name", [
    ("manifest.lengths[1]", "lengths[1]"),
    ("request.manifest.lengths[1]", "lengths[1]"),
    ("manifest.loads[0].values[3]", "loads"),
    ("passes[2].max_tokens_per_microbatch", "max_tokens"),
    ("passes[0].packed.buckets[1]", "buckets[1]"),
    ("passes[0].limits[0].max_per_microbatch", None),
    ("topology.data_parallel", "dp"),
    ("topology.dynamic_context.min_size", "dynamic_cp.min_size"),
    ("cost_model.loads[0].per_unit", "cost.loads[0].per_unit"),
    ("max_sequences_per_microbatch", "max_sequences"),
    ("passes[0].length_multiple", None),
    ("selection.max_age", None),
    ("pipeline.transfer", None),
    ("effort", None),
    ("microbatches[0].tokens", None),
])
def test_fields_have_the_names_of_arguments(field, name):
    assert argument_of(field) == name


def test_the_first_mention_of_a_field_has_its_argument_once():
    message = 'passes[0].max_tokens_per_microbatch is 4, and max_tokens_per_microbatch 5; "dp" is no data_parallel'
    named = with_arguments(message)
    assert named == (
        "passes[0].max_tokens_per_microbatch (max_tokens) is 4, and max_tokens_per_microbatch 5; "
        '"dp" is no data_parallel (dp)')
    assert with_arguments(named) == named
    error = pickle.loads(pickle.dumps(batchplan.InvalidRequest(message)))
    assert (str(error), error.field, error.argument, error.value) == (
        named, "passes[0].max_tokens_per_microbatch", "max_tokens", "4")


def test_errors_name_arguments_here_and_by_a_server(server):
    with batchplan.Client(server) as client:
        for plan in (batchplan.plan, client.plan):
            with pytest.raises(batchplan.InvalidRequest) as caught:
                plan([3, 0], max_tokens=8)
            assert str(caught.value) == (
                "manifest.lengths[1] (lengths[1]) is 0; every sequence has at least one token")
            assert (caught.value.field, caught.value.argument) == ("manifest.lengths[1]", "lengths[1]")
            with pytest.raises(batchplan.InvalidRequest, match=r"max_tokens_per_microbatch \(max_tokens\) is 8"):
                plan([9], max_tokens=8)


@pytest.mark.parametrize("options, message", [
    ({"max_token": 8}, "'max_token' is no option of a plan; did you mean max_tokens?"),
    ({"data_parallel": 8}, "'data_parallel' is no option of a plan; did you mean dp?"),
    ({"packer": "balanced"}, "did you mean passes=[batchplan.Pass(..., packer=...)]?"),
    ({"zzzzzz": 8}, "'zzzzzz' is no option of a plan"),
])
def test_unknown_options_are_told_what_was_meant(options, message):
    with pytest.raises(TypeError) as caught:
        batchplan.plan([1], max_tokens=8, **options)
    assert str(caught.value).endswith(message)


def test_a_wrong_word_is_told_the_right_one():
    with pytest.raises(batchplan.InvalidRequest, match="none of fast, default, thorough; did you mean thorough\\?"):
        batchplan.plan([1], max_tokens=8, effort="thorogh")


@pytest.mark.parametrize("options", [
    {"dp": 0}, {"cp": 0}, {"tp": 0}, {"pp": 0}, {"vpp": 0}, {"dynamic_cp": batchplan.DynamicContext(min_size=0)},
    *({"max_tokens": None, "passes": [batchplan.Pass(8, **{name: 0})]}
      for name in ("length_multiple", "min_microbatches", "microbatch_count_multiple", "sequence_count_multiple")),
])
def test_sizes_are_at_least_1(options):
    with pytest.raises(batchplan.InvalidRequest, match="is 0; must be at least 1"):
        batchplan.plan([1], **{"max_tokens": 8, **options})


def test_a_rank_is_a_sequence_of_micro_batches():
    plan = batchplan.plan([5, 3, 4, 6, 2], dp=2, max_tokens=8)
    own = plan.rank(1)
    assert len(own) == plan.passes[0].microbatches_per_rank[0] > 1
    assert [one.slot for one in own] == list(range(len(own))) == [own[place].slot for place in range(len(own))]
    assert own[-1].indices.tolist() == list(own)[-1].indices.tolist()
    assert len(own[1:]) == len(own) - 1 and own[1:][0].slot == 1
    with pytest.raises(IndexError):
        own[len(own)]


def test_a_wrong_word_fails_to_type_check(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(
        "import batchplan\n"
        'batchplan.plan([1], max_tokens=8, effort="fast", passes=[batchplan.Pass(8, sharding="lpt")])\n'
        'batchplan.plan([1], max_tokens=8, effort="fats")\n'
        'batchplan.Pass(8, sharding="balancd")\n'
        "batchplan.plan([1], max_token=8)\n")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", "--follow-imports", "silent", program],
        cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(SOURCE)}, capture_output=True, text=True)
    assert re.findall(r"program.py:(\d+): error", ran.stdout) == ["3", "4", "5"], ran.stdout + ran.stderr
