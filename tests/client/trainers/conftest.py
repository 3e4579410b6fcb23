"""Trainers stay offline, and their threads out of each other's way."""

import os

# Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
