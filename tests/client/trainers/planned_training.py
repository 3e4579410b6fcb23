"""Trains by planned batches on every process of torchrun, and writes what each one saw.

torchrun --nproc-per-node 2 planned_training.py FOLDER
"""

import contextlib
import json
import pathlib
import sys

import accelerate
import datasets
import torch
import transformers
import trl
from batchplan.integrations.transformers import plan_batches
from batchplan.torch import BatchSampler
from tiny_llama import SEQUENCES, tiny_llama, tokenizer
from torch.utils.data import DataLoader

BUDGET = 160


class Seen:
    """A trainer that keeps what it trains on: of each micro-batch its sequences, by their number, and its loss."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        ids = inputs["input_ids"]
        if len(ids) == 1 and "position_ids" in inputs:
            begins = (inputs["position_ids"][0] == 0).nonzero().flatten().tolist()
            first_two = [ids[0, begin : begin + 2].tolist() for begin in begins]
        else:
            first_two = ids[:, :2].tolist()
        loss = super().training_step(model, inputs, num_items_in_batch)
        numbers = [high * 100 + low for high, low in first_two]
        self.seen = getattr(self, "seen", [])
        self.seen.append({"sequences": numbers, "loss": float(loss), "tokens": ids.numel()})
        return loss


class SeenTrainer(Seen, transformers.Trainer):
    pass


class SeenSFTTrainer(Seen, trl.SFTTrainer):
    pass


def arguments(folder, kind=transformers.TrainingArguments, **other):
    options = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "num_train_epochs": 2,
        "learning_rate": 0.0,
        "lr_scheduler_type": "linear",
        "report_to": [],
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_strategy": "no",
        "use_cpu": True,
        "ddp_backend": "gloo" if torch.distributed.is_torchelastic_launched() else None,
        "seed": 7,
    }
    return kind(**{**options, **other})


def dataset():
    return datasets.Dataset.from_dict({"input_ids": SEQUENCES, "labels": SEQUENCES})


def trainer_of(folder, collator, count=len(SEQUENCES), **other):
    return SeenTrainer(
        tiny_llama().double(),
        arguments(folder, **other),
        train_dataset=dataset().select(range(count)),
        data_collator=collator,
        processing_class=tokenizer(),
    )


def trained(trainer, **how):
    trainer.train(**how)
    return {
        "microbatches": trainer.seen,
        "steps": trainer.state.global_step,
        "max_steps": trainer.state.max_steps,
        "rates": trainer.lr_scheduler.get_last_lr(),
        "weights": float(sum(one.detach().abs().sum() for one in trainer.model.parameters())),
    }


def flattened(folder):
    trainer = trainer_of(folder, transformers.DataCollatorWithFlattening())
    plan_batches(trainer, max_tokens=BUDGET)
    return trained(trainer)


def padded(folder):
    collator = trl.trainer.sft_trainer.DataCollatorForLanguageModeling(pad_token_id=0, pad_to_multiple_of=4)
    trainer = trainer_of(folder, collator)
    plan_batches(trainer, max_tokens=2 * BUDGET)
    return trained(trainer)


def by_trl(folder):
    args = arguments(folder, trl.SFTConfig, padding_free=True, max_length=None, bf16=False)
    trainer = SeenSFTTrainer(tiny_llama().double(), args, train_dataset=dataset(), processing_class=tokenizer())
    plan_batches(trainer, max_tokens=BUDGET)
    return trained(trainer)


def of_a_class(folder):
    hooks = {name: vars(transformers.Trainer)[name] for name in ("_get_train_sampler", "get_train_dataloader", "train")}
    plan_batches(transformers.Trainer, max_tokens=BUDGET)
    try:
        return trained(trainer_of(folder, transformers.DataCollatorWithFlattening()))
    finally:
        for name, hook in hooks.items():
            setattr(transformers.Trainer, name, hook)


def few(folder):
    """Fewer sequences than micro-batches of a step, or one more than two steps have."""
    results = []
    flattening = transformers.DataCollatorWithFlattening()
    padding = trl.trainer.sft_trainer.DataCollatorForLanguageModeling(pad_token_id=0)
    for count, device, collator in ((5, 4, flattening), (5, 4, padding), (17, 1, flattening), (1, 1, flattening)):
        trainer = trainer_of(folder, collator, count, per_device_train_batch_size=device)
        plan_batches(trainer, max_tokens=2 * BUDGET)
        results.append(trained(trainer))
    return results


@contextlib.contextmanager
def before_5_17():
    """A Trainer that takes a planned sampler for one of sequences."""
    hook, transformers.trainer.BatchRebalanceSampler = transformers.trainer.BatchRebalanceSampler, DataLoader
    try:
        yield
    finally:
        transformers.trainer.BatchRebalanceSampler = hook


def older(folder):
    with before_5_17():
        return flattened(folder)


def older_interrupted(folder):
    with before_5_17():
        return interrupted(folder)


def interrupted(folder, at=5):
    """Whole, and again from the checkpoint that the whole one left at this step, amid its second epoch."""
    results = []
    for how in ({}, {"resume_from_checkpoint": str(folder / f"checkpoint-{at}")}):
        options = {"learning_rate": 1e-2, "save_strategy": "steps", "save_steps": at, "save_total_limit": 2}
        trainer = trainer_of(folder, transformers.DataCollatorWithFlattening(), **options)
        plan_batches(trainer, max_tokens=BUDGET)
        results.append(trained(trainer, **how))
    return results


def prepared(folder):
    """What Accelerate says to a sampler that divided its batches already."""
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    lengths = [len(one) for one in SEQUENCES]
    sampler = BatchSampler(lengths, 32, rank=rank, dp=ranks, max_tokens=BUDGET)
    try:
        accelerate.Accelerator(cpu=True).prepare(DataLoader(SEQUENCES, batch_sampler=sampler))
    except RuntimeError as error:
        return str(error)
    return None


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    runs = (flattened, padded, by_trl, of_a_class, older, few, interrupted, older_interrupted, prepared)
    results = {run.__name__: run(folder / run.__name__) for run in runs}
    (folder / f"rank{torch.distributed.get_rank()}.json").write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
