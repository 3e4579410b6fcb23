"""verl's own trainer, without its workers, and batches as it has them after a rollout."""

import numpy
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.utils import tensordict_utils
from verl.utils.model import extract_multi_modal_inputs
from verl.workers.utils.padding import left_right_2_no_padding

# Small tensors, on processors that others use too.
torch.set_num_threads(1)


def long_tailed(count, seed, *, median=900, longest=16384):
    lengths = numpy.random.default_rng(seed).lognormal(numpy.log(median), 0.9, count)
    return numpy.clip(lengths, 16, longest).astype(int)


def config(budget, *, mini_batch=0, log_probs=None, **actor):
    return OmegaConf.create({
        "actor_rollout_ref": {
            "actor": {
                "strategy": "fsdp", "use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": budget,
                "ppo_mini_batch_size": mini_batch, "shuffle": False, "use_prefix_grouper": False,
                "fsdp_config": {"ulysses_sequence_parallel_size": 1}, **actor,
            },
            "rollout": {"n": 1, "log_prob_max_token_len_per_gpu": log_probs or budget},
        },
        "trainer": {"balance_batch": True},
    })


class Workers:
    """What a trainer asks of its group of workers."""

    def __init__(self, dp):
        self._dispatch_info = {"actor": list(range(dp))}


def trainer(dp, settings, kind=RayPPOTrainer):
    made = kind.__new__(kind)
    made.config = settings
    made.actor_rollout_wg = Workers(dp)
    made.use_critic = made.use_reference_policy = False
    return made


def batch_of(lengths):
    """Sequences of a third of prompt, padded left, and two thirds of response, padded right. A token is one of 128
    words, by its sequence's number and its place in it."""
    prompts = [max(int(n) // 3, 1) for n in lengths]
    before, after = max(prompts), max(int(n) - p for n, p in zip(lengths, prompts))
    mask = torch.zeros(len(lengths), before + after, dtype=torch.int64)
    ids = torch.zeros_like(mask)
    for row, (n, prompt) in enumerate(zip(lengths, prompts)):
        own = slice(before - prompt, before - prompt + int(n))
        mask[row, own] = 1
        ids[row, own] = (torch.arange(int(n)) * (row + 3) + row) % 128
    return DataProto.from_dict({
        "input_ids": ids, "prompts": ids[:, :before], "responses": ids[:, before:], "attention_mask": mask,
        "position_ids": (mask.cumsum(1) - 1).clamp(min=0), "response_mask": mask[:, before:],
        "number": torch.arange(len(lengths)),
    })


def with_images(batch, seed=0, most=40):
    """A third of the sequences has images, of up to `most` patches a side, and a tenth a video of two frames."""
    random = numpy.random.default_rng(seed)
    inputs = numpy.empty(len(batch), dtype=object)
    for place in range(len(batch)):
        kind = random.random()
        grids = {}
        if kind < 0.33:
            grids["pixel_values"] = "image_grid_thw", random.integers(8, most, (int(random.integers(1, 4)), 3))
            grids["pixel_values"][1][:, 0] = 1
        elif kind < 0.43:
            grids["pixel_values_videos"] = "video_grid_thw", numpy.array([[2, 16, 16]])
        inputs[place] = {}
        for pixels, (name, grid) in grids.items():
            inputs[place][name] = torch.from_numpy(grid)
            inputs[place][pixels] = torch.zeros(int(grid.prod(1).sum()), 4)
    batch.non_tensor_batch["multi_modal_inputs"] = inputs
    return batch


def patches(micro_batch):
    """By the pixels, of which each row is a patch."""
    inputs = extract_multi_modal_inputs(micro_batch["multi_modal_inputs"])
    return sum(len(inputs[name]) for name in ("pixel_values", "pixel_values_videos") if name in inputs)


def of_ranks(batch, dp):
    """What the workers of each rank get, as verl's trainer and its dispatch make it."""
    return tensordict_utils.chunk_tensordict(left_right_2_no_padding(batch.to_tensordict()), dp)


def mini_batches(own, size):
    """A rank's mini-batches, as a worker goes through them."""
    return list(tensordict_utils.make_iterator(own, mini_batch_size=size, epochs=1, seed=1, dataloader_kwargs={}))


def for_micro_batches(data, budget, **more):
    return tensordict_utils.assign_non_tensor(
        data, use_dynamic_bsz=True, max_token_len_per_gpu=budget, sp_size=1, **more)


def tokens(micro_batch):
    return int(micro_batch["input_ids"].offsets()[-1])


def cost(micro_batch):
    """verl's, of a model of 7B parameters."""
    lengths = micro_batch["input_ids"].offsets().diff()
    return int((24576 * lengths + lengths**2).sum())
