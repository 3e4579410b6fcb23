#!/usr/bin/env python3
"""Tensors packed and unpacked on the host, beside torch's own operations: milliseconds, medians.

    pip install ./client/python torch
    OMP_NUM_THREADS=1 tests/bench/python_tensors.py [--repeats 15] [--small]

Both take turns. Six fields are token ids, labels, three of float32 and a mask; torch's side concatenates the rows'
slices and position ids, and unpacks by pad_sequence. Hidden states are 16,384 tokens of 1,024 elements.

--small: micro-batches of 1 to 32 sequences instead, each made anew, so that what is done once a micro-batch counts; in
microseconds, the least of blocks of calls, by the clock and by the process's own time. Fields are lists of tensors, one
padded tensor, or one flat tensor of all sequences end to end, nested for batchplan. torch's side also makes cu_seqlens.
"""

import argparse
import dataclasses
import itertools
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


def small_batch(kind, count, tokens, fields):
    """A micro-batch of so many sequences of a batch of twice as many, and two functions of it: PackedBatch and torch's
    own operations."""
    random = numpy.random.default_rng(1)
    lengths = random.integers(max(1, tokens // 2), tokens + tokens // 2, 2 * count).astype(numpy.uint32)
    half = numpy.sort(random.permutation(2 * count)[:count]).astype(numpy.uint32)
    width = int(lengths[half].sum())
    microbatch = batchplan.MicroBatch(0, 0, 0, half, lengths[half], width, 1)
    padded = dict(itertools.islice(six_fields(2 * count, int(lengths.max())).items(), fields))
    rows, own, begins = half.tolist(), lengths[half].tolist(), [0, *lengths.cumsum().tolist()]
    lists = {name: [one[row, :length].clone() for row, length in enumerate(lengths)] for name, one in padded.items()}
    flat = {name: torch.cat(one) for name, one in lists.items()}
    offsets = torch.tensor(begins)
    nested = {name: torch.nested.nested_tensor_from_jagged(one, offsets) for name, one in flat.items()}

    def slices(name):
        if kind == "list":
            return [lists[name][row] for row in rows]
        if kind == "padded":
            return [padded[name][row, :length] for row, length in zip(rows, own)]
        return [flat[name][begins[row] : begins[row] + length] for row, length in zip(rows, own)]

    def concatenated(_):
        packed = {name: torch.cat(slices(name)) for name in padded}
        positions = torch.cat([torch.arange(length) for length in own])
        return packed, positions, torch.tensor([0, *itertools.accumulate(own)], dtype=torch.int32)

    given = {"list": lists, "padded": padded, "flat": nested}[kind]

    def packed_batch(one):
        packed = PackedBatch(one, given)
        return packed, packed.position_ids, packed.row.cu_seqlens

    return microbatch, packed_batch, concatenated


def least(functions, arguments, repeats):
    """Of each function microseconds a call, by the clock and of the process, least of blocks."""
    calls = 20
    found = [[float("inf")] * 2 for _ in functions]
    for _ in range(repeats):
        for place, function in enumerate(functions):
            given = [arguments() for _ in range(calls)]
            begin, begin_of_process = time.perf_counter(), time.process_time()
            for one in given:
                function(one)
            took = time.perf_counter() - begin, time.process_time() - begin_of_process
            found[place] = [min(pair) for pair in zip(found[place], (1e6 * one / calls for one in took))]
    return found


def measure_small(repeats):
    print(f"{'':44} {'batchplan':>9} {'torch':>9}   times | process: {'batchplan':>9} {'torch':>9}   times")

    def told(name, functions, arguments):
        own, other = least(functions, arguments, repeats)
        parts = [f"{one:9.1f} {another:9.1f} {another / one:7.2f}" for one, another in zip(own, other)]
        print(f"{name:44} {parts[0]} |          {parts[1]}", flush=True)

    for kind, fields, tokens, count in itertools.product(
        ("list", "padded", "flat"), (1, 6), (16, 256, 4096), (1, 2, 3, 8, 32)
    ):
        microbatch, ours, theirs = small_batch(kind, count, tokens, fields)
        for own, other in zip(ours(microbatch), theirs(microbatch)):
            same = all(map(torch.equal, own.values(), other.values())) if isinstance(other, dict) else own.equal(other)
            assert same, (kind, count)
        name = f"{kind}, {fields} field{'s'[: fields > 1]}, {count} of {tokens:,} tokens"
        told(f"{name}, pack", [ours, theirs], lambda: dataclasses.replace(microbatch))
        if kind == "padded":
            packed, own = ours(microbatch)[0], microbatch.lengths.tolist()
            unpacked = [
                lambda _: [packed.unpack(one) for one in packed.values()],
                lambda _: [pad_sequence(one.split(own), batch_first=True) for one in packed.values()],
            ]
            told(f"{name}, unpack", unpacked, lambda: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    repeats = arguments.repeats
    print(f"torch {torch.__version__}, threads: {torch.get_num_threads()}")
    if arguments.small:
        measure_small(repeats)
        return
    print(f"{'':44} {'batchplan':>9} {'torch':>9}   times")
    for tokens in (1_000, 16_384, 131_072):
        measure_fields(tokens, 4 * repeats)
    for dtype in (torch.bfloat16, torch.float32):
        measure_hidden(dtype, repeats)


if __name__ == "__main__":
    main()
