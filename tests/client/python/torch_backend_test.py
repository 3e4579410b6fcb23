"""torch's own operations pack, unpack and sum up as the kernels do, and are used where the kernels can't run."""

import contextlib
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch")

import batchplan
from batchplan import _core
from batchplan.torch import PackedBatch, PackedRow, _backend, backend, pack, sums, unpack
from devices import DEVICES, use_backend

FLOAT8 = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]
DTYPES = [torch.bool, torch.uint8, *FLOAT8, torch.bfloat16, torch.float32, torch.int64, torch.complex64, torch.complex128]


def bits(tensor):
    """NaN are equal if they are the same ones."""
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return tensor.detach().contiguous().view(torch.uint8)


def by_both(monkeypatch, work):
    """What work() returns, by the kernels and by torch's operations."""
    found = []
    for name in ("kernels", "torch"):
        use_backend(monkeypatch, name)
        found.append(work())
    return found


def assert_the_same(found):
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert torch.equal(bits(one), bits(other))


class Case:
    """A micro-batch and one of its layouts, at random: packed or padded, with a tail or without, for one rank or all."""

    def __init__(self, seed, device):
        self.random = generator = numpy.random.default_rng(seed)
        self.torch_random = torch.Generator().manual_seed(seed)
        self.device = device
        self.lengths = generator.integers(1, 40, generator.integers(1, 24))
        self.cp = int(generator.choice([1, 2, 4]))
        self.zigzag = bool(generator.integers(2))
        kind = generator.choice(["none", "capacity", "padded"])
        options = {"scan": "sorted"} if kind == "padded" else {"rows": kind}
        plan = batchplan.plan(self.lengths, cp=self.cp, passes=[batchplan.Pass(256, **options)])
        microbatches = list(plan.rank(0))
        self.microbatch = microbatches[int(generator.integers(len(microbatches)))]
        self.cp_rank = None if generator.integers(3) == 0 else int(generator.integers(self.cp))
        self.shift = int(generator.choice([0, 1, -1, 3, 1000, 2**31 - 1]))
        self.num_rows = len(self.lengths) if generator.integers(2) else None

    def row(self):
        return PackedRow(self.microbatch, device=self.device, cp=self.cp, cp_rank=self.cp_rank, zigzag=self.zigzag)

    def values(self, dtype, *shape):
        """Any bits there are."""
        size = torch.full((1,), 0).new_empty(0, dtype=dtype).element_size()
        if dtype == torch.bool:
            return (torch.rand(shape, generator=self.torch_random) < 0.5).to(self.device)
        drawn = torch.randint(0, 256, (*shape, size), generator=self.torch_random, dtype=torch.uint8)
        if dtype.is_complex:
            part = torch.float32 if dtype == torch.complex64 else torch.float64
            drawn = torch.view_as_complex(drawn.view(part))
        else:
            drawn = drawn.view(dtype)[..., 0]
        return drawn.to(self.device)

    def pad_value(self, dtype):
        if dtype == torch.bool:
            return True
        return {True: float("nan"), False: 100}[dtype.is_floating_point or dtype.is_complex]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_bit_is_packed_and_unpacked_alike(monkeypatch, device, dtype, seed):
    case = Case(seed, device)
    shape = [(), (3,), (2, 5), (0,)][seed % 4]
    count, longest = len(case.lengths), int(case.lengths.max())
    padded = case.values(dtype, count, longest + 2, *shape)
    row_values = case.values(dtype, case.row().width, *shape)
    one_each = case.values(dtype, count)
    lists = [padded[place, : length + place % 3] for place, length in enumerate(case.lengths)]
    own = torch.from_numpy(case.microbatch.indices.astype(numpy.int64)).to(device)
    filling = {"pad_value": case.pad_value(dtype), "shift": case.shift}

    def work():
        row = case.row()
        batch = PackedBatch(row, {}, per_sequence={"one": one_each}, pad_values={"one": filling["pad_value"]})
        return [
            pack(row, padded, **filling),
            pack(row, padded[own], gathered=True, **filling),
            pack(row, lists, **filling),
            batch["one"],
            batch.position_ids,
            batch.sequence_ids,
            unpack(row, row_values, num_rows=case.num_rows, **filling),
            unpack(row, row_values, num_rows=case.num_rows, width=longest + 5, **filling),
        ]

    assert_the_same(by_both(monkeypatch, work))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(40))
def test_gradients_are_alike(monkeypatch, device, seed):
    case = Case(seed, device)
    count, longest = len(case.lengths), int(case.lengths.max())
    padded = torch.randn(count, longest, 2, generator=case.torch_random).to(device)
    row_values = torch.randn(case.row().width, generator=case.torch_random).to(device)
    weights = torch.rand(case.row().width, generator=case.torch_random).to(device)

    def work():
        row = case.row()
        ragged = [padded[place, :length].clone().requires_grad_() for place, length in enumerate(case.lengths)]
        inputs = [one.clone().requires_grad_() for one in (padded, row_values, weights)]
        made = [
            pack(row, inputs[0], shift=case.shift),
            pack(row, ragged, shift=case.shift),
            unpack(row, inputs[1], shift=case.shift, num_rows=case.num_rows),
            sums(row, inputs[1], inputs[2])[0],
        ]
        total = sum((one * torch.arange(one.numel(), device=device).view(one.shape)).sum() for one in made)
        found = torch.autograd.grad(total, [*inputs, *ragged], allow_unused=True)
        return [torch.zeros(0) if one is None else one for one in found]

    assert_the_same(by_both(monkeypatch, work))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(40))
def test_sums_are_alike_in_single_precision(monkeypatch, device, seed):
    case = Case(seed, device)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool, torch.uint8, torch.int64):
        values = (100 * torch.randn(case.row().width, generator=case.torch_random)).to(dtype).to(device)
        weights = case.values(torch.bool, case.row().width)
        one, other = by_both(monkeypatch, lambda: [*sums(case.row(), values, weights), *sums(case.row(), values)])
        torch.testing.assert_close(other, one, rtol=1e-6, atol=0)


def test_sums_do_not_depend_on_where_a_sequence_stands(monkeypatch):
    use_backend(monkeypatch, "torch")
    lengths = [1000, 3, 33, 40_000, 32, 1]
    values = [torch.randn(length) * 10 ** torch.randint(-6, 6, (length,)) for length in lengths]
    (together,) = batchplan.plan(lengths, max_tokens=65536, cp=2).rank(0)
    row = PackedRow(together, cp=2, cp_rank=None)
    found, _ = sums(row, pack(row, values))
    for place, index in enumerate(together.indices.tolist()):
        (alone,) = batchplan.plan([lengths[index]], max_tokens=65536).rank(0)
        assert torch.equal(sums(alone, values[index])[0], found[place : place + 1])
        assert found[place].item() == pytest.approx(values[index].double().sum().item(), rel=1e-6)


def test_sums_of_a_row_take_memory_by_its_tokens(monkeypatch):
    """Not by the longest sequence for each."""
    use_backend(monkeypatch, "torch")
    lengths = [60_000] + [1] * 5000
    (microbatch,) = batchplan.plan(lengths, max_tokens=65536).rank(0)
    row = PackedRow(microbatch)
    found, counts = sums(row, torch.ones(row.width))
    assert found.tolist() == counts.tolist() == microbatch.lengths.tolist()
    assert sum(index.numel() for index in row.moves._tree()) < 1_000_000


def test_says_what_is_used_and_why(monkeypatch):
    use_backend(monkeypatch, "kernels")
    assert backend("cpu") == _backend.Backend("kernels on the host")
    assert str(backend("cpu")) == "kernels on the host" and backend("cpu").reason == ""
    assert backend("xpu").name == "torch's operations"
    assert str(backend("xpu")) == "torch's operations: the kernels run on CUDA and on the host, not on xpu"
    with pytest.raises(ValueError, match="device is meta, whose tensors have no memory"):
        backend("meta")
    with pytest.raises(ValueError, match="device is meta"):
        pack(next(iter(batchplan.plan([3], max_tokens=4).rank(0))), torch.empty(1, 3, device="meta"))
    use_backend(monkeypatch, "torch")
    assert backend("cpu") == _backend.Backend("torch's operations", "BATCHPLAN_TORCH_BACKEND is torch")
    monkeypatch.setenv("BATCHPLAN_TORCH_BACKEND", "numpy")
    with pytest.raises(ValueError, match="BATCHPLAN_TORCH_BACKEND is 'numpy'; must be 'torch', or not set"):
        backend()


@pytest.mark.parametrize("status", [2, 3])
def test_of_cuda_the_kernels_are_asked(monkeypatch, status):
    """Not built, or no device that there is code for."""
    use_backend(monkeypatch, "kernels")
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    for found, name in ((status, "torch's operations"), (0, "kernels on CUDA")):
        monkeypatch.setattr(_core, "backend_status", lambda kind, found=found: found if kind == 1 else 99)
        monkeypatch.setattr(_core, "backend_error", lambda kind: "an old driver")
        _backend._on_cuda.cache_clear()
        reason = f"{_core.status_string(found)}: an old driver" if found else ""
        assert backend("cuda:0") == _backend.Backend(name, reason)
    _backend._on_cuda.cache_clear()


ONE_WARNING = """
import warnings
import batchplan, torch
from batchplan.torch import PackedBatch, PackedRow, _backend

_backend.backend = lambda device: _backend.Backend("torch's operations", "no driver was found")
(microbatch,) = batchplan.plan([3, 5], max_tokens=16).rank(0)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    for _ in range(3):
        batch = PackedBatch(microbatch, {"ids": torch.ones(2, 5)})
assert len(found) == 1 and found[0].category is RuntimeWarning, found
print(found[0].message)
print(type(batch.row.moves).__name__)
"""


def test_warns_once_where_the_kernels_can_not_run(monkeypatch):
    use_backend(monkeypatch, "kernels")
    said = subprocess.run([sys.executable, "-c", ONE_WARNING], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == [
        "batchplan.torch moves tensors on cpu by torch's operations, which is slower: no driver was found",
        "TorchOperations",
    ]
