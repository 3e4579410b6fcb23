#!/usr/bin/env python3
"""Tensors packed and unpacked on the host, beside torch's own operations: milliseconds, medians.

    pip install ./client/python torch
    OMP_NUM_THREADS=1 tests/bench/python_tensors.py [--repeats 15]

Both take turns. Six fields are token ids, labels, three of float32 and a mask; torch's side concatenates the rows'
slices and position ids, and unpacks by pad_sequence. Hidden states are 16,384 tokens of 1,024 elements.
"""

import argparse
import statistics
import time

import batchplan
import numpy
import torch
from batchplan.torch import PackedBatch, PackedRow, pack, unpack
from torch.nn.utils.rnn import pad_sequence

HIDDEN = 1024


def micro_batch(tokens):
    """Of lognormal lengths that have so many tokens together."""
    lengths = (numpy.random.default_rng(1).lognormal(6.2, 0.6, tokens // 100 + 2) + 8).astype(numpy.uint32)
    count = int(numpy.searchsorted(lengths.cumsum(), tokens)) + 1
    lengths = lengths[:count]
    lengths[-1] -= int(lengths.sum()) - tokens
    return batchplan.plan(lengths, max_tokens=tokens).rank(0)[0]


def six_fields(rows, width):
    ids = torch.randint(50_000, (rows, width))
    floats = {name: torch.randn(rows, width) for name in ("old", "reference", "advantages")}
    return {"input_ids": ids, "labels": ids.clone(), **floats, "mask": torch.rand(rows, width) < 0.5}


def measure(name, repeats, ours, theirs):
    """Of two functions that return tensors of the same bits."""
    for own, other in zip(ours(), theirs(), strict=True):
        assert torch.equal(own, other), name
    times = {ours: [], theirs: []}
    for _ in range(repeats):
        for function, took in times.items():
            begin = time.perf_counter()
            function()
            took.append(1e3 * (time.perf_counter() - begin))
    own, other = (statistics.median(took) for took in times.values())
    print(f"{name:44} {own:9.3f} {other:9.3f} {other / own:7.1f}", flush=True)


def measure_fields(tokens, repeats):
    microbatch = micro_batch(tokens)
    rows, lengths = microbatch.indices.tolist(), microbatch.lengths.tolist()
    fields = six_fields(len(microbatch), microbatch.max_seqlen)

    def concatenated():
        packed = [torch.cat([field[row, :length] for row, length in zip(rows, lengths)]) for field in fields.values()]
        return [*packed, torch.cat([torch.arange(length) for length in lengths])]

    def packed_batch():
        packed = PackedBatch(microbatch, fields)
        return [*packed.values(), packed.position_ids]

    packed = PackedBatch(microbatch, fields)
    measure(f"six fields of {tokens:,} tokens, pack", repeats, packed_batch, concatenated)
    measure(f"six fields of {tokens:,} tokens, unpack", repeats,
            lambda: [packed.unpack(one) for one in packed.values()],
            lambda: [pad_sequence(one.split(lengths), batch_first=True) for one in packed.values()])


def measure_hidden(dtype, repeats):
    microbatch = micro_batch(16_384)
    rows, lengths = microbatch.indices.tolist(), microbatch.lengths.tolist()
    row = PackedRow(microbatch)
    padded = unpack(row, torch.randn(row.width, HIDDEN).to(dtype)).requires_grad_()
    packed = pack(row, padded.detach()).requires_grad_()

    def gradient(function, source, of):
        source.grad = None
        function(source).backward(of)
        return [source.grad]

    def concatenated(source):
        return torch.cat([source[one, :length] for one, length in zip(rows, lengths)])

    def padded_anew(source):
        return pad_sequence(source.split(lengths), batch_first=True)

    name = f"hidden states, {str(dtype).removeprefix('torch.')}"
    with torch.no_grad():
        measure(f"{name}, pack", repeats, lambda: [pack(row, padded)], lambda: [concatenated(padded)])
        measure(f"{name}, unpack", repeats, lambda: [unpack(row, packed)], lambda: [padded_anew(packed)])
    few = max(3, repeats // 5)
    measure(f"{name}, pack and its gradient", few,
            lambda: gradient(lambda one: pack(row, one), padded, packed.detach()),
            lambda: gradient(concatenated, padded, packed.detach()))
    measure(f"{name}, unpack and its gradient", few,
            lambda: gradient(lambda one: unpack(row, one), packed, padded.detach()),
            lambda: gradient(padded_anew, packed, padded.detach()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    print(f"torch {torch.__version__}, threads: {torch.get_num_threads()}")
    print(f"{'':44} {'batchplan':>9} {'torch':>9}   times")
    for tokens in (1_000, 16_384, 131_072):
        measure_fields(tokens, 4 * repeats)
    for dtype in (torch.bfloat16, torch.float32):
        measure_hidden(dtype, repeats)


if __name__ == "__main__":
    main()
