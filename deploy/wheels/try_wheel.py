"""Tries an installed batchplan: a plan, its tensors where there is PyTorch, and a server's plan where there is one."""

import argparse
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import time

import batchplan
import numpy

LENGTHS = numpy.arange(1, 257, dtype=numpy.uint32) * 13 % 1021 + 1


def packs(plan: batchplan.Plan) -> str:
    """Every sequence's tokens come back from the rows that they were packed in."""
    try:
        import torch
    except ImportError:
        return "no PyTorch, no tensors tried"
    from batchplan.torch import PackedBatch, backend

    width = int(LENGTHS.max())
    ids = torch.arange(1, len(LENGTHS) * width + 1).reshape(len(LENGTHS), width)
    ids *= torch.arange(width) < torch.from_numpy(LENGTHS.astype("int64"))[:, None]
    for microbatch in plan.rank(0):
        packed = PackedBatch(microbatch, {"ids": ids})
        back = packed.unpack(packed["ids"], width=width, num_rows=len(LENGTHS))
        rows = torch.from_numpy(microbatch.indices.astype("int64"))
        assert torch.equal(back[rows], ids[rows])
    return f"tensors packed by {backend()} under PyTorch {torch.__version__}"


def serves(program: pathlib.Path, plan: batchplan.Plan) -> str:
    """A server's plan is that of this process."""
    command = [program, "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0", "--drain_delay=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if address := re.search(r"event=listening grpc=(\S+)", line):
                    break
            else:
                raise SystemExit(f"{program} ended without an address")
            with batchplan.Client(address[1]) as client:
                served = client.plan(LENGTHS, dp=2, max_tokens=4096)
        finally:
            server.terminate()
    assert served.fingerprint == plan.fingerprint
    return "a server's plan is the same"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--server", type=pathlib.Path, help="a batchplan-server, which is started")
    server = arguments.parse_args().server
    begin = time.perf_counter()
    assert importlib.metadata.version("batchplanner") == batchplan.__version__
    plan = batchplan.plan(LENGTHS, dp=2, max_tokens=4096)
    told = [f"a plan, {plan.fingerprint[:12]}", packs(plan), serves(server, plan) if server else "no server tried"]
    print(f"Python {sys.version.split()[0]}, {time.perf_counter() - begin:.1f} s: {'; '.join(told)}")


if __name__ == "__main__":
    main()
