"""For OpenRLHF: the ranks and micro-batches of PPO, GRPO and the like, by --train.dynamic_batch_enable.

    + import batchplan.integrations.openrlhf
    + batchplan.integrations.openrlhf.install()
      train(args)

in openrlhf/cli/train_ppo_ray.py. The trainer's actor and the workers get it from that process; batchplan must
be installed where they run.

Gradients are OpenRLHF's, but for the auxiliary loss of experts' routers (aux_loss_coef), which depends on which
samples share a micro-batch.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
import logging
from collections.abc import Sequence
from typing import Any

import numpy

import batchplan
from batchplan.integrations import _slot_field
from batchplan.integrations._replace import stock_of, wrap
from batchplan.integrations._slots import options_of

__all__ = ["balance_experiences", "install", "install_in_worker"]

_log = logging.getLogger("batchplan")
# Where an experience carries its plan: beside its metrics, a number a sample; _NONE without a plan.
_MARK = "batchplan_microbatch"
_NONE = -1


class _Steps:
    """The plan of a rank's replay buffer, which asks twice for each optimizer step: first for the number of
    micro-batches, after all ranks have agreed on it for the micro-batches."""

    def __init__(self, marks: Sequence[int], samples: int) -> None:
        """
        Args:
            marks: of each sample of the buffer.
            samples: of a step.
        """
        self._marks = numpy.asarray(marks, numpy.int64)
        self._samples = samples
        self._counted = self._divided = 0

    def count(self) -> int | None:
        """The planned number of micro-batches of the next step; None without a whole plan."""
        self._counted += 1
        found = self._of(self._counted - 1)
        return None if found is None else len(found)

    def partitions(self) -> list[list[int]] | None:
        """The planned micro-batches of the next step, as positions in it; None without a whole plan."""
        self._divided += 1
        return self._of(self._divided - 1)

    def _of(self, step: int) -> list[list[int]] | None:
        own = self._marks[step * self._samples : (step + 1) * self._samples]
        if (own == _NONE).any():
            return None
        found = _slot_field.read(own, len(own))
        return None if found is None else found[1]


_steps: contextvars.ContextVar[_Steps | None] = contextvars.ContextVar(
    "batchplan_openrlhf_steps", default=None
)


class _Installed:
    """Calls install() with the same options in each process that unpickles it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __reduce__(self) -> Any:
        return _installed, (self._options,)


def balance_experiences(
    experiences: Sequence[Any],
    args: Any,
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> list[Any]:
    """openrlhf.trainer.ppo_utils.experience.balance_experiences: ranks and micro-batches of every optimizer
    step in one plan, which goes with the samples to the ranks' replay buffers.

    A step has the samples that it has with OpenRLHF's rule. As there, those beyond the last whole step are
    not trained; a warning says how many.

    Args:
        experiences: OpenRLHF's, of one or more samples.
        args: OpenRLHF's: train.batch_size, train.max_tokens_per_gpu, rollout.batch_size,
            rollout.n_samples_per_prompt, and what says how many ranks there are.
        cost: what balance is measured by; that of a model of 7B parameters unless given.
        synchronization: "lockstep", the default, since DeepSpeed reduces gradients after every
            micro-batch of dynamic batches; or "accumulated".
        effort: "fast", "default" or "thorough".

    Returns:
        one experience a rank, fewer if there are fewer samples. A sample of more than
        train.max_tokens_per_gpu, times the ranks that share it, has a micro-batch of its own.
    """
    ours = importlib.import_module("openrlhf.trainer.ppo_utils.experience")
    shared, ranks = _ranks_per_sample(args), _actor_ranks(args)
    items = [item for one in experiences for item in ours.split_experience_batch(one)]
    if not items:
        return []
    lengths = numpy.maximum([int(item.total_length) for item in items], 1)
    order, used = _in_steps(ours, args, lengths, ranks)
    marks = numpy.full(len(items), _NONE, numpy.int64)
    of_ranks: list[list[int]] = [[] for _ in range(ranks)]
    if used:
        one = batchplan.Pass(args.train.max_tokens_per_gpu * shared, equal_sequence_counts=True)
        request: batchplan.PlanOptions = {
            **options_of(cost, synchronization, effort),
            "dp": ranks,
            "mini_batch_size": args.train.batch_size // ranks * ranks,
            "overlong": "alone",
            "passes": [one],
        }
        plan = batchplan.plan(lengths[order[:used]], **request)
        marks[order[:used]] = _slot_field.of_plan(plan.passes[0], ranks)
        for rank, own in enumerate(of_ranks):
            own.extend(order[place] for one in plan.rank(rank) for place in one.indices)
    if used < len(items):
        _log.warning(
            "batchplan: %d of %d samples are beyond the last whole step of train.batch_size %d, and OpenRLHF "
            "does not train them",
            len(items) - used, len(items), args.train.batch_size,
        )  # fmt: skip
        for number, place in enumerate(order[used:]):
            of_ranks[number % ranks].append(place)
    for item, mark in zip(items, marks.tolist()):
        item.info[_MARK] = mark
    return [ours.make_experience_batch([items[place] for place in own]) for own in of_ranks if own]


def _in_steps(
    ours: Any, args: Any, lengths: _slot_field.Int64s, ranks: int
) -> tuple[_slot_field.Int64s, int]:
    """The samples step after step, as OpenRLHF's own rule and its buffers have them, then those of no step.

    Returns:
        their positions, and how many are of a step.
    """
    import torch

    # What it would make of this batch, tried on one that has lengths alone.
    only = ours.Experience(
        sequences=torch.zeros(len(lengths), 1, dtype=torch.long),
        total_length=torch.from_numpy(lengths),
        info={"position": torch.arange(len(lengths))},
    )
    stock = stock_of(ours.balance_experiences)
    buffers = [[int(place) for place in one.info["position"]] for one in stock([only], args)]
    local = args.train.batch_size // ranks
    expected = args.rollout.batch_size * args.rollout.n_samples_per_prompt // args.train.batch_size
    steps = 0
    if local and len(buffers) == ranks:
        steps = min(expected, *(len(own) // local for own in buffers))
    order = [
        place for step in range(steps) for own in buffers for place in own[step * local : (step + 1) * local]
    ]
    rest = [place for own in buffers for place in own[steps * local :]]
    return numpy.asarray(order + rest, numpy.int64), len(order)


def install(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Has OpenRLHF divide by plans, in this process and in the actors that it makes afterwards.

    Args:
        cost, synchronization, effort: balance_experiences'.

    Raises:
        ImportError: OpenRLHF is not there.
        ValueError: an option is none that there is; by the actors' groups, where
            train.dynamic_batch_enable is not set.
    """
    options_of(cost, synchronization, effort)
    options: dict[str, Any] = {"cost": cost, "synchronization": synchronization, "effort": effort}
    experience = importlib.import_module("openrlhf.trainer.ppo_utils.experience")
    wrap(
        experience, "balance_experiences", lambda _: functools.partial(balance_experiences, **options)
    )
    groups = importlib.import_module("openrlhf.trainer.ray.launcher").RayActorGroup

    def initiating(initiate: Any) -> Any:
        @functools.wraps(initiate)
        def _initiate_actors(self: Any, *args: Any, **kwargs: Any) -> None:
            initiate(self, *args, **kwargs)
            # The trainer is an actor of its own, which gets the group as an argument.
            self.batchplan_installed = _Installed(options)
            ray = importlib.import_module("ray")
            ray.get([actor.__ray_call__.remote(_install_there) for actor in self._actor_handlers])

        return _initiate_actors

    wrap(groups, "_initiate_actors", initiating)
    wrap(groups, "async_init_model_from_pretrained", _with_dynamic_batches)
    install_in_worker()


def install_in_worker() -> None:
    """The part of `install` that a worker's process needs: micro-batches by the plan that came along.

    Where a step's plan is not whole, or another rank has more micro-batches, the rank divides its samples
    as OpenRLHF does; so does a critic of another number of GPUs than the actor's, with a warning.

    Raises:
        ImportError: OpenRLHF is not there.
    """
    buffers = importlib.import_module("openrlhf.trainer.ppo_utils.replay_buffer")

    def setting_up(setup: Any) -> Any:
        @functools.wraps(setup)
        def setup_dynamic_batch(self: Any, strategy: Any) -> None:
            for item in self.items:
                # All that stays in info is logged as a metric.
                mark = item.info.pop(_MARK, None)
                if mark is not None:
                    item.batchplan_mark = int(mark)
            marks = [getattr(item, "batchplan_mark", _NONE) for item in self.items]
            ranks, planned = strategy.ds_device_mesh["dp"].size(), _actor_ranks(strategy.args)
            if ranks != planned:
                # Its samples are parts of several ranks' plans, or a part of one's.
                _warn_of_ranks(ranks, planned)
                marks = [_NONE] * len(marks)
            before = _steps.set(_Steps(marks, strategy.args.train.batch_size // ranks))
            try:
                setup(self, strategy)
            finally:
                _steps.reset(before)

        return setup_dynamic_batch

    def counting(count: Any) -> Any:
        @functools.wraps(count)
        def get_minimum_num_micro_batch_size(*args: Any, **kwargs: Any) -> int:
            steps = _steps.get()
            planned = None if steps is None else steps.count()
            return int(count(*args, **kwargs)) if planned is None else planned

        return get_minimum_num_micro_batch_size

    def dividing(divide: Any) -> Any:
        @functools.wraps(divide)
        def get_seqlen_balanced_partitions(
            seqlen_list: Any, k_partitions: int, equal_size: bool
        ) -> list[list[int]]:
            steps = _steps.get()
            planned = None if steps is None else steps.partitions()
            if planned is not None and len(planned) == k_partitions:
                return planned
            parts: list[list[int]] = divide(seqlen_list, k_partitions, equal_size)
            return parts

        return get_seqlen_balanced_partitions

    wrap(buffers.NaiveReplayBuffer, "setup_dynamic_batch", setting_up)
    # It calls both once a step.
    wrap(buffers, "get_minimum_num_micro_batch_size", counting)
    wrap(buffers, "get_seqlen_balanced_partitions", dividing)


def _ranks_per_sample(args: Any) -> int:
    return int(args.ds.ring_attn_size * args.ds.tensor_parallel_size)


def _actor_ranks(args: Any) -> int:
    """The data-parallel ranks that are planned for."""
    return int(args.actor.num_nodes * args.actor.num_gpus_per_node // _ranks_per_sample(args))


@functools.cache
def _warn_of_ranks(ranks: int, planned: int) -> None:
    _log.warning(
        "batchplan: the critic has %d data-parallel ranks and the actor, for which batches are planned, %d: the "
        "critic's micro-batches are divided by OpenRLHF's own rule. Set critic.num_nodes and "
        "critic.num_gpus_per_node as the actor's, or leave it so",
        ranks, planned,
    )  # fmt: skip


def _installed(options: dict[str, Any]) -> _Installed:
    install(**options)
    return _Installed(options)


def _install_there(_: Any) -> None:
    install_in_worker()


def _with_dynamic_batches(init: Any) -> Any:
    @functools.wraps(init)
    def async_init_model_from_pretrained(self: Any, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        if not strategy.args.train.dynamic_batch_enable:
            raise batchplan.InvalidRequest(
                "train.dynamic_batch_enable is False, with which OpenRLHF's micro-batches have "
                "train.micro_batch_size samples: set it, with train.max_tokens_per_gpu, or leave "
                "openrlhf.install() out"
            )
        return init(self, strategy, *args, **kwargs)

    return async_init_model_from_pretrained
