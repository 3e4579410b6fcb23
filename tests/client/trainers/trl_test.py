"""SFTTrainer's packing by batchplan, and rows whose sequences would see each other."""

import datasets
import pytest
import torch
import trl
from batchplan.integrations import trl as batchplan_trl
from planned_training import SeenSFTTrainer, arguments, dataset
from tiny_llama import SEQUENCES, losses_alone, tiny_llama, tokenizer
from trl.trainer import sft_trainer


@pytest.fixture(autouse=True)
def as_it_was():
    """TRL, for the other tests."""
    owners = [(sft_trainer, "pack_dataset"), (sft_trainer.SFTTrainer, "_prepare_dataset"),
              (sft_trainer.DataCollatorForLanguageModeling, "torch_call")]
    before = [(owner, name, vars(owner)[name]) for owner, name in owners]
    yield
    for owner, name, value in before:
        setattr(owner, name, value)


def trainer_of(folder, data, **options):
    """Of one step an epoch, over all rows."""
    options = {"num_train_epochs": 1, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 100,
               "bf16": False, "max_length": 128, **options}
    return SeenSFTTrainer(
        tiny_llama().double(), arguments(folder, trl.SFTConfig, **options), train_dataset=data,
        processing_class=tokenizer(),
    )


def loss_alone():
    losses = losses_alone(tiny_llama().double(), [torch.tensor(one) for one in SEQUENCES])
    return float(torch.cat(losses).mean())


@pytest.mark.parametrize("data", [
    dataset(),
    datasets.Dataset.from_dict({"text": [" ".join(f"w{token}" for token in one[:-1]) for one in SEQUENCES]}),
], ids=["tokens", "text"])
def test_what_trl_packs_once_installed_has_the_loss_of_sequences_alone(tmp_path, data):
    data = data.add_column("source", ["?"] * len(SEQUENCES))
    batchplan_trl.install()
    batchplan_trl.install()
    trainer = trainer_of(tmp_path, data, packing=True)
    assert "position_ids" in trainer.train_dataset.column_names
    tokens = sum(map(len, SEQUENCES))
    assert -(-tokens // 128) <= len(trainer.train_dataset) < tokens // 128 + 3
    trainer.train()
    seen = [number for one in trainer.seen for number in one["sequences"]]
    assert sorted(seen) == list(range(len(SEQUENCES))) and trainer.state.global_step == 1
    if "input_ids" in data.column_names:
        assert sum(one["loss"] for one in trainer.seen) == pytest.approx(loss_alone(), abs=1e-6)


def test_rows_packed_before_have_the_loss_of_sequences_alone(tmp_path):
    packed = batchplan_trl.pack_dataset(dataset(), 128)
    trainer = trainer_of(tmp_path, packed, padding_free=True, max_length=None)
    trainer.train()
    assert sum(one["loss"] for one in trainer.seen) == pytest.approx(loss_alone(), abs=1e-6)


def test_rows_whose_sequences_would_see_each_other_are_refused(tmp_path):
    packed = batchplan_trl.pack_dataset(dataset(), 128)
    with pytest.raises(ValueError, match="packing is True, .* packed already.*Set packing=False, padding_free=True"):
        trainer_of(tmp_path, packed, packing=True)
    for options in ({}, {"dataset_kwargs": {"skip_prepare_dataset": True}}):
        with pytest.raises(ValueError, match="padding_free is False, .*Set padding_free=True, max_length=None"):
            trainer_of(tmp_path, packed, **options).train()
    with pytest.raises(ValueError, match="the dataset has seq_lengths: its rows are packed already"):
        batchplan_trl.pack_dataset(packed, 128)


def test_strategies_that_split_sequences_are_refused(tmp_path):
    batchplan_trl.install()
    with pytest.raises(ValueError, match='strategy is "bfd_split"; must be "bfd"'):
        trainer_of(tmp_path, dataset(), packing=True, packing_strategy="bfd_split")


@pytest.mark.parametrize("streams", [False, True])
def test_every_split_is_packed_and_columns_that_are_no_tokens_left_out(streams):
    whole = dataset().add_column("text", ["?"] * len(SEQUENCES))
    whole = whole.add_column("tags", [["a", "b"]] * len(SEQUENCES))
    splits = datasets.DatasetDict({"train": whole, "test": whole.select(range(10))})
    if streams:
        splits = datasets.IterableDatasetDict({name: one.to_iterable_dataset() for name, one in splits.items()})
    packed = batchplan_trl.pack_dataset(splits, 128)
    assert type(packed) is type(splits)
    for name, rows in (("train", SEQUENCES), ("test", SEQUENCES[:10])):
        found = list(packed[name])
        assert set(found[0]) == {"input_ids", "labels", "position_ids", "seq_lengths"}
        assert sum(len(row["seq_lengths"]) for row in found) == len(rows)
        assert all(sum(row["seq_lengths"]) == len(row["input_ids"]) <= 128 for row in found)
