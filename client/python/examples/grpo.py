#!/usr/bin/env python3
"""Trains a toy policy by GRPO on data-parallel workers whose batches a batchplan server plans.

    batchplan-server &
    python grpo.py --server localhost:50051 --workers 2 --steps 20

Each step, every worker samples groups of answers of very different lengths, joins their lengths and those of
their prompts to the step's plan, takes the sequences that the plan gives it, packs its micro-batches, and runs
the policy loss on them. A row has a prompt once, however many of its answers are in it; the loss gets every
sequence whole. Plans use costs that are measured before the first step, until the server has fitted others to
what micro-batches take, which the first worker reports. Each step is compared with what the costs predicted.

Every fifth step the same batch is also timed without training, as planned, as planned with every prompt computed
for each of its answers ("whole"), as verl would divide it by the same costs, and padded. After a warm-up they take
turns, each once in every place, and of each micro-batch the fastest run counts, with the comparison of the tokens
that are shared. The model is small: what micro-batches take can be noise, and what the costs predict is printed
beside it.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import math
import os
import socket
import time

import batchplan
import numpy
import torch
import torch.distributed as distributed
import torch.multiprocessing
from batchplan.torch import PackedBatch, PackedLoss, calibrate, run_id
from transformer import TINY, Transformer, tree_attention

LONGEST = 256
LONGEST_PROMPT = 128
GROUP = 8


@dataclasses.dataclass
class Answers:
    """Some sequences, each a prompt and an answer to it."""

    tokens: torch.Tensor  # [count, LONGEST]
    answered: torch.Tensor  # [count, LONGEST]: whether a token is of the answer.
    lengths: torch.Tensor  # [count], of prompt and answer together.
    prompt_lengths: torch.Tensor  # [count]
    group_ids: torch.Tensor  # [count], equal where the prompt is.
    advantages: torch.Tensor  # [count]


def sample(prompts: int, first_group: int, random: torch.Generator) -> Answers:
    """In place of a rollout: groups of answers, which a reward prefers that counts low tokens."""
    prompt_lengths = torch.randint(LONGEST_PROMPT // 4, LONGEST_PROMPT + 1, (prompts, 1), generator=random)
    answer_lengths = torch.randn(prompts, GROUP, generator=random).add(3.5).exp().long()
    lengths = prompt_lengths + answer_lengths.clamp(8, LONGEST - LONGEST_PROMPT)
    tokens = torch.randint(TINY.vocabulary, (prompts, GROUP, LONGEST), generator=random)
    places = torch.arange(LONGEST)
    of_prompt = places < prompt_lengths[..., None]  # [prompts, 1, LONGEST]
    tokens = torch.where(of_prompt, tokens[:, :1], tokens)
    answered = ~of_prompt & (places < lengths[..., None])
    rewards = ((tokens < 64) & answered).sum(-1) / answered.sum(-1)
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    return Answers(
        tokens.flatten(0, 1),
        answered.flatten(0, 1),
        lengths.flatten(),
        prompt_lengths.expand(-1, GROUP).flatten(),
        torch.arange(first_group, first_group + prompts).repeat_interleave(GROUP),
        advantages.flatten(),
    )


def gather(value):
    """Of all workers, the value each gives."""
    every = [None] * distributed.get_world_size()
    distributed.all_gather_object(every, value)
    return every


def exchange(own: Answers) -> Answers:
    """The global batch, by worker. A trainer sends each worker only what the plan gives it."""
    every = [vars(one).values() for one in gather(own)]
    return Answers(*(torch.cat(parts) for parts in zip(*every)))


def policy_loss(log_probs, fields, global_tokens):
    """Written for padded sequences: what PackedLoss calls, with every sequence whole."""
    chosen = log_probs[:, :-1].gather(-1, fields["tokens"][:, 1:, None]).squeeze(-1)
    # On-policy: the ratio to the policy that sampled is 1, and its gradient is the log-probability's.
    ratio = torch.exp(chosen - chosen.detach())
    return -(ratio * fields["advantages"][:, 1:] * fields["answered"][:, 1:]).sum() / global_tokens


def run(model, microbatch, batch: Answers, global_tokens: int) -> float:
    """Forward and backward of one micro-batch; returns its milliseconds."""
    begin = time.perf_counter()
    packed = PackedBatch(
        microbatch,
        {"tokens": batch.tokens, "answered": batch.answered},
        per_sequence={"advantages": batch.advantages},
        # With a wrong prompt length or group, a sequence would be trained with another one's tokens.
        equal_prefixes=["tokens"],
    )
    logits = model(packed["tokens"], packed.position_ids, attend=tree_attention(packed))
    log_probs = torch.log_softmax(logits, dim=-1)
    PackedLoss(policy_loss, vectorized=True)(packed, log_probs, global_tokens=global_tokens).backward()
    return 1e3 * (time.perf_counter() - begin)


def average_gradients(model) -> None:
    for parameter in model.parameters():
        # A worker without sequences has no gradient of its own.
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        # Losses are divided by the global batch's tokens already: the sum is the mean.
        distributed.all_reduce(parameter.grad)


def lockstep(milliseconds: list[float]) -> float:
    """What a step takes on ranks that wait for each other at every micro-batch."""
    return sum(max(slot) for slot in itertools.zip_longest(*gather(milliseconds), fillvalue=0.0))


def padded(batch: Answers, budget: int) -> list[batchplan.MicroBatch]:
    """The worker's part without a planner: as the batch comes, padded to the longest, in equal parts."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    longest = int(batch.lengths.max())
    at_once = max(1, budget // longest)
    own = numpy.arange(len(batch.tokens), dtype=numpy.uint32)[rank::ranks]
    chunks = [own[begin : begin + at_once] for begin in range(0, len(own), at_once)]
    return [
        # Padding is computed like any token: every sequence is as long as the longest.
        batchplan.MicroBatch(
            0, rank, slot, index, numpy.full(len(index), longest, numpy.uint32), longest * len(index), 1
        )
        for slot, index in enumerate(chunks)
    ]


def in_turns(model, planners: dict[str, list[batchplan.MicroBatch]], batch: Answers) -> dict[str, float]:
    """What a step takes by each planner, in milliseconds. Leaves no gradients."""
    fastest = {name: [math.inf] * len(own) for name, own in planners.items()}
    names = list(planners)
    for turn in range(-1, len(names)):
        for name in names[turn:] + names[:turn]:
            distributed.barrier()
            taken = [run(model, microbatch, batch, 1) for microbatch in planners[name]]
            model.zero_grad()
            # Turn -1 warms up.
            if turn >= 0:
                fastest[name] = list(map(min, fastest[name], taken))
    return {name: lockstep(taken) for name, taken in fastest.items()}


def measured_costs(model, budget: int) -> batchplan.CostModel:
    """Of this model's micro-batches, in milliseconds; they have run warm then."""
    shortest = 8
    batch = sample(-(-budget // shortest // GROUP), 0, torch.Generator())
    calibration = calibrate(
        lambda packed: run(model, packed.row.microbatch, batch, 1),
        budget,
        vocabulary=TINY.vocabulary,
        device="cpu",
        shortest=shortest,
        longest=LONGEST,
    )
    model.zero_grad()
    return calibration.cost


def work(rank: int, arguments: argparse.Namespace, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=arguments.workers)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer(TINY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    random = torch.Generator().manual_seed(rank)
    cost = measured_costs(model, arguments.budget)
    fitted = False
    # By planner, of the steps in which they took turns.
    took, predicted, laid = collections.Counter(), collections.Counter(), collections.Counter()
    # So that a job that starts again does not meet the steps that it left behind.
    run_of_job = run_id()
    with batchplan.Client(arguments.server) as client:
        for step in range(arguments.steps):
            own = sample(arguments.prompts, rank * arguments.prompts, random)
            options = {"dp": arguments.workers, "max_tokens": arguments.budget}
            plan = client.join(
                own.lengths,
                group_ids=own.group_ids,
                prompt_lengths=own.prompt_lengths,
                job_id=arguments.job,
                run_id=run_of_job,
                step=step,
                worker=rank,
                world_size=arguments.workers,
                cost="fitted" if fitted else cost,
                **options,
            )
            batch = exchange(own)
            against = ""
            if step % 5 == 0:
                plans = {
                    "shared": plan,
                    "whole": batchplan.plan(batch.lengths, cost=cost, **options),
                    "verl": batchplan.plan(batch.lengths, cost=cost, preset="verl", **options),
                }
                predicted.update({name: one.metrics.predicted_step_time for name, one in plans.items()})
                # Where nothing may be shared, every token is laid.
                laid.update({name: one.metrics.laid_tokens or one.metrics.true_tokens for name, one in plans.items()})
                planners = {name: list(one.rank(rank)) for name, one in plans.items()}
                of_planners = in_turns(model, {**planners, "padded": padded(batch, arguments.budget)}, batch)
                took.update(of_planners)
                against = ", in turns " + ", ".join(f"{name} {taken:.0f} ms" for name, taken in of_planners.items())
            answered = int(batch.answered.sum())
            timings = []
            for microbatch in plan.rank(rank):
                timings.append(microbatch.timing(run(model, microbatch, batch, answered)))
            average_gradients(model)
            optimizer.step()
            model.zero_grad()
            of_step = [timing for of_worker in gather(timings) for timing in of_worker]
            # The costs are in milliseconds.
            of_costs = plan.metrics.predicted_step_time
            measured = plan.compare(of_step, predicted_step_time=of_costs)
            fit = None
            if rank == 0:
                fit = client.report_step(
                    of_step, job_id=arguments.job, step=step, plan=plan, predicted_step_time=of_costs
                )
                print(
                    f"step {step}: {plan.metrics.true_tokens:,} tokens, {plan.metrics.laid_tokens:,} of them laid, in "
                    f"{plan.metrics.microbatches} micro-batches, "
                    f"{measured.step_milliseconds:.0f} ms ({'fitted' if fitted else 'calibrated'} costs, predicted "
                    f"{measured.error:+.0%}, {fit.samples} samples){against}",
                    flush=True,
                )
            # All must ask for the same plan.
            of_server = gather(fit and fit.cost)[0]
            if of_server is not None:
                cost, fitted = of_server, True
    if rank == 0:
        print(f"tokens laid: {laid['shared']:,} shared, {laid['whole']:,} whole")
        for name in ("whole", "verl"):
            measured, of_costs = took[name] / took["shared"], predicted[name] / predicted["shared"]
            print(f"{name} steps took {measured:.2f} times as long as shared ones; predicted {of_costs:.2f}")
        print(f"padded steps took {took['padded'] / took['shared']:.2f} times as long as shared ones")
    distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="localhost:50051", help="host:port")
    parser.add_argument("--job", default=f"grpo-example-{os.getpid()}", help="job id")
    parser.add_argument("--workers", type=int, default=2, help="data-parallel workers")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=4, help=f"of each worker and step, {GROUP} answers each")
    parser.add_argument("--budget", type=int, default=512, help="tokens of a micro-batch")
    arguments = parser.parse_args()
    for name, least in {"workers": 1, "steps": 1, "prompts": 1, "budget": LONGEST}.items():
        value = getattr(arguments, name)
        if value < least:
            parser.error(f"--{name} is {value}; must be at least {least}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(work, (arguments, port), arguments.workers)


if __name__ == "__main__":
    main()
