"""plan_batches: rows that were packed beforehand, dealt by their cost to two processes, and what is refused."""

import datasets
import numpy
import pytest
import torch
import transformers
import trl
import two_processes
from batchplan.integrations._packed_rows import rows_of
from batchplan.integrations.transformers import plan_batches
from packed_training import COST, WIDTH
from planned_training import arguments, before_5_17, dataset
from tiny_llama import SEQUENCES, losses_alone, tiny_llama
from torch.utils.data import default_collate

SLOTS = 4
RUNS = ["lockstep", "accumulated", "of_two"]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two processes saw, by run."""
    return two_processes.run("packed_training.py", tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def alone():
    return losses_alone(tiny_llama().double(), [torch.tensor(one) for one in SEQUENCES])


def steps_of(ranks, run):
    """[steps][slots][ranks] of the sequences and the loss of a micro-batch. Dummies have neither."""
    own = [one[run]["microbatches"] for one in ranks]
    assert len(own[0]) == len(own[1])
    slots = [
        [(one["sequences"] if one["loss"] else [], one["loss"]) for one in slot] for slot in zip(*own)
    ]
    return [slots[begin : begin + SLOTS] for begin in range(0, len(slots), SLOTS)]


def times_of(steps, accumulated):
    """Of each step, over that of ranks that never wait."""
    of_sequence = COST.of_sequences([len(one) for one in SEQUENCES])
    times = numpy.array([[[of_sequence[own].sum() for own, _ in slot] for slot in step] for step in steps])
    slowest = times.sum(1).max(-1) if accumulated else times.max(-1).sum(-1)
    return slowest.sum() / (times.sum() / 2)


@pytest.mark.parametrize("run", RUNS)
def test_each_row_comes_once_an_epoch(ranks, run):
    steps = steps_of(ranks, run)
    assert len(steps) % 2 == 0
    for epoch in (steps[: len(steps) // 2], steps[len(steps) // 2 :]):
        seen = [number for step in epoch for slot in step for own, _ in slot for number in own]
        assert sorted(seen) == list(range(len(SEQUENCES)))
    for one in ranks:
        assert one[run]["steps"] == one[run]["max_steps"] == len(steps)
        assert one[run]["rates"] == [0.0, 0.0]


@pytest.mark.parametrize("run", RUNS)
def test_the_loss_of_a_step_is_the_token_mean_of_sequences_alone(ranks, run, alone):
    for step in steps_of(ranks, run):
        found = [own for slot in step for own in slot]
        losses = torch.cat([alone[number] for own, _ in found for number in own])
        # DDP's gradients, and so its losses, are means over the ranks.
        assert sum(loss for _, loss in found) / 2 == pytest.approx(float(losses.mean()), abs=1e-6)


def test_epochs_have_the_loss_that_trl_has_of_the_same_rows(ranks, alone):
    """TRL's last step repeats a row, so that the others are held against it."""
    for run in ("stock", "lockstep"):
        steps = [step for step in steps_of(ranks, run) for slot in step if all(own for own, _ in slot)]
        for step in steps:
            found = [own for slot in step for own in slot]
            losses = torch.cat([alone[number] for own, _ in found for number in own])
            assert sum(loss for _, loss in found) / 2 == pytest.approx(float(losses.mean()), abs=1e-6)


def test_ranks_wait_less_than_with_rows_at_random(ranks):
    for run, accumulated in (("lockstep", False), ("accumulated", True)):
        full = [step for step in steps_of(ranks, run) if all(own for slot in step for own, _ in slot)]
        assert len(full) == 2 * 2
        planned, drawn = times_of(full, accumulated), times_of(steps_of(ranks, "stock"), accumulated)
        assert planned - 1 < 0.6 * (drawn - 1)


def test_a_training_goes_on_amid_an_epoch_as_if_it_had_not_ended(ranks):
    for whole, rest in (one["interrupted"] for one in ranks):
        assert rest["microbatches"] == whole["microbatches"][SLOTS * 4 :] != []
        assert rest["weights"] == whole["weights"] and rest["steps"] == whole["steps"]


@pytest.mark.parametrize("entry", [[[0, 1, 2]] * 3, 3, [0.0, 1.0, 2.0], None, "abc"])
def test_columns_of_other_things_are_not_taken(entry):
    for column in ("seq_lengths", "position_ids"):
        data = datasets.Dataset.from_dict({"input_ids": [[1, 2, 3]] * 8, column: [entry] * 8})
        assert rows_of(data) is None
    data = datasets.Dataset.from_dict({"seq_lens": [entry] * 8, "position_ids": [[0, 0, 1]] * 8})
    assert rows_of(data).counts.tolist() == [2] * 8


def test_rows_without_an_entry_are_named():
    for column in ("seq_lengths", "position_ids"):
        for entry, message in (([], "is empty"), (None, "is None"), ([0, None], r"is \[0, None\]; must be a list of whole")):
            rows = [[1, 2]] * 280 + [entry] + [[2, 1]] * 3
            with pytest.raises(ValueError, match=rf"{column}\[280\] {message}"):
                rows_of(datasets.Dataset.from_dict({column: rows}))


class LossesTrainer(transformers.Trainer):
    """Keeps the loss of every micro-batch."""

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        self.losses = [*getattr(self, "losses", []), float(loss)]
        return loss


def neat(features):
    """A collator of rows that are padded alike: their own position_ids, and no mask."""
    return default_collate([{name: torch.tensor(one[name]) for name in one} for one in features])


def masked(features):
    batch = neat(features)
    number = (batch["position_ids"] == 0).cumsum(-1)
    same = number[:, :, None] == number[:, None, :]
    batch["attention_mask"] = (same & torch.ones(same.shape, dtype=torch.bool).tril())[:, None]
    return batch


def ones(features):
    batch = neat(features)
    return {**batch, "attention_mask": torch.ones_like(batch["input_ids"])}


def padded_rows():
    """TRL's rows, as LLaMA-Factory keeps them: with position_ids, and padded to one width by zeros."""
    packed = trl.pack_dataset(dataset(), WIDTH)

    def pad(row):
        positions = [place for length in row["seq_lengths"] for place in range(length)]
        missing = WIDTH + 1 - len(positions)
        return {
            "input_ids": row["input_ids"] + [0] * missing,
            "labels": [-100 if place == 0 else label for place, label in zip(positions, row["labels"])] + [-100] * missing,
            "position_ids": positions + [0] * missing,
        }

    return packed.map(pad), packed["seq_lengths"]


def trainer_of(data, collator, folder="unused", kind=LossesTrainer, **other):
    options = {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "num_train_epochs": 1, **other}
    return kind(
        tiny_llama().double(), arguments(folder, **options), train_dataset=data, data_collator=collator,
    )


def of_instance(trainer):
    plan_batches(trainer, cost=COST)
    trainer.train()


def of_class(trainer):
    hooks = {name: vars(transformers.Trainer)[name] for name in ("_get_train_sampler", "get_train_dataloader", "train")}
    plan_batches(transformers.Trainer, cost=COST)
    try:
        trainer.train()
    finally:
        for name, hook in hooks.items():
            setattr(transformers.Trainer, name, hook)


def of_older(trainer):
    with before_5_17():
        of_instance(trainer)


def test_sequences_are_found_in_position_ids(tmp_path, alone):
    data, lengths = padded_rows()
    data = data.remove_columns("seq_lengths")
    found = rows_of(data)
    assert [found.lengths_of(row).tolist() for row in range(len(data))] == list(lengths)
    assert set(found.widths.tolist()) == {WIDTH + 1}
    for collator, train in ((neat, of_instance), (masked, of_class), (neat, of_older)):
        trainer = trainer_of(data, collator, tmp_path)
        train(trainer)
        assert len(trainer.losses) == 24 and sum(map(bool, trainer.losses)) == len(data) == 23
        # Each step has a token mean, of almost as many tokens.
        mean = sum(trainer.losses) / trainer.state.max_steps
        assert mean == pytest.approx(float(torch.cat(alone).mean()), rel=2e-3)


def test_each_of_a_few_rows_is_trained(tmp_path):
    data, _ = padded_rows()
    for count, device in ((3, 2), (2, 3), (9, 2)):
        trainer = trainer_of(data.select(range(count)), neat, tmp_path, per_device_train_batch_size=device)
        of_instance(trainer)
        steps = -(-count // (4 * device))
        assert trainer.state.global_step == steps and len(trainer.losses) == 4 * steps
        assert sum(map(bool, trainer.losses)) == min(count, 4 * steps)


def refused(message, data, collator, options=None, **other):
    trainer = trainer_of(data, collator, **other)
    with pytest.raises(ValueError, match=message):
        plan_batches(trainer, **(options or {}))
        trainer.train()


def test_rows_whose_sequences_would_see_each_other_are_refused():
    data, _ = padded_rows()
    see = "rows of the training dataset have several sequences each, which see each other in batches of"
    refused(see, data.remove_columns("seq_lengths"), ones)
    packed = trl.pack_dataset(dataset(), WIDTH)
    refused(see + " DataCollatorWithFlattening", packed, transformers.DataCollatorWithFlattening())
    collator = trl.trainer.sft_trainer.DataCollatorForLanguageModeling(pad_token_id=0)
    refused(see + " DataCollatorForLanguageModeling", packed, collator)


def test_what_can_not_be_kept_is_refused_by_name():
    data, _ = padded_rows()
    refused("padded is True, and rows are packed beforehand", data, neat, {"padded": True})
    refused(r"lengths\[\d+\] has 128 tokens, a row; max_tokens is 100", data, neat, {"max_tokens": 100})
    refused("cp is 2, and rows packed beforehand", data, neat, {"cp": 2})

    class Labelled(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return model(**inputs, labels=inputs["input_ids"], num_items_in_batch=num_items_in_batch).loss

    without = data.remove_columns(["seq_lengths", "labels"])
    refused("has fewer sequences, or rows, than micro-batches.*Set dataloader_drop_last=True", without, neat, kind=Labelled)


def test_rows_that_are_not_packed_need_a_budget():
    alone = dataset()
    flat = "no seq_lengths, no position_ids that begin anew"
    positions = alone.map(lambda row: {"position_ids": list(range(len(row["input_ids"])))})
    flattening = transformers.DataCollatorWithFlattening()
    lengths = [len(row) for row in alone["input_ids"]]
    for data, options, why in (
        (alone, {}, flat), (positions, {}, flat), (alone.to_list(), {}, flat), (alone.select([]), {}, flat),
        (alone, {"lengths": lengths}, "lengths has a number for each of them, and not a list"),
    ):
        trainer = trainer_of(data, flattening)
        with pytest.raises(ValueError, match=rf"the training dataset's rows are not packed \({why}\): give max_tokens"):
            plan_batches(trainer, **options)
    # Of a class, when one of its trainers begins.
    with pytest.raises(ValueError, match=rf"rows are not packed \({flat}\): give max_tokens"):
        of_class(trainer_of(alone, flattening))
    plan_batches(trainer_of(alone, flattening), lengths=[[length] for length in lengths])
    plan_batches(trainer_of(None, flattening))


def test_means_of_microbatches_weigh_as_without_a_plan_where_these_have_as_many_rows(tmp_path):
    data, _ = padded_rows()

    def made(**other):
        trainer = trainer_of(data, neat, tmp_path, **other)
        trainer.model_accepts_loss_kwargs = False
        return trainer

    with pytest.raises(ValueError, match="is the mean of a micro-batch"):
        plan_batches(made())
    losses = []
    for is_planned in (False, True):
        trainer = made(dataloader_drop_last=True, num_train_epochs=8)
        if is_planned:
            plan_batches(trainer, cost=COST)
        trainer.train()
        losses.append(trainer.state.log_history[-1]["train_loss"])
    assert trainer.state.global_step == 8 * 5
    # Of rows in other orders, the last of which are left out.
    assert losses[1] == pytest.approx(losses[0], rel=5e-3)
