#!/usr/bin/env python3
"""Pack, unpack and reduce on the GPU beside a copy of the same bytes and beside PyTorch.

    tests/bench/gpu/pack_bench.py                  # the current CUDA device
    tests/bench/gpu/pack_bench.py --device cpu     # the host backend; says nothing about a GPU

Needs PyTorch, and CMake to build the kernels as a shared library unless --library names one. Every
result is compared with PyTorch's before it is timed, bit for bit (sums: within rounding). Last
comes one Markdown table:

    µs           on the stream, from a cold L2; on the CPU wall time
    host µs      of the call on the host, through ctypes for ours; meter.py says how both are taken
    GB/s         true tokens read and all of the output written, over the time
    of copy      the time of tensor.copy_ (cudaMemcpyAsync) for as many bytes, over this time
    of ours      this time over ours
    launches     kernels, copies and fills that the device ran; waits: how often the host waited

The other ways: PyTorch's index_select by an index (made beforehand, for free here), nested tensors, the
loop over sequences with .item() of NeMo-RL and ROLL, and unpad_input and pad_input by a mask, as verl
packs. The exit status is 1 if a result was
wrong.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Callable, Iterator

import torch

import cases
import kernels_library as kernels
from cases import Case
from meter import Measurement, Meter

HIDDEN = 4096
# Tokens of 8190 bytes, all but a few of which begin off 16 bytes.
ODD_HIDDEN = 4095


def parse_arguments() -> argparse.Namespace:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--library", type=pathlib.Path, help="libbatchplan_kernels.so, else built")
    parser.add_argument("--tokens", type=int, help="of a micro-batch; 131072, on the CPU 8192")
    parser.add_argument("--repetitions", type=int, help="of each timing; 100, on the CPU 15")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.exit(
            1,
            "No CUDA device: torch.cuda.is_available() is false, so there are no GPU figures to "
            "give. --device cpu runs the host backend instead.\n",
        )
    return arguments


def all_cases(library: kernels.Library, tokens: int) -> Iterator[Callable[[], Case]]:
    """One after the other, so that only one holds its tensors."""
    for hidden, kind in ((HIDDEN, "aligned"), (ODD_HIDDEN, "odd")):
        rows = f"{kind} rows of {hidden} bf16"
        yield lambda: cases.rows_packed(library, f"pack {rows}", tokens, hidden)
        yield lambda: cases.rows_packed(library, f"pack {rows}, 1 of CP 8", tokens, hidden, 8)
        yield lambda: cases.rows_unpacked(library, f"unpack {rows}", tokens, hidden)
        yield lambda: cases.rows_unpacked(library, f"unpack {rows}, all of CP 8", tokens, hidden, 8)
    yield lambda: cases.fields_packed(library, "pack six fields", tokens)
    yield lambda: cases.fields_packed(library, "pack six fields, 1 of CP 8", tokens, 8)
    yield lambda: cases.fields_unpacked(library, "unpack six fields", tokens)
    yield lambda: cases.fields_unpacked(library, "unpack six fields, all of CP 8", tokens, 8)
    yield lambda: cases.one_field_unpacked(library, "unpack one float32 field", tokens)
    yield lambda: cases.laid_out_and_packed(library, "layout, pack six fields", tokens)
    yield lambda: cases.summed(library, "sum per sequence", tokens)


def copy_of(num_bytes: int, device: torch.device) -> Callable[[], object]:
    """Reads and writes `num_bytes` together."""
    source = torch.ones(num_bytes // 2, dtype=torch.uint8, device=device)
    destination = torch.empty_like(source)
    return lambda: destination.copy_(source)


def table_row(
    case: str,
    way: str,
    num_bytes: int,
    measured: Measurement,
    copy: Measurement,
    ours: Measurement | None = None,
) -> list[str]:
    def count(value: int | None) -> str:
        return "-" if value is None else str(value)

    return [
        case,
        way,
        f"{measured.seconds * 1e6:.1f}",
        f"{num_bytes / measured.seconds / 1e9:.1f}",
        f"{copy.seconds / measured.seconds:.1%}",
        "" if ours is None else f"{measured.seconds / ours.seconds:.1f}",
        count(measured.launches),
        count(measured.waits),
        f"{measured.host_seconds * 1e6:.1f}",
    ]


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * 2 + ["---:"] * (len(heads) - 2), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measure_case(case: Case, meter: Meter, device: torch.device) -> tuple[list[list[str]], bool]:
    """The rows of a case, and whether every way gave the right result. A wrong one is not timed."""
    copy = meter.measure(copy_of(case.num_bytes, device))
    rows = [table_row(case.name, "copy of as many bytes", case.num_bytes, copy, copy)]
    all_right = True
    ours: Measurement | None = None
    for way in case.ways:
        try:
            way.check()
            measured = meter.measure(way.call)
            ours = ours or measured
            rows.append(table_row("", way.name, case.num_bytes, measured, copy, ours))
            print(f"{case.name}: {way.name}: right", file=sys.stderr)
        except (AssertionError, RuntimeError) as error:
            print(f"{case.name}: {way.name}: WRONG: {error}", file=sys.stderr)
            rows.append(["", way.name, "wrong", *["-"] * 6])
            all_right = False
    return rows, all_right


def main() -> int:
    arguments = parse_arguments()
    on_gpu = arguments.device == "cuda"
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    library = kernels.Library(arguments.library or kernels.build(on_gpu), device)
    tokens = arguments.tokens or (131072 if on_gpu else 8192)
    meter = Meter(device, arguments.repetitions or (100 if on_gpu else 15))
    torch.manual_seed(1)
    rows: list[list[str]] = []
    all_right = True
    for make in all_cases(library, tokens):
        more, right = measure_case(make(), meter, device)
        rows += more
        all_right = all_right and right
    name = torch.cuda.get_device_name(device) if on_gpu else "the host backend, no GPU"
    print(f"{name}, PyTorch {torch.__version__}, {tokens} tokens\n")
    heads = ["what", "how", "µs", "GB/s", "of copy", "of ours", "launches", "waits", "host µs"]
    print(markdown(heads, rows))
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
