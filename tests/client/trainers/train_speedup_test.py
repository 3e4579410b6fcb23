"""The example that measures a training step under the planners in use, beside transformers."""

import pathlib
import re
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).parents[3] / "client/python/examples/train_speedup.py"


def test_a_step_by_the_sampler_of_transformers_is_measured_too():
    few = ["--tiny", "--batches", "1", "--runs", "1"]
    made = subprocess.run([sys.executable, EXAMPLE, *few], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    assert re.search(r"^Hugging Face +\d+ +\d+ +[\d,.]+ ", made.stdout, re.MULTILINE)
