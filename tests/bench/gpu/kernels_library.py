"""The C API of the kernels, batchplan/kernels.h, through ctypes.

    library = Library(build(with_cuda=True), torch.device("cuda", 0))
    library.pack(row, sequences, Fields(TensorField(source, destination, width=width)))

Names, meaning and order of the structures' members are those of the headers. They hold addresses:
whoever fills one in keeps its tensors alive. Fields does that by itself.
"""

from __future__ import annotations

import ctypes
import dataclasses
import pathlib
import subprocess
from typing import Sequence

import torch

PROJECT = pathlib.Path(__file__).resolve().parents[3]

HOST = 0
CUDA = 1
TOKENS = 0
POSITION_IDS = 2
ALL_RANKS = 0xFFFFFFFF
FLOAT32 = 0
UINT8 = 4


class Options(ctypes.Structure):
    _fields_ = [
        ("length_multiple", ctypes.c_uint32),
        ("context_parallel", ctypes.c_uint32),
        ("row_width", ctypes.c_uint32),
        ("sequence_width", ctypes.c_uint32),
        ("sharding", ctypes.c_int32),
    ]


class Layout(ctypes.Structure):
    _fields_ = [
        ("cu_seqlens", ctypes.c_void_p),
        ("cu_seqlens_padded", ctypes.c_void_p),
        ("cu_seqlens_padded_per_rank", ctypes.c_void_p),
        ("max_seqlen", ctypes.c_void_p),
        ("max_seqlen_padded", ctypes.c_void_p),
        ("cu_new", ctypes.c_void_p),
        ("least_shared", ctypes.c_void_p),
        ("subtree_end", ctypes.c_void_p),
    ]


class Row(ctypes.Structure):
    _fields_ = [
        ("cu_seqlens", ctypes.c_void_p),
        ("cu_seqlens_padded", ctypes.c_void_p),
        ("num_sequences", ctypes.c_uint32),
        ("options", Options),
        ("context_parallel_rank", ctypes.c_uint32),
        ("least_shared", ctypes.c_void_p),
    ]


class Sequences(ctypes.Structure):
    _fields_ = [
        ("sequence_index", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("num_rows", ctypes.c_uint64),
        ("num_tokens", ctypes.c_uint64),
    ]


class Field(ctypes.Structure):
    _fields_ = [
        ("content", ctypes.c_int32),
        ("element_size", ctypes.c_uint32),
        ("elements_per_token", ctypes.c_uint64),
        ("source", ctypes.c_void_p),
        ("destination", ctypes.c_void_p),
        ("width", ctypes.c_uint64),
        ("token_shift", ctypes.c_int32),
        ("pad_value", ctypes.c_ubyte * 16),
    ]


class Reduction(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.c_void_p),
        ("value_type", ctypes.c_int32),
        ("weights", ctypes.c_void_p),
        ("weight_type", ctypes.c_int32),
        ("denominators", ctypes.c_void_p),
        ("total_denominator", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("weight_sums", ctypes.c_void_p),
        ("means", ctypes.c_void_p),
        ("sum_total", ctypes.c_void_p),
        ("mean_total", ctypes.c_void_p),
    ]


@dataclasses.dataclass(frozen=True)
class TensorField:
    """A field by its tensors. The pad value is the destination's type."""

    source: torch.Tensor
    destination: torch.Tensor
    elements_per_token: int = 1
    width: int = 0
    pad: float = 0
    shift: int = 0
    content: int = TOKENS

    def described(self) -> Field:
        pad = torch.tensor([self.pad], dtype=self.destination.dtype).view(torch.uint8).tolist()
        return Field(
            self.content, self.destination.element_size(), self.elements_per_token,
            self.source.data_ptr(), self.destination.data_ptr(), self.width, self.shift, tuple(pad),
        )


class Fields:
    """The descriptors of some fields, and the tensors they point to."""

    def __init__(self, *fields: TensorField) -> None:
        self.array = (Field * len(fields))(*[field.described() for field in fields])
        self._kept_alive = fields


def build(with_cuda: bool) -> pathlib.Path:
    """Builds the kernels as a shared library and returns its path."""
    folder = PROJECT / "build" / ("kernels-shared" if with_cuda else "kernels-shared-host")
    configure = ["cmake", "-S", str(PROJECT / "kernels"), "-B", str(folder)]
    configure += ["-DBUILD_SHARED_LIBS=ON", "-DCMAKE_BUILD_TYPE=Release"]
    configure += [f"-DBATCHPLAN_CUDA={'ON' if with_cuda else 'OFF'}"]
    for command in (configure, ["cmake", "--build", str(folder), "--parallel"]):
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")
    return folder / "libbatchplan_kernels.so"


class KernelsError(RuntimeError):
    """A status other than BATCHPLAN_OK, in the library's words."""


class Library:
    """The entry points for one device. They enqueue on PyTorch's current stream."""

    def __init__(self, path: pathlib.Path, device: torch.device) -> None:
        self._c = ctypes.CDLL(str(path))
        self._c.batchplan_status_string.restype = ctypes.c_char_p
        size = ctypes.c_size_t
        pointer = ctypes.c_void_p
        u32 = ctypes.c_uint32
        # Behind the backend; the error word, the workspace of a reduction, and the stream come last.
        self._declare("compute_layout", [pointer, pointer, u32, pointer, pointer, pointer, pointer])
        self._declare("pack", [pointer, pointer, pointer, u32, pointer, pointer])
        self._declare("unpack", [pointer, pointer, pointer, u32, pointer, pointer])
        self._declare("reduce", [pointer, pointer, pointer, pointer, size, pointer])
        self._declare("reduce_workspace_size", [u32, u32, pointer])
        self.device = device
        self._backend = CUDA if device.type == "cuda" else HOST
        self._check(self._c.batchplan_backend_status(self._backend))
        self._error_word = torch.zeros(1, dtype=torch.int32, device=device)

    def _declare(self, name: str, arguments: Sequence[type]) -> None:
        getattr(self._c, f"batchplan_{name}").argtypes = [ctypes.c_int32, *arguments]

    def _check(self, status: int) -> None:
        if status != 0:
            raise KernelsError(self._c.batchplan_status_string(status).decode())

    def _end(self) -> tuple[int, int | None]:
        stream = torch.cuda.current_stream().cuda_stream if self._backend == CUDA else None
        return self._error_word.data_ptr(), stream

    def check_error_word(self) -> None:
        """Waits for the device, and raises what the calls since the last time have found there."""
        status = int(self._error_word.item())
        self._error_word.zero_()
        self._check(status)

    def compute_layout(self, lengths: torch.Tensor, options: Options, layout: Layout) -> None:
        error_word, stream = self._end()
        self._check(
            self._c.batchplan_compute_layout(
                self._backend, lengths.data_ptr(), None, len(lengths), ctypes.byref(options),
                ctypes.byref(layout), error_word, stream,
            )
        )

    def pack(self, row: Row, sequences: Sequences, fields: Fields) -> None:
        self._check(
            self._c.batchplan_pack(
                self._backend, ctypes.byref(row), ctypes.byref(sequences), fields.array,
                len(fields.array), *self._end(),
            )
        )

    def unpack(self, row: Row, sequences: Sequences, fields: Fields) -> None:
        self._check(
            self._c.batchplan_unpack(
                self._backend, ctypes.byref(row), ctypes.byref(sequences), fields.array,
                len(fields.array), *self._end(),
            )
        )

    def reduce_workspace(self, num_sequences: int, row_width: int) -> torch.Tensor:
        size = ctypes.c_size_t()
        self._check(
            self._c.batchplan_reduce_workspace_size(
                self._backend, num_sequences, row_width, ctypes.byref(size)
            )
        )
        return torch.empty(size.value, dtype=torch.uint8, device=self.device)

    def reduce(self, row: Row, reduction: Reduction, workspace: torch.Tensor) -> None:
        error_word, stream = self._end()
        self._check(
            self._c.batchplan_reduce(
                self._backend, ctypes.byref(row), ctypes.byref(reduction), error_word,
                workspace.data_ptr(), workspace.numel(), stream,
            )
        )
