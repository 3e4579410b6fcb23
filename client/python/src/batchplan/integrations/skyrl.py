"""For SkyRL: the ranks and micro-batches of its RL trainers, and the packed rows of its SFT.

    + import batchplan.integrations.skyrl

      @ray.remote(num_cpus=1)
      def skyrl_entrypoint(cfg):
    +     batchplan.integrations.skyrl.install()
          BasePPOExp(cfg).run()

in the function that Ray runs (for SFT sft_entrypoint) and not in main, since the trainer divides its batches
there. RL needs trainer.max_tokens_per_microbatch, SFT use_sequence_packing. Batchplan must be installed where
Ray's workers run.

Gradients of the policy and the critic are SkyRL's, and of the KL loss with FSDP. Its entropy bonus, clip_cov and
kl_cov depend on which sequences share a micro-batch, and so does the KL loss with Megatron: SkyRL fills up
micro-batches to the largest one's number of sequences and takes the mean over all. Planned ones are more alike, so
that the same kl_loss_coef weighs about twice as much.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy

import batchplan
from batchplan.integrations import _slot_field
from batchplan.integrations._replace import replace, wrap
from batchplan.integrations._slot_field import Int64s
from batchplan.integrations._slots import options_of, slots_of

__all__ = ["PlannedPacker", "install", "install_in_worker", "plan_batch"]

# The field in which a batch carries its plan.
_FIELD = "batchplan_microbatch"
# Of the collator that is packing: what it pads every sequence to a multiple of, and its plans' options.
_rows: contextvars.ContextVar[tuple[int, batchplan.PlanOptions]] = contextvars.ContextVar(
    "batchplan_skyrl_rows", default=(1, {})
)


class _Staged(list[Any]):
    """The ranks' chunks of a mini-batch, with the position in it of each of their sequences."""

    order: Int64s


class PlannedPacker:
    """The bins of a step's packed rows, in place of SkyRL's packers.

    PackedDataCollator deals bin i to rank i mod DP, and its bin_count_multiple is DP. Bins come in the order
    in which each rank then gets its own part of the plan, alike in cost at every micro-batch.
    """

    def __init__(
        self,
        bin_capacity: int,
        bin_count_multiple: int | None = None,
        *,
        length_multiple: int = 1,
        options: batchplan.PlanOptions | None = None,
    ) -> None:
        """
        Args:
            bin_capacity: tokens of a row, at most; also after each sequence was padded to `length_multiple`.
            bin_count_multiple: the data-parallel ranks.
            options: of the plan: costs, synchronization, effort.
        """
        self._ranks = bin_count_multiple or 1
        self._capacity = bin_capacity
        self._options: batchplan.PlanOptions = {
            **(options or {}),
            "dp": self._ranks,
            # SkyRL takes sequences that exceed the budget by their padding alone.
            "overlong": "alone",
            "passes": [batchplan.Pass(bin_capacity, length_multiple=length_multiple)],
        }

    def pack(self, sequence_lengths: Sequence[int]) -> list[list[int]]:
        """Bins of positions in `sequence_lengths`, as many for each rank.

        Raises:
            ValueError: a sequence is longer than a bin, or there are fewer sequences than ranks.
        """
        for place, length in enumerate(sequence_lengths):
            if length > self._capacity:
                raise batchplan.InvalidRequest(
                    f"max_tokens_per_microbatch is {self._capacity}; sequence {place} of the batch has "
                    f"{length} tokens"
                )
        plan = batchplan.plan(sequence_lengths, **self._options)
        return [one for slot in slots_of(plan, self._ranks) for one in slot]


def plan_batch(
    data: Any, dp_size: int, max_tokens: int, options: batchplan.PlanOptions | None = None
) -> tuple[Any, Int64s]:
    """Plans ranks and micro-batches of a batch, reorders it so, and writes the plan into it.

    Args:
        data: a TrainingInputBatch; dp_size divides its number of sequences.
        dp_size: data-parallel ranks. The batch is cut into as many chunks of equal size, one for each.
        max_tokens: of a micro-batch, by "attention_mask". A longer sequence is alone, as in SkyRL.
        options: of the plan: costs, synchronization, effort.

    Returns:
        the batch with one more field, which TokenBasedBatchIterator reads where `install_in_worker` was
        called; and the position in `data` of each of its sequences. Shape [sequences].
    """
    import torch

    lengths = numpy.maximum(_slot_field.mask_lengths(data["attention_mask"]), 1)
    request: batchplan.PlanOptions = {
        **(options or {}),
        "dp": dp_size,
        "overlong": "alone",
        # Ranks weigh micro-batches by their share of the rank's sequences, so ranks need equally many.
        "passes": [batchplan.Pass(max_tokens, equal_sequence_counts=True)],
    }
    plan = batchplan.plan(lengths, **request)
    order = numpy.concatenate(
        [one.indices for rank in range(dp_size) for one in plan.rank(rank)]
    ).astype(numpy.int64)
    taken = torch.from_numpy(order)
    planned = type(data)({key: None if value is None else value[taken] for key, value in data.items()})
    planned.metadata = data.metadata
    planned[_FIELD] = torch.from_numpy(_slot_field.of_plan(plan.passes[0], dp_size)[order])
    return planned, order


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Has SkyRL's trainers divide by plans, in this process and in the workers that it makes afterwards.

    Mini-batches keep their sequences, and ranks their number of them. Log-probabilities and values come back
    in the batch's order. What Tinker's API trains is not planned.

    Args:
        cost: what balance is measured by; that of a model of 7B parameters unless given.
        synchronization: "lockstep", where ranks wait for each other at every micro-batch, or "accumulated",
            where they do at the end of a mini-batch; None: the latter for Megatron without expert
            parallelism, the former elsewhere.
        effort: "fast", "default" or "thorough".

    Raises:
        ImportError: SkyRL is not there.
        ValueError: an option is none that there is; by RayPPOTrainer, where it has no budget.
        FailedPrecondition: by initialize_ray, if this process starts Ray afterwards.
    """
    options_of(cost, synchronization, effort)

    def options(config: Any, model: str) -> batchplan.PlanOptions:
        return options_of(cost, synchronization or _synchronization(config, model), effort)

    _install_dispatch(options)
    _install_collator(options)
    groups = importlib.import_module("skyrl.backends.skyrl_train.workers.worker").PPORayActorGroup
    wrap(groups, "_initiate_actors", _with_workers)
    trainer = importlib.import_module("skyrl.train.trainer").RayPPOTrainer
    wrap(trainer, "__init__", _with_a_budget)
    replace(importlib.import_module("skyrl.train.utils.utils"), "initialize_ray", _refuse_main)
    install_in_worker()


def install_in_worker() -> None:
    """The part of `install` that a worker's process needs: micro-batches by the plan that came along.

    Raises:
        ImportError: SkyRL is not there.
    """
    workers = importlib.import_module("skyrl.backends.skyrl_train.workers.worker_utils")

    def planned(sync: Any) -> Any:
        @functools.wraps(sync)
        def _sync_num_microbatches(self: Any) -> int:
            # The constructor's last step, in which all ranks agree on a number, with and without a plan.
            field = self.data.get(_FIELD)
            found = None if field is None else _slot_field.read(field.cpu().numpy(), len(field))
            if found is not None:
                self._microbatches = found[1]
            number: int = sync(self)
            return number

        return _sync_num_microbatches

    wrap(workers.TokenBasedBatchIterator, "_sync_num_microbatches", planned)


def _install_dispatch(options: Any) -> None:
    """The trainer's side: sequences go to ranks by plan, and results come back in the batch's order."""
    dispatches = importlib.import_module("skyrl.backends.skyrl_train.workers.worker_dispatch")
    batches = importlib.import_module("skyrl.backends.skyrl_train.training_batch")
    kind = dispatches.WorkerDispatch

    def staging(stage: Any) -> Any:
        @functools.wraps(stage)
        def stage_data(self: Any, model: str, data: Any, mini_batch_boundaries: Any) -> Any:
            budget = _budget(self.cfg)
            if budget < 1:
                return stage(self, model, data, mini_batch_boundaries)
            dp_size = self.dp_size(model)
            staged = []
            for begin, end in mini_batch_boundaries:
                mini_batch = data[begin:end]
                missing = -len(mini_batch["attention_mask"]) % dp_size
                if missing:
                    mini_batch = batches.pad_training_input_batch(mini_batch, missing)
                planned, order = plan_batch(mini_batch, dp_size, budget, options(self.cfg, model))
                (chunks,) = stage(self, model, planned, [(0, len(order))])
                staged.append(_Staged(chunks))
                staged[-1].order = order
            return staged

        return stage_data

    def restoring(forward: Any) -> Any:
        @functools.wraps(forward)
        def forward_from_staged(self: Any, model: str, chunk_refs: Any, *args: Any, **kwargs: Any) -> Any:
            output = forward(self, model, chunk_refs, *args, **kwargs)
            if isinstance(chunk_refs, _Staged):
                return _restored(output, chunk_refs.order)
            return output

        return forward_from_staged

    def forwarding(stock: Any) -> Any:
        @functools.wraps(stock)
        def forward(self: Any, model: str, data: Any, *args: Any, **kwargs: Any) -> Any:
            budget, dp_size = _budget(self.cfg), self.dp_size(model)
            sequences = len(data["attention_mask"])
            # With a loss function, SkyRL's micro-batches have fixed numbers of sequences.
            loss_fn = args[0] if args else kwargs.get("loss_fn")
            if budget < 1 or loss_fn is not None or sequences == 0 or sequences % dp_size:
                return stock(self, model, data, *args, **kwargs)
            planned, order = plan_batch(data, dp_size, budget, options(self.cfg, model))
            return _restored(stock(self, model, planned, *args, **kwargs), order)

        return forward

    wrap(kind, "stage_data", staging)
    wrap(kind, "forward_from_staged", restoring)
    wrap(kind, "forward", forwarding)


def _install_collator(options: Any) -> None:
    """SFT's packed rows."""
    collators = importlib.import_module("skyrl.train.dataset.collators")
    trainer = importlib.import_module("skyrl.train.sft_trainer").SFTTrainer

    def building(build: Any) -> Any:
        @functools.wraps(build)
        def _build_collator(self: Any, *args: Any, **kwargs: Any) -> Any:
            collator = build(self, *args, **kwargs)
            collator.batchplan_options = options(self.cfg, "policy")
            return collator

        return _build_collator

    def packing(call: Any) -> Any:
        @functools.wraps(call)
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            multiple = collators.get_packed_seq_align_size(
                self.tp_size, self.cp_size, fp8_enabled=self.fp8_enabled
            )
            of_trainer: batchplan.PlanOptions | None = getattr(self, "batchplan_options", None)
            before = _rows.set((int(multiple), of_trainer or {}))
            try:
                return call(self, *args, **kwargs)
            finally:
                _rows.reset(before)

        return __call__

    def make_seq_packer(
        algorithm: Any,
        bin_capacity: int,
        min_bin_count: int | None = None,
        bin_count_multiple: int | None = None,
    ) -> PlannedPacker:
        multiple, of_trainer = _rows.get()
        return PlannedPacker(
            bin_capacity, bin_count_multiple, length_multiple=multiple, options=of_trainer
        )

    wrap(trainer, "_build_collator", building)
    wrap(collators.PackedDataCollator, "__call__", packing)
    # Only the collator's: workers pack their micro-batches by the same function.
    setattr(collators, "make_seq_packer", make_seq_packer)


def _with_workers(initiate: Any) -> Any:
    @functools.wraps(initiate)
    def _initiate_actors(self: Any, *args: Any, **kwargs: Any) -> None:
        initiate(self, *args, **kwargs)
        ray = importlib.import_module("ray")
        ray.get([actor.__ray_call__.remote(_install_there) for actor in self._actor_handlers])

    return _initiate_actors


def _install_there(_: Any) -> None:
    install_in_worker()


def _with_a_budget(init: Any) -> Any:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if _budget(self.cfg) < 1:
            raise batchplan.InvalidRequest(
                f"trainer.max_tokens_per_microbatch is {_budget(self.cfg)}, with which SkyRL's micro-batches "
                "have micro_train_batch_size_per_gpu sequences: set it to the tokens of a micro-batch, or "
                "leave skyrl.install() out"
            )

    return __init__


def _refuse_main(*_: Any, **__: Any) -> None:
    raise batchplan.FailedPrecondition(
        "skyrl.install() was called in the process that starts Ray, while the trainer divides batches in a "
        "task of Ray: call it in skyrl_entrypoint, or sft_entrypoint, the function that makes the trainer; "
        "where that is this process, after initialize_ray"
    )


def _restored(output: Any, order: Int64s) -> Any:
    """What workers return, in the order of the batch."""
    outputs = output.loss_fn_outputs
    if len(outputs) == len(order):
        restored: list[Any] = [None] * len(order)
        for place, one in zip(order, outputs):
            restored[place] = one
        # In place, since the dataclass is frozen.
        outputs[:] = restored
    return output


def _budget(config: Any) -> int:
    return int(config.trainer.max_tokens_per_microbatch or 0)


def _synchronization(config: Any, model: str) -> str:
    """FSDP gathers parameters at every micro-batch, and experts exchange tokens. Other data-parallel ranks of
    Megatron meet when all gradients are there."""
    megatron = getattr(getattr(config.trainer, model, None), "megatron_config", None)
    experts = getattr(megatron, "expert_model_parallel_size", 1) or 1
    return "accumulated" if config.trainer.strategy == "megatron" and experts == 1 else "lockstep"
