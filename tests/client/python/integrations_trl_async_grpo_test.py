"""batchplan.integrations.trl_async_grpo: rows that are lists, as TRL has them before 1.16, in a module of stand-ins."""

import sys
import types

import batchplan
import numpy
import pytest
from batchplan.integrations._rollouts import Rollouts
from batchplan.integrations.trl_async_grpo import plan_batches
from lengths import lockstep, long_tailed

trl = types.ModuleType("trl_of_stand_ins")


class Counts:
    """What a collator says the loss is divided by, on each rank."""

    def __init__(self, value):
        self.value = value

    def fill_(self, value):
        self.value = value


class TokenBudgetBatcher:
    """Samples in turn into the first row with room."""

    def __init__(self, dataset, num_processes, token_budget):
        self.dataset, self.num_processes, self.token_budget = dataset, num_processes, token_budget

    def __iter__(self):
        rows = [[] for _ in range(self.num_processes)]
        for sample in self.dataset:
            fits = [row for row in rows
                    if sum(len(one["input_ids"]) for one in row) + len(sample["input_ids"]) <= self.token_budget]
            if not fits:
                yield rows
                rows = [[] for _ in range(self.num_processes)]
                fits = rows
            min(fits, key=len).append(sample)


class DataCollatorForRollout:
    def torch_call(self, examples):
        (rows,) = examples
        return {"global_n_tokens": Counts(sum(sum(one["completion_mask"]) for row in rows for one in row))}


class AsyncGRPOTrainer:
    def __init__(self, queue):
        self.queue = queue
        self.args = types.SimpleNamespace(gradient_accumulation_steps=3)
        self.accelerator = types.SimpleNamespace(is_main_process=True)

    def get_train_dataloader(self):
        collator = trl.DataCollatorForRollout()
        for rows in trl.TokenBudgetBatcher(self.queue, 4, 4096):
            yield rows, collator.torch_call([rows])["global_n_tokens"].value


@pytest.fixture
def trainer(monkeypatch):
    AsyncGRPOTrainer.__module__ = trl.__name__
    for kind in (TokenBudgetBatcher, DataCollatorForRollout):
        setattr(trl, kind.__name__, kind)
    trl.FixedCountBatcher = TokenBudgetBatcher
    monkeypatch.setitem(sys.modules, trl.__name__, trl)
    lengths = long_tailed(300, 1)
    return AsyncGRPOTrainer([
        {"input_ids": [7] * length, "completion_mask": [0] + [1] * (length - 1), "advantage": 2.0, "number": number,
         "group_id": number // 4} for number, length in enumerate(lengths)])


def numbers_of(step):
    return [[[one["number"] for one in row] for row in rows] for rows, _ in step]


def test_steps_have_their_samples_and_weights_in_rows_of_like_cost(trainer):
    stock = list(trainer.get_train_dataloader())
    trainer.get_train_dataloader = lambda: list(AsyncGRPOTrainer.get_train_dataloader(trainer))
    plan_batches(trainer)
    planned = trainer.get_train_dataloader()
    lengths = [len(one["input_ids"]) for one in trainer.queue]
    assert len(planned) == len(stock)
    for begin in range(0, len(stock) // 3 * 3, 3):
        theirs, ours = stock[begin : begin + 3], planned[begin : begin + 3]

        def weights(step):
            return {one["number"]: one["advantage"] / divisor for rows, divisor in step for row in rows for one in row}

        assert weights(ours) == pytest.approx(weights(theirs))
        assert all(row and sum(len(one["input_ids"]) for one in row) <= 4096 for rows, _ in ours for row in rows)
        assert lockstep(lengths, numbers_of(ours)) < lockstep(lengths, numbers_of(theirs))
    assert all(one["advantage"] == 2.0 for one in trainer.queue)


def test_full_steps_take_the_queue_in_its_order(trainer):
    trainer.get_train_dataloader = lambda: list(AsyncGRPOTrainer.get_train_dataloader(trainer))
    plan_batches(trainer, full_steps=True)
    planned = trainer.get_train_dataloader()
    taken = sorted(number for rows in numbers_of(planned) for row in rows for number in row)
    assert taken == list(range(len(taken))) and len(planned) % 3 == 0 and planned
    for begin in range(0, len(planned), 3):
        step = planned[begin : begin + 3]
        assert len({divisor for _, divisor in step}) == 1
        trained = sum(sum(one["completion_mask"]) for rows, _ in step for row in rows for one in row)
        assert sum(divisor for _, divisor in step) == pytest.approx(trained)


class Tree:
    """A row that forwards what its samples share once, as TRL's since 1.16."""

    def __init__(self):
        self.samples = []

    def add(self, sample):
        self.samples.append(sample)


def test_samples_that_are_alike_are_both_trained_and_rows_hold_what_they_train():
    random = numpy.random.default_rng(0)
    samples = []
    for group in range(40):
        prompt = random.integers(0, 99, 20).tolist()
        # Answers that begin alike, and are trained all the same; two are the same.
        shared = random.integers(0, 99, 30).tolist()
        ends = [random.integers(0, 99, 5).tolist() for _ in range(3)]
        for end in [*ends, ends[0]]:
            ids = prompt + shared + end
            samples.append({"input_ids": ids, "completion_mask": [0] * 20 + [1] * 35, "advantage": 1.0,
                            "group_id": group})
    rollouts = Rollouts(samples, Tree)
    slots = rollouts.divided(2, 20, 200, {"cost": batchplan.DEFAULT_COST})
    places = [place for slot in slots for row in slot for place in row]
    assert sorted(places) == list(range(len(samples)))
    assert all(0 < rollouts.trained_tokens(row) <= 200 for slot in slots for row in slot)
