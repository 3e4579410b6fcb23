"""The READMEs' programs and the examples run, and print what they say."""

import pathlib
import re
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parents[3] / "client/python"


def run_example(name, *arguments):
    made = subprocess.run(
        [sys.executable, PACKAGE / "examples" / name, *arguments], capture_output=True, text=True, timeout=600
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_the_readme_is_a_program(server, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(PACKAGE / "examples")
    text = (PACKAGE / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == len(re.findall("```python", text)) > 8
    program = "\n".join(blocks).replace("dns:///planner:50051", server)
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    for comment in re.findall(r"^\s*print\([a-z]+\) +# (.+)$", program, re.MULTILINE):
        assert comment in printed


def test_the_projects_readme_begins_with_a_program(capsys):
    text = (PACKAGE.parents[1] / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("<Plan: 10 sequences on 2 ranks x 2 micro-batches, ")
    assert printed[1:5] == ["[2]", "[   0 3800]", "[3 4 7]", "[   0 1200 1855 3355]"]
    assert printed[5].startswith("0.614")


def test_grpo_trains_against_a_server(server):
    pytest.importorskip("torch")
    printed = run_example("grpo.py", "--server", server, "--steps", "6", "--prompts", "4", "--budget", "512")
    assert re.search(r"step 0: [\d,]+ tokens in \d+ micro-batches, \d+ ms .* padded \d+ ms, as verl \d+ ms", printed)
    assert "default costs" in printed and "fitted costs" in printed and "step 5:" in printed
    last = r"saved -?\d+% of the padded steps' time, and -?\d+% of that by verl's rule, on average"
    assert re.fullmatch(last, printed.splitlines()[-1])
