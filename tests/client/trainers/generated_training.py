"""TRL's trainers that generate what they train on, stock and planned, on canned completions.

torchrun --nproc-per-node 2 generated_training.py FOLDER trains each of CASES both ways, and writes what differs.
"""

import functools
import json
import pathlib
import sys
import tempfile

import datasets
import numpy
import torch
import transformers
import trl
from batchplan.integrations.transformers import plan_batches
from tiny_llama import VOCABULARY, tiny_llama, tokenizer
from trl.experimental.gmpo import GMPOConfig, GMPOTrainer

LONGEST = 120


def answers(self, prompt_ids, *_, **__):
    """Of 1 to 120 tokens, the same ones for the same rank and step. Some end, the others are cut off."""
    random = numpy.random.default_rng([self.state.global_step, self.accelerator.process_index])
    lengths = random.lognormal(3, 1, len(prompt_ids)).clip(1, LONGEST).astype(int)
    completions = [random.integers(0, VOCABULARY - 1, length).tolist() for length in lengths]
    for one in completions[::2]:
        one[-1] = VOCABULARY - 1
    return completions if isinstance(self, trl.RLOOTrainer) else (completions, None)


def canned(kind):
    """The trainer, which generates these."""
    return type(f"Canned{kind.__name__}", (kind,), {"_generate_single_turn": answers})


def reward(completion_ids, **_):
    return [float(numpy.sin(sum(ids))) for ids in completion_ids]


@functools.cache
def reference():
    """A folder from where TRL loads the reference model."""
    folder = tempfile.TemporaryDirectory()
    tiny_llama().save_pretrained(folder.name)
    return folder


def trainer_of(folder, kind=trl.GRPOTrainer, config=trl.GRPOConfig, attention="sdpa", model=None, **other):
    is_distributed = torch.distributed.is_torchelastic_launched()
    options = {
        "output_dir": str(folder), "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "num_generations": 4, "max_steps": 2, "learning_rate": 1e-3, "report_to": [], "disable_tqdm": True,
        "save_strategy": "no", "logging_steps": 1, "use_cpu": True, "seed": 7, "max_completion_length": LONGEST,
        "bf16": False, "beta": 0.1, "ddp_backend": "gloo" if is_distributed else None,
    }  # fmt: skip
    prompts = [" ".join(f"w{(7 * row + word) % 100}" for word in range(3 + row % 9)) for row in range(64)]
    model = model or tiny_llama(attention).double()
    model.config._name_or_path = reference().name
    trainer = canned(kind)(
        model, reward, config(**{**options, **other}),
        train_dataset=datasets.Dataset.from_dict({"prompt": prompts}), processing_class=tokenizer(),
    )  # fmt: skip
    if trainer.ref_model is not None:
        torch.manual_seed(5)
        with torch.no_grad():
            for one in trainer.ref_model.double().parameters():
                one.add_(0.05 * torch.randn_like(one))
    return trainer


class Gradients(transformers.TrainerCallback):
    def __init__(self, trainer):
        self.model = trainer.model
        self.of_steps = []

    def on_pre_optimizer_step(self, *_, **__):
        self.of_steps.append([one.grad.clone() for one in self.model.parameters()])


def trained(folder, plan=None, **other):
    """Gradients of each step, what was logged, and what each loss was of."""
    trainer = trainer_of(folder, **other)
    if plan is not None:
        plan_batches(trainer, **plan)
    losses = []
    compute = trainer._compute_loss

    def seen(model, inputs):
        rows = []
        for kind in ("prompt", "completion"):
            masks = inputs[f"{kind}_mask"].bool()
            rows.append([ids[mask].tolist() for ids, mask in zip(inputs[f"{kind}_ids"], masks)])
        losses.append([prompt + completion for prompt, completion in zip(*rows)])
        return compute(model, inputs)

    trainer._compute_loss = seen
    gradients = Gradients(trainer)
    trainer.add_callback(gradients)
    trainer.train()
    return gradients.of_steps, [one for one in trainer.state.log_history if "kl" in one or "loss" in one], losses


def difference(stock, planned):
    """The largest of any parameter's gradient, over the largest entry of that gradient that is not rounding."""
    assert len(stock) == len(planned) > 0
    return max(
        float((one - other).abs().max() / one.abs().max().clamp(min=1e-2))
        for of_stock, of_planned in zip(stock, planned)
        for one, other in zip(of_stock, of_planned)
    )


def compared(folder, plan, **other):
    stock, logged, rows = trained(folder, **other)
    planned, planned_logged, planned_rows = trained(folder, plan, **other)
    return {
        "difference": difference(stock, planned),
        "losses": [[one["loss"] for one in log] for log in (logged, planned_logged)],
        "logged": [sorted(log[0]) for log in (logged, planned_logged)],
        "rows": [rows, planned_rows],
    }


PADDED = {"max_tokens": 500}
PACKED = {"max_tokens": 300, "padded": False}
# By name a plan, and arguments.
CASES = {
    "grpo": (PADDED, {"loss_type": "grpo"}),
    "dapo": (PADDED, {"loss_type": "dapo"}),
    "bnpo": (PACKED, {"loss_type": "bnpo"}),
    "small_budget": ({"max_tokens": 100, "padded": False}, {"loss_type": "dapo"}),
    "iterations": (PADDED, {"num_iterations": 2, "max_steps": 4}),
    "two_steps_a_generation": (PACKED, {"steps_per_generation": 4, "loss_type": "grpo"}),
    "rloo": (PACKED, {"kind": trl.RLOOTrainer, "config": trl.RLOOConfig, "num_iterations": 2}),
}
ALONE = {
    **{kind: (PADDED, {"loss_type": kind}) for kind in ("dr_grpo", "cispo", "sapo", "vespo", "luspo", "bnpo")},
    "generations_within_a_step": (PADDED, {"steps_per_generation": 1, "loss_type": "grpo"}),
    "unaligned": (PADDED, {"steps_per_generation": 3, "loss_type": "grpo"}),
    "of_sequences": (PADDED, {"importance_sampling_level": "sequence", "loss_type": "bnpo", "num_iterations": 2}),
    "gmpo": (PADDED, {"kind": GMPOTrainer, "config": GMPOConfig}),
    "truncated": (PADDED, {"mask_truncated_completions": True, "loss_type": "grpo"}),
    "multiple": (PACKED, {"pad_to_multiple_of": 8}),
    "padded_multiple": (PADDED, {"pad_to_multiple_of": 8}),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    results = {name: compared(folder / name, plan, **other) for name, (plan, other) in CASES.items()}
    (folder / f"rank{torch.distributed.get_rank()}.json").write_text(json.dumps(results))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
