#!/usr/bin/env python3
"""Trains a toy policy by asynchronous GRPO: generation goes on while the trainer trains, and some answers take
many times as long as others.

    python async_grpo.py --steps 40

Threads generate groups of answers and add each group to a batchplan.Pool when its longest answer is finished,
so that slow groups come late and were made by older weights. The trainer takes batches of as many groups, none
older than --max_age, and runs the policy loss on their micro-batches. The same answers are then taken in the
order in which they came, and what both take is compared, by the clock and by what the costs predict. One
process plays all data-parallel ranks in turn: a step takes as long as its ranks would that wait for each other.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import threading
import time

import batchplan
import numpy
import torch
from batchplan.torch import PackedBatch, PackedLoss
from transformer import TINY, Transformer

LONGEST = 512
GROUP = 8
# Of weights that a rank trains: what a token costs, and what attention does.
COST = batchplan.CostModel(1.0, 1.0 / 1024)


@dataclasses.dataclass(eq=False)
class Answer:
    tokens: torch.Tensor
    advantage: float
    # The optimizer's steps before the weights that made it.
    step: int


@dataclasses.dataclass
class Tally:
    """What one way of taking batches came to."""

    # Of what was trained and of what was generated.
    lengths: list[int] = dataclasses.field(default_factory=list)
    generated: list[int] = dataclasses.field(default_factory=list)
    # What was trained, by identity.
    answers: list[Answer] = dataclasses.field(default_factory=list)
    oldest: int = 0
    left_out: int = 0
    waiting: int = 0
    lost: int = 0
    tokens: int = 0
    seconds: float = 0.0
    predicted: float = 0.0


def generated(group: int, step: int) -> list[Answer]:
    """In place of a rollout: answers to one prompt, which a reward prefers that counts low tokens. One prompt in
    16 takes ten times as long as the others."""
    random = numpy.random.default_rng(group)
    typical = 5.8 if random.random() < 1 / 16 else 3.5
    lengths = random.lognormal(typical, 0.4, GROUP).clip(8, LONGEST).astype(int)
    tokens = [torch.from_numpy(random.integers(0, TINY.vocabulary, length)) for length in lengths]
    rewards = numpy.array([(one < 64).float().mean().item() for one in tokens])
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    return [Answer(one, float(of_one), step) for one, of_one in zip(tokens, advantages)]


class Generation:
    """Generates groups in time that is counted in decoded tokens, each as long as its longest answer takes, and
    adds those that are finished to the pool. No more are under way and wait than the trainer takes in `ahead`
    steps, so that what waits does not grow old."""

    def __init__(self, pool: batchplan.Pool[Answer], groups: int, ahead: int, tokens_a_step: int) -> None:
        self._pool, self._groups, self._ahead, self._tokens_a_step = pool, groups, ahead, tokens_a_step
        self._now = 0
        # The optimizer's steps before the weights that generate.
        self.version = 0
        # When each is finished, its number, and its answers.
        self._running: list[tuple[int, int, list[Answer]]] = []
        self.started = 0
        self.lengths: list[int] = []

    def run(self) -> None:
        """Goes on for as long as a step of the trainer takes."""
        while GROUP * len(self._running) + len(self._pool) < GROUP * self._ahead * self._groups:
            answers = generated(self.started, self.version)
            end = self._now + max(len(one.tokens) for one in answers)
            heapq.heappush(self._running, (end, self.started, answers))
            self.started += 1
        self._now += self._tokens_a_step
        while self._running and self._running[0][0] <= self._now:
            _, _, answers = heapq.heappop(self._running)
            lengths = [len(one.tokens) for one in answers]
            self._pool.add(answers, lengths, step=answers[0].step)
            self.lengths += lengths

    @property
    def unfinished(self) -> int:
        return len(self._running)


def policy_loss(logits, fields, global_tokens):
    log_probs = torch.log_softmax(logits[:, :-1], dim=-1)
    chosen = log_probs.gather(-1, fields["tokens"][:, 1:, None]).squeeze(-1)
    # The clipped ratio to the policy that sampled needs its log-probabilities; a toy takes 1.
    ratio = torch.exp(chosen - chosen.detach())
    return -(ratio * fields["advantages"][:, 1:]).sum() / global_tokens


def run(model, microbatch: batchplan.MicroBatch, answers: list[Answer], global_tokens: int) -> float:
    """Forward and backward of one micro-batch; returns its seconds."""
    begin = time.perf_counter()
    padded = torch.nn.utils.rnn.pad_sequence([one.tokens for one in answers], batch_first=True)
    # Its rows are those of the micro-batch alone.
    own = dataclasses.replace(microbatch, indices=numpy.arange(len(answers), dtype=numpy.uint32))
    advantages = torch.tensor([one.advantage for one in answers])
    packed = PackedBatch(own, {"tokens": padded}, per_sequence={"advantages": advantages})
    logits = model(packed["tokens"], packed.position_ids, **packed.flash_attention())
    PackedLoss(policy_loss)(packed, logits, global_tokens=global_tokens).backward()
    return time.perf_counter() - begin


def train(batch: batchplan.PoolBatch[Answer], model, optimizer, ranks: int, tally: Tally) -> None:
    plan = batch.plan
    of_ranks = []
    for rank in range(ranks):
        of_ranks.append(
            [
                run(model, one, batch.of(one), plan.metrics.true_tokens) if len(one) else 0.0
                for one in plan.rank(rank)
            ]
        )
    optimizer.step()
    model.zero_grad()
    # Ranks wait for each other at every micro-batch.
    tally.seconds += sum(map(max, zip(*of_ranks)))
    tally.predicted += plan.metrics.predicted_step_time
    tally.tokens += plan.metrics.true_tokens
    tally.lengths += [len(one.tokens) for one in batch.taken]
    tally.answers += batch.taken
    # Of weights that have made so many steps more since.
    tally.oldest = max([tally.oldest, *(batch.step - one.step for one in batch.taken)])
    tally.left_out += len(batch.left_out)


def asynchronous(arguments: argparse.Namespace, max_overtaking: int) -> Tally:
    torch.manual_seed(0)
    model = Transformer(TINY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pool: batchplan.Pool[Answer] = batchplan.Pool()
    generation = Generation(pool, arguments.groups, arguments.ahead, arguments.tokens)
    which = batchplan.Selection(groups=arguments.groups, max_age=arguments.max_age, max_overtaking=max_overtaking)
    tally = Tally()
    for _ in range(arguments.steps):
        # Half as many more than are taken, to choose from.
        while 2 * len(pool) < 3 * GROUP * arguments.groups:
            generation.run()
        # Where slow ones come together that would be too old at the next step, all of them.
        due = sum(pool.step - one.step == arguments.max_age for one in pool) // GROUP
        batch = pool.take(
            dataclasses.replace(which, groups=max(due, which.groups)),
            dp=arguments.ranks,
            max_tokens=arguments.budget,
            cost=COST,
            allow_empty_microbatches=True,
        )
        beside = threading.Thread(target=generation.run)
        beside.start()
        train(batch, model, optimizer, arguments.ranks, tally)
        beside.join()
        generation.version += 1
    tally.generated = generation.lengths
    tally.waiting = len(pool)
    tally.lost = GROUP * (generation.started - generation.unfinished)
    tally.lost -= len(set(tally.answers)) + tally.waiting + tally.left_out
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--ranks", type=int, default=16, help="data-parallel ranks, played in turn")
    parser.add_argument("--groups", type=int, default=8, help=f"of a step, {GROUP} answers each")
    parser.add_argument("--tokens", type=int, default=96, help="decoded of each answer while a step is trained")
    parser.add_argument("--ahead", type=int, default=4, help="steps that generation may be ahead of training")
    parser.add_argument("--max_age", type=int, default=8, help="steps between the weights and the training")
    parser.add_argument("--max_overtaking", type=int, default=8, help="groups that may pass one that waits")
    parser.add_argument("--budget", type=int, default=1024, help="tokens of a micro-batch")
    arguments = parser.parse_args()
    at_least = {"steps": 1, "ranks": 1, "groups": 1, "tokens": 1, "ahead": 2, "max_age": 1, "budget": LONGEST}
    for name, least in at_least.items():
        value = getattr(arguments, name)
        if value < least:
            parser.error(f"--{name} is {value}; must be at least {least}")
    if arguments.max_age < arguments.ahead:
        parser.error(f"--max_age is {arguments.max_age}; must be at least --ahead, {arguments.ahead}")
    torch.set_num_threads(1)
    first, ours = asynchronous(arguments, 0), asynchronous(arguments, arguments.max_overtaking)
    print(
        f"{len(ours.answers)} answers trained, {ours.waiting} wait, {ours.left_out} were too old, {ours.lost} lost; "
        f"the oldest that was trained was of age {ours.oldest} (at most {arguments.max_age})"
    )
    means = f"mean {numpy.mean(ours.lengths):.1f} and {numpy.mean(ours.generated):.1f}"
    shares = [
        f"{share} % up to {numpy.percentile(ours.lengths, share):.0f} and "
        f"{numpy.percentile(ours.generated, share):.0f}"
        for share in (25, 50, 75, 90, 99)
    ]
    print(f"lengths trained and generated: {', '.join([means, *shares])}")
    print(
        f"tokens a second {ours.tokens / ours.seconds:,.0f}, first in, first out {first.tokens / first.seconds:,.0f}: "
        f"{ours.tokens / ours.seconds / (first.tokens / first.seconds):.2f} times as many; by the costs "
        f"{ours.tokens / ours.predicted / (first.tokens / first.predicted):.2f}"
    )


if __name__ == "__main__":
    main()
