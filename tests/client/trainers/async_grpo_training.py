"""Trains AsyncGRPOTrainer on rollouts made beforehand, in every process of torchrun, and writes what each one saw.

torchrun --nproc-per-node 2 async_grpo_training.py FOLDER
"""

import json
import pathlib
import queue
import sys
import types

import numpy
import torch
import transformers
import trl.experimental.async_grpo.async_grpo_trainer as trl_trainer
import trl.experimental.async_grpo.packing as trl_packing
from batchplan.integrations.trl_async_grpo import plan_batches
from datasets import Dataset
from tiny_llama import SEQUENCES, tiny_llama, tokenizer
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

BUDGET, SLOTS = 160, 4


def attention(q, k, v, cu_seqlens_q, cu_seqlens_k, max_q, max_k, softmax_scale=None, causal=True, window_size=None):
    """As FlashAttention's varlen kernel, of [tokens, heads, width]: of each part the last query sees all keys."""
    parts = []
    for part in range(len(cu_seqlens_q) - 1):
        own = q[cu_seqlens_q[part] : cu_seqlens_q[part + 1]].transpose(0, 1)
        keys, values = (x[cu_seqlens_k[part] : cu_seqlens_k[part + 1]].transpose(0, 1) for x in (k, v))
        queries, seen = own.shape[1], keys.shape[1]
        mask = torch.ones(queries, seen, dtype=torch.bool).tril(seen - queries)
        parts.append(torch.nn.functional.scaled_dot_product_attention(
            own, keys, values, attn_mask=mask, scale=softmax_scale).transpose(0, 1))
    return torch.cat(parts)


def samples(count=100):
    """Of SEQUENCES, the first third of each its prompt; four to a group."""
    random = numpy.random.default_rng(1)
    made = []
    for number, ids in enumerate(SEQUENCES[:count]):
        mask = [int(place >= max(len(ids) // 3, 1)) for place in range(len(ids))]
        log_probs = random.normal(-5, 0.2, len(ids)).tolist()
        made.append((number // 4, ids, mask, log_probs, float(random.normal())))
    return made


class Worker:
    """What a rollout worker leaves in the queue."""

    def __init__(self):
        self.rollout_buffer, self.metrics_queue = queue.Queue(), queue.Queue()
        for group, ids, mask, log_probs, advantage in samples():
            self.rollout_buffer.put(RolloutSample(
                prompt=[], completion=[], input_ids=torch.tensor(ids), completion_mask=torch.tensor(mask),
                old_log_probs=torch.tensor(log_probs), advantage=advantage, model_version=0, metrics={},
                group_id=group))

    def start(self):
        pass

    def stop(self):
        pass

    def update_model_version(self, model_version):
        pass

    def check_health(self, stale_after_s):
        raise RuntimeError("the queue is empty")


class Transfer:
    def __getattr__(self, name):
        return lambda *_: None


class Seen(AsyncGRPOTrainer):
    """Keeps of each micro-batch its sequences, by their number, and its loss; and the last step's gradients."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        ids = inputs["input_ids"][inputs["attention_mask"].bool()]
        places = inputs["position_ids"][inputs["attention_mask"].bool()]
        begins = (places == 0).nonzero().flatten().tolist()
        # The loss is float32 whatever the model is.
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.seen = getattr(self, "seen", [])
        self.seen.append({
            "sequences": [int(ids[begin]) * 100 + int(ids[begin + 1]) for begin in begins],
            "loss": float(loss), "tokens": len(ids)})
        return loss


class Gradients(transformers.TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **others):
        self.steps.append({
            name.removeprefix("module."): one.grad.clone() for name, one in model.named_parameters()})


def trained(folder, planned=None, **other):
    model = folder / "model"
    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
        tiny_llama().save_pretrained(model)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    options = {
        "output_dir": str(folder), "per_device_train_batch_size": 4, "gradient_accumulation_steps": SLOTS,
        "max_steps": 2, "learning_rate": 0.0, "report_to": [], "disable_tqdm": True, "save_strategy": "no",
        "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "max_grad_norm": 0.0,
        "ddp_backend": "gloo" if torch.distributed.is_torchelastic_launched() else None,
        "token_budget": BUDGET, "seed": 7,
    }
    trainer = Seen(
        str(model), lambda **_: [0.0], AsyncGRPOConfig(**{**options, **other}),
        Dataset.from_dict({"prompt": ["w1"] * 100}), tokenizer(), rollout_worker=Worker(), weight_transfer=Transfer())
    gradients = Gradients()
    trainer.add_callback(gradients)
    if planned is not None:
        plan_batches(trainer, **planned)
    trainer.train()
    return {"microbatches": trainer.seen, "steps": trainer.state.global_step}, gradients.steps


RUNS = {
    "stock": {},
    "planned": {"planned": {}},
    "stock by count": {"token_budget": -1, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 3},
    "planned by count": {"token_budget": -1, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 3,
                         "planned": {}},
    "full": {"planned": {"full_steps": True}, "gradient_accumulation_steps": 2},
}


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    # Both ask for a GPU.
    trl_trainer.get_peak_flops_per_device = lambda *_: None
    trl_packing._flash_attn = lambda: types.SimpleNamespace(flash_attn_varlen_func=attention)
    torch.distributed.init_process_group("gloo")
    rank, results, gradients = torch.distributed.get_rank(), {}, {}
    for name, run in RUNS.items():
        results[name], gradients[name] = trained(folder, **run)
    (folder / f"rank{rank}.json").write_text(json.dumps(results))
    torch.save(gradients, folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
