"""Trainers stay offline, and their threads out of each other's way."""

import os
import pathlib
import sys

# Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
# For what the tests of the package alone have too.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "python"))
