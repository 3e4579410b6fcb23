"""The READMEs' programs and the examples run, and print what they say."""

import collections
import importlib
import inspect
import pathlib
import re
import subprocess
import sys

import batchplan
import pytest

PACKAGE = pathlib.Path(__file__).parents[3] / "client/python"


def run_example(name, *arguments):
    made = subprocess.run(
        [sys.executable, PACKAGE / "examples" / name, *arguments], capture_output=True, text=True, timeout=600
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def example(name, monkeypatch):
    """As a module of this process."""
    torch = pytest.importorskip("torch")
    # Other tests run here too.
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.syspath_prepend(PACKAGE / "examples")
    return importlib.import_module(name)


def test_the_readme_is_a_program(server, monkeypatch, capsys, tmp_path):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(PACKAGE / "examples")
    text = (PACKAGE / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == len(re.findall("```python", text)) > 8
    program = "\n".join(blocks).replace("dns:///planner:50051", server)
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    for comment in re.findall(r"^\s*print\([a-z]+\) +# (.+)$", program, re.MULTILINE):
        assert comment in printed
    (shown,) = re.findall(r"^prints\n```\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    assert shown in printed


def test_the_projects_readme_begins_with_a_program(capsys):
    text = (PACKAGE.parents[1] / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("<Plan: 10 sequences on 2 ranks x 2 micro-batches, ")
    assert printed[1:5] == ["[2]", "[   0 3800]", "[3 4 7]", "[   0 1200 1855 3355]"]
    assert printed[5].startswith("0.614")


def named_in(page):
    """The calls of an integration, as a page has them: module, function, keywords."""
    text = (PACKAGE / page).read_text()
    called = re.findall(r"batchplan\.integrations\.(\w+)\.(\w+)\(([^)]*)\)", text)
    for block in re.findall(r"```diff\n(.*?)```", text, re.DOTALL):
        for module, name in re.findall(r"from batchplan\.integrations\.(\w+) import (\w+)", block):
            called += [(module, name, given) for given in re.findall(rf"\b{name}\(([^)]*)\)", block)]
        for module in re.findall(r"from batchplan\.integrations import (\w+)", block):
            called += [(module, *call) for call in re.findall(rf"\b{module}\.(\w+)\(([^)]*)\)", block)]
    return {(module, name, tuple(re.findall(r"(\w+)=", given))) for module, name, given in called}


@pytest.mark.parametrize("page", ["README.md", "trainers.md"])
def test_what_is_to_be_written_in_a_trainer_is_there(page):
    calls = named_in(page)
    assert len({module for module, *_ in calls}) > 15
    for module, name, keywords in calls:
        function = getattr(importlib.import_module(f"batchplan.integrations.{module}"), name)
        if keywords:
            parameters = inspect.signature(function).parameters
            known = {*parameters, *batchplan.PlanOptions.__annotations__} if "options" in parameters else parameters
            assert set(keywords) <= set(known), (module, name, keywords)


def test_the_trainers_page_has_no_programs_that_nothing_runs():
    assert "```python" not in (PACKAGE / "trainers.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "trainers.md", "../../README.md"])
def test_links_lead_to_a_file_and_its_heading(page):
    page = PACKAGE / page
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", prose)
    assert links
    for path, heading in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, heading


@pytest.mark.parametrize("workers", ["1", "2"])
def test_grpo_trains_against_a_server(server, workers):
    pytest.importorskip("torch")
    printed = run_example(
        "grpo.py", "--server", server, "--workers", workers, "--steps", "6", "--prompts", "2", "--budget", "256")
    assert "(calibrated costs, predicted " in printed
    if workers == "2":
        assert "(fitted costs, predicted " in printed
    turns = (r"step [05]: [\d,]+ tokens, [\d,]+ of them laid, in \d+ micro-batches, .*, in turns shared \d+ ms, "
             r"whole \d+ ms, verl \d+ ms, padded \d+ ms")
    assert len(re.findall(turns, printed)) == 2
    laid, whole, verl, padded = printed.splitlines()[-4:]
    shared, unshared = (int(count.replace(",", "")) for count in re.findall(r"[\d,]*\d", laid))
    assert re.fullmatch(r"tokens laid: [\d,]+ shared, [\d,]+ whole", laid) and shared < 0.8 * unshared
    # What was measured can be noise, but no plan of the same costs is predicted to be faster.
    for name, line in (("whole", whole), ("verl", verl)):
        pattern = rf"{name} steps took \d+\.\d\d times as long as shared ones; predicted (\d+\.\d\d)"
        assert 1 < float(re.fullmatch(pattern, line)[1]) < 10
    assert re.fullmatch(r"padded steps took \d+\.\d\d times as long as shared ones", padded)


def test_grpo_learns_the_same_from_shared_prompts(monkeypatch):
    """Loss and gradients are those of whole sequences, and of padded ones."""
    torch = pytest.importorskip("torch")
    grpo = example("grpo", monkeypatch)
    monkeypatch.setattr(grpo.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(grpo.distributed, "get_world_size", lambda: 1)
    torch.manual_seed(0)
    model = grpo.Transformer(grpo.TINY).double()
    batch = grpo.sample(3, 0, torch.Generator().manual_seed(1))
    batch.advantages = batch.advantages.double()
    shared = {"group_ids": batch.group_ids, "prompt_lengths": batch.prompt_lengths}
    gradients = []
    for microbatches in (
        list(batchplan.plan(batch.lengths, max_tokens=512, **shared).rank(0)),
        list(batchplan.plan(batch.lengths, max_tokens=512).rank(0)),
        grpo.padded(batch, 512),
    ):
        for microbatch in microbatches:
            grpo.run(model, microbatch, batch, 1000)
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        model.zero_grad()
    for other in gradients[1:]:
        for found, expected in zip(gradients[0], other):
            assert float(expected.abs().max()) > 1e-6
            # Root mean squares are of single precision.
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 * float(expected.abs().max()))


def test_grpo_refuses_answers_that_do_not_begin_with_their_prompt(monkeypatch):
    torch = pytest.importorskip("torch")
    grpo = example("grpo", monkeypatch)
    batch = grpo.sample(1, 0, torch.Generator().manual_seed(1))
    plan = batchplan.plan(
        batch.lengths, max_tokens=4096, group_ids=batch.group_ids, prompt_lengths=batch.prompt_lengths)
    (microbatch,) = plan.rank(0)
    batch.tokens[microbatch.indices[1], 5] += 1
    with pytest.raises(ValueError, match=f"tokens of sequence {microbatch.indices[1]} has .* at token 5"):
        grpo.run(None, microbatch, batch, 1)


def test_groups_that_differ_in_size_train_as_the_padded_batch():
    """The program fails where they do not."""
    pytest.importorskip("torch")
    printed = run_example("dynamic_context.py", "--steps", "5")
    steps = re.findall(r"^step \d: .* in groups \((.*)\); loss .*; against the padded batch", printed, re.MULTILINE)
    assert len(steps) == 5
    assert len({size for step in steps for size in re.findall(r"\d+ of (\d+)", step)}) > 1


def test_an_asynchronous_loop_loses_no_answer_and_trains_none_too_old():
    pytest.importorskip("torch")
    counts, lengths, speed = run_example("async_grpo.py", "--steps", "40").splitlines()
    pattern = r"2560 answers trained, \d+ wait, (\d+) were too old, 0 lost; the oldest that was trained was of age (\d+) "
    too_old, oldest = map(int, re.match(pattern, counts).groups())
    assert too_old == 0 and oldest <= 8
    # The mean, and lengths up to which there are as many of what was trained as of what was generated.
    pairs = re.findall(r"([\d.]+) and ([\d.]+)", lengths)
    assert len(pairs) == 6
    for trained, generated in pairs:
        assert abs(float(trained) / float(generated) - 1) < 0.05, lengths
    # The clock can be noise; the costs are the same for both.
    assert float(speed.rpartition(" ")[2]) > 1.1


def test_planners_are_timed_once_in_every_place(monkeypatch):
    grpo = example("grpo", monkeypatch)
    monkeypatch.setattr(grpo.distributed, "barrier", lambda: None)
    monkeypatch.setattr(grpo, "gather", lambda value: [value, [7.5]])
    order = []

    def run(model, microbatch, batch, global_tokens):
        order.append(microbatch)
        return 10.0 - len(order) % 4

    monkeypatch.setattr(grpo, "run", run)
    model = type("Model", (), {"zero_grad": lambda self: None})()
    took = grpo.in_turns(model, {"one": ["a", "b"], "two": ["c"], "three": ["d"]}, None)
    # The first, "d", "ab" and "c", warms up, and would have been the fastest.
    assert "".join(order) == "dabc" + "abcd" + "cdab" + "dabc"
    assert took == {"one": 7.5 + 7.0, "two": 7.5, "three": 8.0}


def test_the_speed_up_is_measured_beside_what_the_costs_predict():
    pytest.importorskip("torch")
    printed = run_example("train_speedup.py", "--tiny", "--batches", "2", "--runs", "2")
    lines = printed.splitlines()
    assert re.fullmatch(r"0.1 M parameters on .*, 2 batches of 16 sequences on 2 ranks, .*; 2 runs", lines[0])
    assert re.match(r"costs: [-\d.e]+ ms a token, .* a micro-batch; error [\d.]+%", lines[1])
    planners = [line[:24].strip() for line in lines[3:-2]]
    # Where transformers is installed.
    if "Hugging Face" in planners:
        planners.remove("Hugging Face")
    assert planners == [
        "pad to longest", "Hugging Face, in order", "TRL packing", "slime", "NeMo-RL packing", "verl", "balanced",
        "balanced, equal counts",
    ]
    figures = r"balanced +\d+ +0 +[\d,.]+ +[\d.]+% +\+0.0% +\+0.0% to \+0.0% +[\d,.]+ +[\d.]+%"
    assert re.search(figures, printed)
    assert re.match(r"predictions were off by [\d.]+% on the mean, [\d.]+% at most", lines[-2])
    assert re.match(r"of \d+ pairs of plans .* \d+ were measured in that order", lines[-1])


def test_every_planner_is_measured_as_often_and_its_fastest_runs_count(monkeypatch, capsys):
    train_speedup = example("train_speedup", monkeypatch)
    cost = batchplan.CostModel(0.01, 2e-6, 3.0)
    runs = collections.Counter()

    def measure(machine, step, tokens):
        runs[id(step)] += 1
        late = 1.5 if runs[id(step)] == 2 else 1.0
        return [
            [late * train_speedup.predicted(train_speedup.as_computed(one), cost) for one in rank] for rank in step
        ]

    monkeypatch.setattr(train_speedup, "calibrate", lambda *_, **__: batchplan.torch.Calibration(cost, 0.0, ()))
    monkeypatch.setattr(train_speedup.Machine, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["train_speedup.py", "--tiny", "--batches", "2", "--runs", "3"])
    train_speedup.main()
    lines = capsys.readouterr().out.splitlines()
    rows = lines[3:-2]
    # Padded ones come first, and once.
    assert list(runs.values()) == [1, *[3] * (len(rows) - 1)] * 2
    assert all(re.search(r" 50.0% ", row) and row.endswith(" 0.0%") for row in rows[1:]), rows
    pairs, right = map(int, re.findall(r"(\d+) (?:pairs|were)", lines[-1]))
    assert 0 < pairs == right


@pytest.mark.parametrize("name, arguments, message", [
    ("train_speedup", ["--batches", "0"], "--batches is 0; must be at least 1"),
    ("train_speedup", ["--runs", "-1"], "--runs is -1; must be at least 1"),
    ("train_speedup", ["--sequences", "0"], "--sequences is 0; must be at least 1"),
    ("train_speedup", ["--sequences", "15"], "--sequences is 15; must be a multiple of --ranks, 2"),
    ("train_speedup", ["--longest", "300"], "--longest is 300; must be at most --budget, 256"),
    ("grpo", ["--steps", "0"], "--steps is 0; must be at least 1"),
    ("grpo", ["--budget", "255"], "--budget is 255; must be at least 256"),
])
def test_a_measurement_of_nothing_is_refused(name, arguments, message, monkeypatch, capsys):
    module = example(name, monkeypatch)
    tiny = ["--tiny"] if name == "train_speedup" else []
    monkeypatch.setattr(sys, "argv", [name, *tiny, *arguments])
    with pytest.raises(SystemExit):
        module.main()
    assert f"error: {message}" in capsys.readouterr().err
