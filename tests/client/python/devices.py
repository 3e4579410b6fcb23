"""The devices that tests of batchplan.torch run on, each by the kernels and by torch's operations."""

import pytest
import torch

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=[(device, backend) for device in DEVICES for backend in ("kernels", "torch")], ids="-".join)
def device(request, monkeypatch):
    name, backend = request.param
    use_backend(monkeypatch, backend)
    return name


def use_backend(monkeypatch, backend):
    """Of rows that are made from now on."""
    if backend == "torch":
        monkeypatch.setenv("BATCHPLAN_TORCH_BACKEND", "torch")
    else:
        monkeypatch.delenv("BATCHPLAN_TORCH_BACKEND", raising=False)
