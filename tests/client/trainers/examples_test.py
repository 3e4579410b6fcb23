"""The examples that measure training, beside transformers and by TRL."""

import pathlib
import re
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).parents[3] / "client/python/examples"


def run(name, *options):
    made = subprocess.run([sys.executable, EXAMPLES / name, *options], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_a_step_by_the_sampler_of_transformers_is_measured_too():
    printed = run("train_speedup.py", "--tiny", "--batches", "1", "--runs", "1")
    assert re.search(r"^Hugging Face +\d+ +\d+ +[\d,.]+ ", printed, re.MULTILINE)


def test_grpo_of_trl_is_measured_stock_and_planned():
    printed = run("trl_grpo.py", "--hidden", "16", "--longest", "64", "--max_tokens", "256", "--steps", "1")
    assert re.search(r"^stock [\d,]+ tokens/s, planned [\d,]+: [\d.]+ times as fast$", printed, re.MULTILINE)
