#!/usr/bin/env python3
"""Trains a transformer on context-parallel groups that differ in size from micro-batch to micro-batch.

    python dynamic_context.py --ranks 4 --steps 5

Every rank, a process of its own, makes the same plan of the step's batch. Slot by slot it finds its group and
its place in it, packs its shard of each sequence, and runs the model on it; attention gathers the keys and
values of the group, and its backward adds up their gradients and gives each rank its own. Loss and gradients
must be those of one process on the padded batch.

Gradients are added up by hand at the end of a step. DDP averages them instead: losses then must be as many times
larger as there are ranks. FSDP lets all ranks wait for each other within every micro-batch: there every rank must
run all slots of the plan, also one whose group has no sequences, or the others wait for ever.
"""

from __future__ import annotations

import argparse
import collections
import functools
import socket

import batchplan
import numpy
import torch
import torch.distributed as distributed
import torch.multiprocessing
from batchplan.torch import PackedBatch, PackedRow
from torch.nn import functional
from transformer import TINY, Transformer

# What the gradients of the two may differ by, of the largest one.
ALLOWED = 1e-5
NO_LABEL = -100


def sample(step: int, arguments: argparse.Namespace) -> tuple[numpy.ndarray, torch.Tensor]:
    """Lengths, many short and few long, and tokens [sequences, longest]: the same on every rank."""
    generator = numpy.random.default_rng(step)
    lengths = numpy.clip(generator.lognormal(3.0, 1.0, arguments.sequences), 2, arguments.longest)
    lengths = lengths.astype(numpy.uint32)
    tokens = generator.integers(0, TINY.vocabulary, (len(lengths), int(lengths.max())))
    return lengths, torch.from_numpy(tokens)


def process_groups(ranks: int) -> dict[range, object]:
    """Of every aligned power of two, and of all ranks: what plans have groups of. They are made once, by all
    ranks in the same order."""
    sizes = [1 << bit for bit in range(ranks.bit_length()) if 1 << bit < ranks] + [ranks]
    return {
        range(first, first + size): distributed.new_group(range(first, first + size))
        for size in sizes
        for first in range(0, ranks - size + 1, size)
    }


class GatherShards(torch.autograd.Function):
    """The tokens of all ranks of a group, [tokens of a rank, ...] to [tokens of the group, ...]: an all-gather,
    whose backward is a reduce-scatter."""

    @staticmethod
    def forward(ctx, group, shard):
        ctx.group = group
        parts = [torch.empty_like(shard) for _ in range(distributed.get_world_size(group))]
        distributed.all_gather(parts, shard.contiguous(), group=group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        # gloo has no reduce-scatter: each rank adds up all, and takes its own.
        # It belongs to autograd, which may give it to others too.
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(gradient, group=ctx.group)
        own = distributed.get_rank(ctx.group)
        return None, gradient.chunk(distributed.get_world_size(ctx.group))[own]


def attend(packed, whole, group, query, key, value):
    """Causal within each sequence, over the shards of the group: [tokens, heads, head_width]. `packed` is this
    rank's shard, `whole` those of all ranks of the group."""
    keys, values = GatherShards.apply(group, torch.stack([key, value], dim=1)).unbind(1)
    seen = (packed.sequence_ids[:, None] == whole.sequence_ids) & (
        packed.position_ids[:, None] >= whole.position_ids
    )
    query, keys, values = (one.transpose(0, 1) for one in (query, keys, values))
    scores = query @ keys.transpose(1, 2) / query.shape[-1] ** 0.5
    return (scores.masked_fill(~seen, float("-inf")).softmax(dim=-1) @ values).transpose(0, 1)


def loss_of(logits, labels, predicted):
    return functional.cross_entropy(logits, labels, ignore_index=NO_LABEL, reduction="sum") / predicted


def planned_step(model, plan, lengths, tokens, groups) -> float:
    """This rank's micro-batches. Leaves the gradients of all ranks; returns the loss of the batch."""
    predicted = int(lengths.sum()) - len(lengths)
    total = 0.0
    for microbatch in plan.rank(distributed.get_rank()):
        # What no rank of the group has anything of, all of them pass over: no other rank waits for it here.
        if not len(microbatch):
            continue
        packed = PackedBatch(
            microbatch,
            {"ids": tokens, "labels": tokens},
            pad_values={"labels": NO_LABEL},
            shifts={"labels": 1},
        )
        whole = PackedBatch(PackedRow(microbatch, cp_rank=None), {})
        attention = functools.partial(attend, packed, whole, groups[microbatch.ranks])
        logits = model(packed["ids"], packed.position_ids, attend=attention)
        loss = loss_of(logits, packed["labels"], predicted)
        loss.backward()
        total += loss.item()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        # Losses are divided by the whole batch's tokens already: the sum is the mean.
        distributed.all_reduce(parameter.grad)
    of_all = torch.tensor(total)
    distributed.all_reduce(of_all)
    return float(of_all)


def padded_step(model, lengths, tokens) -> float:
    """All of the batch on one rank, every sequence as long as the longest."""
    count, longest = tokens.shape
    labels = torch.full_like(tokens, NO_LABEL)
    labels[:, :-1] = tokens[:, 1:]
    last = torch.from_numpy(lengths.astype(numpy.int64)) - 1
    labels[torch.arange(longest) >= last[:, None]] = NO_LABEL
    boundaries = torch.arange(0, count * longest + 1, longest, dtype=torch.int32)
    logits = model(
        tokens.reshape(-1),
        torch.arange(longest).repeat(count),
        cu_seqlens_q=boundaries,
        max_seqlen_q=longest,
    )
    loss = loss_of(logits, labels.reshape(-1), int(lengths.sum()) - count)
    loss.backward()
    return loss.item()


def difference(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest one, of the largest value."""
    largest = max(float(one.abs().max()) for one in expected)
    return max(float((one - other).abs().max()) for one, other in zip(found, expected, strict=True)) / largest


def taken_gradients(model) -> list[torch.Tensor]:
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    return gradients


def work(rank: int, arguments: argparse.Namespace, port: int) -> None:
    distributed.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=arguments.ranks
    )
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer(TINY)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    groups = process_groups(arguments.ranks)
    for step in range(arguments.steps):
        lengths, tokens = sample(step, arguments)
        plan = batchplan.plan(lengths, dp=arguments.ranks, max_tokens=arguments.budget, dynamic_cp=True)
        loss = planned_step(model, plan, lengths, tokens, groups)
        gradients = taken_gradients(model)
        if rank == 0:
            padded_loss = padded_step(model, lengths, tokens)
            of_loss = abs(loss / padded_loss - 1)
            of_gradients = difference(gradients, taken_gradients(model))
            sizes = collections.Counter(plan.passes[0].context_sizes.tolist())
            described = ", ".join(f"{count} of {size}" for size, count in sorted(sizes.items(), reverse=True))
            print(
                f"step {step}: {int(lengths.sum())} tokens, up to {lengths.max()}, in groups ({described}); loss "
                f"{loss:.4f}; against the padded batch it differs by {of_loss:.1e}, gradients by {of_gradients:.1e}",
                flush=True,
            )
            if not (of_loss <= ALLOWED and of_gradients <= ALLOWED):
                raise RuntimeError(f"step {step} differs from the padded batch by more than {ALLOWED}")
        for parameter, gradient in zip(model.parameters(), gradients):
            parameter.grad = gradient
        optimizer.step()
        model.zero_grad(set_to_none=True)
    distributed.barrier()
    distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4, help="processes")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--sequences", type=int, default=24, help="of a batch")
    parser.add_argument("--longest", type=int, default=200, help="tokens of a sequence, at most")
    parser.add_argument("--budget", type=int, default=64, help="tokens that a rank holds")
    arguments = parser.parse_args()
    for name, least in {"ranks": 1, "steps": 1, "sequences": 1, "longest": 2, "budget": 1}.items():
        value = getattr(arguments, name)
        if value < least:
            parser.error(f"--{name} is {value}; must be at least {least}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(work, (arguments, port), arguments.ranks)


if __name__ == "__main__":
    main()
