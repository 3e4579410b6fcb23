"""plan_batches: what AsyncGRPOTrainer trains on in two processes, stock and planned, and what it is refused."""

import itertools
import types

import numpy
import pytest
import torch
import trl.experimental.async_grpo.async_grpo_trainer as trl_trainer
import two_processes
from async_grpo_training import BUDGET, SLOTS, samples
from batchplan.integrations.trl_async_grpo import plan_batches
from tiny_llama import SEQUENCES, tiny_llama
from trl.experimental.async_grpo import AsyncGRPOTrainer


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two processes saw, and the gradients of their steps, by run."""
    folder = tmp_path_factory.mktemp("trained")
    seen = two_processes.run("async_grpo_training.py", folder)
    return seen, torch.load(folder / "rank0.pt")


def steps_of(ranks, run, slots=SLOTS):
    """[steps][micro-batches][ranks] of what was seen."""
    pairs = list(zip(*[one[run]["microbatches"] for one in ranks[0]]))
    return [pairs[begin : begin + slots] for begin in range(0, len(pairs), slots)]


def sequences_of(step):
    return sorted(number for slot in step for one in slot for number in one["sequences"])


@pytest.mark.parametrize(("run", "slots"), [("", SLOTS), (" by count", 3)])
def test_a_step_has_trls_samples_loss_and_gradients(ranks, run, slots):
    stock, planned = (steps_of(ranks, name + run, slots) for name in ("stock", "planned"))
    assert len(stock) == len(planned) == 2
    for ours, theirs in zip(planned, stock):
        assert sequences_of(ours) == sequences_of(theirs)
        losses = [sum(one["loss"] for slot in step for one in slot) for step in (ours, theirs)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        assert ours != theirs
    for ours, theirs in zip(ranks[1]["planned" + run], ranks[1]["stock" + run]):
        for name, gradient in theirs.items():
            torch.testing.assert_close(ours[name], gradient, rtol=1e-5, atol=1e-5 * float(gradient.abs().max()))


def test_ranks_are_alike_within_the_budget(ranks):
    def tokens(run, slots=SLOTS):
        return [[max(one["tokens"] for one in slot) for slot in step] for step in steps_of(ranks, run, slots)]

    assert max(map(max, tokens("planned"))) <= BUDGET
    assert sum(map(sum, tokens("planned"))) < 0.9 * sum(map(sum, tokens("stock")))
    # Without a budget no row is longer than TRL's longest.
    for ours, theirs in zip(tokens("planned by count", 3), tokens("stock by count", 3)):
        assert max(ours) <= max(theirs) and sum(ours) < 0.9 * sum(theirs)


def test_full_steps_hold_what_their_micro_batches_can_and_weigh_tokens_alike(ranks):
    steps = steps_of(ranks, "full", 2)
    taken = [number for step in steps for number in sequences_of(step)]
    assert taken == list(range(len(taken)))
    rows = [one["tokens"] for step in steps for slot in step for one in slot]
    assert max(rows) <= BUDGET and min(rows) > 0.8 * BUDGET
    made = samples()
    for step, gradients in zip(steps, ranks[1]["full"]):
        model = tiny_llama()
        losses, trained = 0.0, 0
        for number in sequences_of(step):
            _, ids, mask, old, advantage = made[number]
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
            log_probs = logits[:-1].log_softmax(-1).gather(-1, torch.tensor(ids)[1:, None])[:, 0]
            ratio = (log_probs - torch.tensor(old)[1:]).exp()
            loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            losses = losses + (loss * torch.tensor(mask)[1:]).sum()
            trained += sum(mask[1:])
        (losses / trained).backward()
        for name, one in model.named_parameters():
            torch.testing.assert_close(gradients[name], one.grad, rtol=1e-4, atol=1e-4 * float(one.grad.abs().max()))


class Alone(AsyncGRPOTrainer):
    """Only its micro-batches, of as many ranks as are asked for."""

    def __init__(self, queue, ranks, slots, budget):
        self.queue, self.ranks, self.budget = queue, ranks, budget
        self.args = types.SimpleNamespace(gradient_accumulation_steps=slots)
        self.accelerator = types.SimpleNamespace(is_main_process=True)
        self.sink = {"batch/dropped_oversize_total": []}

    def get_train_dataloader(self):
        if self.budget:
            return trl_trainer.TokenBudgetBatcher(self.queue, self.ranks, self.budget, self.sink)
        return trl_trainer.FixedCountBatcher(self.queue, self.ranks, 2 * self.ranks)


def rollouts(lengths, size=4, shared=0, system=0):
    """Samples of these lengths in groups of `size`, that begin with the same `shared` tokens, and all with the same
    `system` ones, which come on top."""
    random = numpy.random.default_rng(3)
    first = random.integers(0, 1000, system)
    made = []
    for number, length in enumerate(lengths):
        if number % size == 0:
            prompt = random.integers(0, 1000, shared)
        ids = torch.tensor([*first, *prompt, *random.integers(0, 1000, max(length - shared, 1))])
        mask = (torch.arange(len(ids)) >= system + shared).long()
        made.append({"input_ids": ids, "completion_mask": mask, "old_log_probs": torch.zeros(len(ids)),
                     "advantage": 1.0, "group_id": number // size, "metrics": {}, "number": number})
    return made


def rows_of(queue, ranks, slots, budget, **options):
    trainer = Alone(queue, ranks, slots, budget)
    stock = list(trainer.get_train_dataloader())
    plan_batches(trainer, **options)
    planned = list(trainer.get_train_dataloader())
    return stock, planned


def time_of(micro_batches):
    return sum(max(24576 * len(row.tokens) + 2 * row.load for row in rows) for rows in micro_batches)


@pytest.mark.parametrize(("shared", "system"), [(0, 0), (40, 0), (150, 0), (0, 200), (60, 200)])
@pytest.mark.parametrize(("slots", "budget"), [(1, 800), (4, 800), (4, 0)])
def test_what_samples_share_is_forwarded_once_and_no_step_takes_longer(slots, budget, shared, system):
    lengths = numpy.random.default_rng(0).lognormal(5, 0.8, 200).clip(20, 500).astype(int) + shared // 2
    stock, planned = rows_of(rollouts(lengths, shared=shared, system=system), 4, slots, budget)
    assert len(planned) == len(stock)
    for begin in range(0, len(stock), slots):
        theirs, ours = stock[begin : begin + slots], planned[begin : begin + slots]
        assert all(row.samples for rows in ours for row in rows)
        most = budget or max(len(row.tokens) for rows in theirs for row in rows)
        assert max(len(row.tokens) for rows in ours for row in rows) <= most
        assert max(row.trained for rows in ours for row in rows) <= (budget or most)
        numbers = [sorted(one["number"] for rows in step for row in rows for one in row.samples) for step in (ours, theirs)]
        assert numbers[0] == numbers[1]
        assert time_of(ours) <= time_of(theirs) * (1 + 1e-9)
    if slots > 1:
        assert time_of(planned) < 0.95 * time_of(stock)


@pytest.mark.parametrize("shared", [0, 40, 150])
def test_full_steps_are_full_of_tokens_that_are_forwarded_once(shared):
    lengths = numpy.random.default_rng(2).lognormal(4.5, 0.8, 600).clip(20, 400).astype(int) + shared
    trainer = Alone(rollouts(lengths, shared=shared), 4, 2, 600)
    stock = list(trainer.get_train_dataloader())
    plan_batches(trainer, full_steps=True)
    planned = list(trainer.get_train_dataloader())
    rows = [row for one in planned for row in one]
    assert max(len(row.tokens) for row in rows) <= 600 and max(row.trained for row in rows) <= 600
    # Groups that stay together leave more room.
    assert numpy.mean([len(row.tokens) for row in rows]) > (0.8 if shared else 0.95) * 600

    def time_a_token(micro_batches):
        return time_of(micro_batches) / sum(
            len(one["input_ids"]) for row in itertools.chain(*micro_batches) for one in row.samples)

    assert time_a_token(planned) < (0.95 if shared < 100 else 1) * time_a_token(stock)


def test_full_steps_drop_what_no_row_holds_as_trl_does(caplog):
    lengths = numpy.random.default_rng(1).integers(20, 500, 200)
    lengths[[3, 70]] = 601
    trainer = Alone(rollouts(lengths), 4, 2, 600)
    plan_batches(trainer, full_steps=True)
    planned = list(trainer.get_train_dataloader())
    assert trainer.sink["batch/dropped_oversize_total"] == [1.0, 1.0]
    assert "a sample of 601 tokens is dropped: token_budget is 600" in caplog.text
    taken = sorted(one["number"] for rows in planned for row in rows for one in row.samples)
    expected = [number for number in range(200) if number not in (3, 70)]
    assert taken == expected[: len(taken)] and len(taken) > 100
    assert all(0 < len(row.tokens) <= 600 for rows in planned for row in rows)


def test_what_can_not_be_planned_is_refused_by_name():
    with pytest.raises(ValueError, match="trainer is a SimpleNamespace; must be an AsyncGRPOTrainer"):
        plan_batches(types.SimpleNamespace())
    with pytest.raises(ValueError, match="effort"):
        plan_batches(Alone([], 2, 2, 100), effort="much")

    class Own(Alone):
        def get_train_dataloader(self):
            return []

    trainer = Own([], 2, 2, 100)
    plan_batches(trainer)
    with pytest.raises(ValueError, match="Own.get_train_dataloader makes batches of its own"):
        trainer.get_train_dataloader()
    trainer = Alone([], 2, 2, 0)
    plan_batches(trainer, full_steps=True)
    with pytest.raises(ValueError, match="full_steps is True, and token_budget is not positive"):
        trainer.get_train_dataloader()
    assert trl_trainer.FixedCountBatcher.__module__ == trl_trainer.__name__


def test_trainings_are_planned_once():
    queue = rollouts([len(one) for one in SEQUENCES])
    trainer = Alone(queue, 2, 2, 200)
    plan_batches(trainer)
    once = trainer.get_train_dataloader
    plan_batches(trainer)
    assert trainer.get_train_dataloader.planned_over == once.planned_over
    assert type(trainer.get_train_dataloader()).__mro__[1] is trl_trainer.TokenBudgetBatcher
