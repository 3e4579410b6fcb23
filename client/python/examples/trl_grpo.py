"""TRL's GRPOTrainer on planned batches: the line, and how many tokens a second it trains with and without.

    torchrun --nproc-per-node 2 trl_grpo.py

What is generated is canned, answers of very different lengths, so that the time is that of training. On a GPU and with
FlashAttention rows are packed; here they are padded to the longest of a micro-batch.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any

import datasets
import numpy
import tokenizers
import torch
import transformers
import trl
from batchplan.integrations.transformers import plan_batches

VOCABULARY = 512


def answers(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Of 20 to --longest tokens, lognormal with a median of an eighth of that: the same ones in every run."""
    longest = trainer.args.max_completion_length
    random = numpy.random.default_rng([trainer.state.global_step, trainer.accelerator.process_index])
    lengths = random.lognormal(numpy.log(longest / 8), 1, len(prompts)).clip(20, longest).astype(int)
    return {
        "prompt_ids": [random.integers(0, VOCABULARY - 1, 16).tolist() for _ in prompts],
        "completion_ids": [random.integers(0, VOCABULARY - 1, length).tolist() for length in lengths],
        "logprobs": None,
    }


def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [len(set(ids)) / len(ids) for ids in completion_ids]


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    words = {f"w{number}": number for number in range(VOCABULARY)}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    last = f"w{VOCABULARY - 1}"
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, eos_token=last, pad_token=last)


class Meter(transformers.TrainerCallback):
    """Tokens of this rank, and seconds, of the optimizer steps behind the first one, which warms up."""

    tokens = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 1:
            self.begin = time.perf_counter()
            self.tokens = 0
        self.end = time.perf_counter()


def tokens_a_second(options: argparse.Namespace, planned: bool, folder: str) -> float:
    """Of all ranks, without padding."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=options.hidden, intermediate_size=4 * options.hidden,
            num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=8192,
        )
    )  # fmt: skip
    model.config._name_or_path = "llama"
    is_distributed = "RANK" in os.environ
    on_cpu = not torch.cuda.is_available()
    args = trl.GRPOConfig(
        output_dir=folder, per_device_train_batch_size=8, gradient_accumulation_steps=4, num_generations=8,
        max_completion_length=options.longest, max_steps=options.steps + 1, use_cpu=on_cpu, bf16=not on_cpu,
        ddp_backend="gloo" if is_distributed and on_cpu else None, report_to=[], save_strategy="no",
        logging_strategy="no", disable_tqdm=True, num_iterations=1, beta=0.0,
    )  # fmt: skip
    data = datasets.Dataset.from_dict({"prompt": ["w1 w2"] * 512})
    trainer = trl.GRPOTrainer(
        model, reward, args, train_dataset=data, processing_class=tokenizer(), rollout_func=answers
    )
    if planned:
        plan_batches(trainer, max_tokens=options.max_tokens)
    meter = Meter()
    trainer.add_callback(meter)
    compute = trainer._compute_loss

    def counted(model: Any, inputs: Any) -> torch.Tensor:
        meter.tokens += int(inputs["prompt_mask"].sum() + inputs["completion_mask"].sum())
        return compute(model, inputs)

    trainer._compute_loss = counted
    trainer.train()
    tokens = torch.tensor(float(meter.tokens), device=args.device)
    return float(trainer.accelerator.reduce(tokens, "sum")) / (meter.end - meter.begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=128, help="width of the model")
    parser.add_argument("--longest", type=int, default=1024, help="tokens of the longest answer")
    parser.add_argument("--max_tokens", type=int, default=8192, help="of a micro-batch, its padding included")
    parser.add_argument("--steps", type=int, default=3, help="optimizer steps that are measured")
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rates = [tokens_a_second(options, planned, folder) for planned in (False, True)]
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"stock {rates[0]:,.0f} tokens/s, planned {rates[1]:,.0f}: {rates[1] / rates[0]:.2f} times as fast")


if __name__ == "__main__":
    main()
