"""The example that measures a training step under the planners in use."""

import pathlib
import re
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).parents[3] / "client/python/examples/train_speedup.py"


def test_the_speed_up_is_measured_beside_what_the_costs_predict():
    few = ["--sequences", "12", "--ranks", "2", "--budget", "512", "--longest", "256", "--batches", "2", "--runs", "2"]
    made = subprocess.run([sys.executable, EXAMPLE, "--small", *few], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    printed = made.stdout
    lines = printed.splitlines()
    assert re.match(r"costs: [-\d.e]+ ms a token, .* a micro-batch; error [\d.]+%", lines[1])
    planners = [line[:24].strip() for line in lines[3:-1]]
    assert planners == [
        "pad to longest", "Hugging Face", "NeMo-RL packing", "verl", "balanced", "balanced, equal counts"]
    figures = r"balanced +\d+ +0 +[\d,.]+ +[\d.]+% +\+0.0% +\+0.0% to \+0.0% +[\d,.]+ +[\d.]+%"
    assert re.search(figures, printed)
    assert re.match(r"of \d+ pairs of plans .* \d+ were measured in that order", lines[-1])
