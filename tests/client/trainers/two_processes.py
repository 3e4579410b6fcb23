"""A program of this folder run by torchrun in two processes, which write what they saw."""

import json
import pathlib
import subprocess
import sys


def run(program, folder):
    """Of each rank the JSON that it wrote into the folder."""
    made = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         pathlib.Path(__file__).with_name(program), folder],
        capture_output=True, text=True, timeout=600,
    )
    assert made.returncode == 0, made.stderr[-8000:]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]
