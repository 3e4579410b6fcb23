"""The examples that measure training, beside transformers and by TRL; and FlexAttention in theirs."""

import importlib
import pathlib
import re
import subprocess
import sys

import numpy
import torch
from batchplan.torch import PackedBatch
from forests import forests, micro_batch
from torch.nn.attention import flex_attention as flex_module

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


def test_flex_attention_is_that_of_dense_masks(monkeypatch):
    """As on a GPU, but not compiled, and with the gradient that it refuses on a CPU."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(flex_module, "_validate_device", lambda *_: None)
    transformer = importlib.import_module("transformer")
    monkeypatch.setattr(transformer, "compiled_flex_attention", lambda: flex_module.flex_attention)
    torch.manual_seed(0)
    random = numpy.random.default_rng(1)
    for lengths, shared in forests(3):
        planned = micro_batch(lengths, shared, int(random.integers(0, 3)))
        packed = PackedBatch(planned, {"x": torch.zeros(len(lengths), 60)})
        width = packed.row.width
        inputs = [torch.randn(width, 2, 16, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        weights = torch.randn(width, 2, 16, dtype=torch.float64)
        found = []
        dense = transformer.tree_attention(packed)
        assert dense.func is transformer.path_attention and dense(*inputs).shape == (width, 2, 16)
        if not width:
            continue
        for mixed in (dense(*inputs), transformer.flexible_attention(*inputs, packed.block_mask())):
            found.append([mixed, *torch.autograd.grad((mixed * weights).sum(), inputs)])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
