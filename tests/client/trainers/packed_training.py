"""Trains on rows that TRL packed beforehand, on every process of torchrun, and writes what each one saw.

torchrun --nproc-per-node 2 packed_training.py FOLDER
"""

import json
import pathlib
import sys

import torch
import trl
from batchplan import CostModel
from batchplan.integrations.transformers import plan_batches
from planned_training import SeenSFTTrainer, arguments, dataset, trained
from tiny_llama import tiny_llama, tokenizer

WIDTH, COST = 128, CostModel(1.0, 1 / 64)


def trainer_of(folder, **other):
    """Of 23 rows, by a Trainer that packs them into rows of 128 tokens."""
    options = {"packing": True, "max_length": WIDTH, "bf16": False, "per_device_train_batch_size": 1,
               "gradient_accumulation_steps": 4, **other}
    args = arguments(folder, trl.SFTConfig, **options)
    return SeenSFTTrainer(tiny_llama().double(), args, train_dataset=dataset(), processing_class=tokenizer())


def stock(folder):
    return trained(trainer_of(folder))


def lockstep(folder):
    trainer = trainer_of(folder)
    plan_batches(trainer, cost=COST, synchronization="lockstep")
    return trained(trainer)


def accumulated(folder):
    trainer = trainer_of(folder)
    plan_batches(trainer, cost=COST)
    return trained(trainer)


def of_two(folder):
    trainer = trainer_of(folder, per_device_train_batch_size=2, dataloader_num_workers=1)
    plan_batches(trainer, cost=COST)
    return trained(trainer)


def interrupted(folder, at=4):
    """Whole, and again from the checkpoint that the whole one left at this step, amid its second epoch."""
    results = []
    for how in ({}, {"resume_from_checkpoint": str(folder / f"checkpoint-{at}")}):
        options = {"learning_rate": 1e-2, "save_strategy": "steps", "save_steps": at, "save_total_limit": 2}
        trainer = trainer_of(folder, **options)
        plan_batches(trainer, cost=COST)
        results.append(trained(trainer, **how))
    return results


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    runs = (stock, lockstep, accumulated, of_two, interrupted)
    results = {run.__name__: run(folder / run.__name__) for run in runs}
    (folder / f"rank{torch.distributed.get_rank()}.json").write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
