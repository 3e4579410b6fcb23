"""batchplan.integrations.trl_async_grpo: rows that are lists, as TRL has them before 1.16, in a module of stand-ins."""

import sys
import types

import pytest
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
