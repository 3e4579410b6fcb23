"""For TRL's AsyncGRPOTrainer: the micro-batches of an optimizer step, planned together.

    + from batchplan.integrations.trl_async_grpo import plan_batches
      trainer = AsyncGRPOTrainer(...)
    + plan_batches(trainer)
      trainer.train()

TRL closes a micro-batch when the next sample fits into no rank's row, however full the others are, so that one
long sample keeps all other ranks waiting. Here the samples of gradient_accumulation_steps such micro-batches
are divided by one plan among the ranks and as many micro-batches, so that long ones meet. The loss and the
gradient of a step stay TRL's, but for a router's auxiliary loss, which depends on who shares a micro-batch. With
gradient_accumulation_steps=1 little is gained, unless `full_steps` lets a step take more samples.

The samples of a step leave the queue together, before the step before it is trained: a sample may be one
weight version older when it is trained than by TRL alone, and with `full_steps` two, where it waits for the next
step. Lower max_staleness by as much where that matters.
"""

from __future__ import annotations

import itertools
import logging
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import batchplan
from batchplan.integrations._rollouts import Rollouts, Slots, Waiting, samples_of, tokens_of
from batchplan.integrations._slots import options_of

__all__ = ["plan_batches"]

_BATCHERS = ("TokenBudgetBatcher", "FixedCountBatcher")
_COLLATOR = "DataCollatorForRollout"
# Of what a full step holds, what is tried first.
_FULL = 0.98
_log = logging.getLogger(__name__)


def plan_batches(
    trainer: Any,
    *,
    full_steps: bool = False,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Plans the micro-batches of a trainer, from its next train() on. Every rank calls it; the first one plans.

    Args:
        trainer: a trl.experimental.async_grpo.AsyncGRPOTrainer.
        full_steps: a step takes as many samples, in the order of the queue, as its micro-batches hold within
            token_budget, which are more than TRL gives it. Each of its trained tokens then counts alike.
        cost: what is balanced; that of a model of 7B parameters unless given.
        synchronization: "lockstep" unless given: TRL's compute_loss waits for all ranks at every micro-batch.
        effort: "fast", "default" or "thorough".

    Raises:
        ValueError: the trainer is none of these, or an option none that there is. When training begins: the
            trainer draws batches of its own; or full_steps is True and token_budget is not positive.
    """
    options = options_of(cost, synchronization, effort)
    module = _module_of(type(trainer))
    # Not that of a plan before this one.
    original = getattr(trainer.get_train_dataloader, "planned_over", trainer.get_train_dataloader)

    def get_train_dataloader(self: Any) -> Any:
        planned = _Planned(module, options, self.args.gradient_accumulation_steps, full_steps)
        stock = {name: getattr(module, name) for name in (*_BATCHERS, _COLLATOR)}
        replaced = {name: planned.batcher_like(stock[name]) for name in _BATCHERS}
        replaced[_COLLATOR] = planned.collator_like(stock[_COLLATOR])
        vars(module).update(replaced)
        try:
            loader = original()
        finally:
            vars(module).update(stock)
        if self.accelerator.is_main_process and not planned.is_used:
            raise batchplan.InvalidRequest(
                f"{type(self).__name__}.get_train_dataloader makes batches of its own, which plan_batches does "
                "not reach: leave it out"
            )
        return loader

    get_train_dataloader.planned_over = original  # type: ignore[attr-defined]
    trainer.get_train_dataloader = types.MethodType(get_train_dataloader, trainer)


def _module_of(owner: type) -> Any:
    """The module of AsyncGRPOTrainer, which its batchers stand in."""
    for base in owner.__mro__:
        module = sys.modules.get(base.__module__)
        if base.__name__ == "AsyncGRPOTrainer" and all(hasattr(module, name) for name in _BATCHERS):
            return module
    raise batchplan.InvalidRequest(
        f"trainer is a {owner.__name__}; must be an AsyncGRPOTrainer of trl.experimental.async_grpo, of TRL 1.15 "
        "or later"
    )


class _Rows(list[Any]):
    """A micro-batch's rows, one a rank, and what TRL's loss of it is divided by, in trained tokens."""

    def __init__(self, rows: Iterable[Any], divisor: float) -> None:
        super().__init__(rows)
        self.divisor = divisor


class _Planned:
    """Subclasses of TRL's batchers and collator, by which a trainer's micro-batches are planned."""

    def __init__(self, module: Any, options: batchplan.PlanOptions, of_step: int, full_steps: bool) -> None:
        self.is_used = False
        # A rank's row; TRL before 1.16 has lists.
        self._row = getattr(module, "TreeRow", list)
        self._options = options
        self._of_step = of_step
        self._full_steps = full_steps

    def batcher_like(self, stock: Any) -> Any:
        """Its class, whose micro-batches come in planned steps."""

        def __init__(batcher: Any, *args: Any, **kwargs: Any) -> None:
            stock.__init__(batcher, *args, **kwargs)
            self.is_used = True
            if self._full_steps and not getattr(batcher, "token_budget", 0):
                raise batchplan.InvalidRequest(
                    "full_steps is True, and token_budget is not positive, so that micro-batches have a fixed "
                    "number of samples: set token_budget, or leave full_steps out"
                )

        def __iter__(batcher: Any) -> Iterator[Any]:
            return self._filled(batcher) if self._full_steps else self._divided(batcher, stock.__iter__(batcher))

        return type(stock.__name__, (stock,), {"__init__": __init__, "__iter__": __iter__})

    def collator_like(self, stock: Any) -> Any:
        """Its class, which divides losses as planned rows say."""

        def torch_call(collator: Any, examples: Sequence[Any]) -> Any:
            batch = stock.torch_call(collator, examples)
            divisor = getattr(examples[0], "divisor", None)
            if divisor is not None:
                batch["global_n_tokens"].fill_(divisor)
            return batch

        return type(stock.__name__, (stock,), {"torch_call": torch_call})

    def _divided(self, batcher: Any, batches: Iterator[Any]) -> Iterator[Any]:
        """TRL's micro-batches, those of a step divided anew; as they are where no plan is faster."""
        ranks = batcher.num_processes
        while step := list(itertools.islice(batches, self._of_step)):
            rollouts = Rollouts([sample for rows in step for row in rows for sample in samples_of(row)], self._row)
            # Without a budget no row is longer than the longest of TRL's.
            budget = getattr(batcher, "token_budget", None) or max(
                len(tokens_of(row)) for rows in step for row in rows
            )
            places = itertools.count()
            stock = [[[next(places) for _ in samples_of(row)] for row in rows] for rows in step]
            found = rollouts.divided(ranks, len(step), budget, self._options)
            if found is None or rollouts.time(found, self._options) >= rollouts.time(stock, self._options):
                yield from step
                continue
            # Each of TRL's is a mean of its tokens, and what a sample weighs depends on theirs.
            tokens = [max(rollouts.trained_tokens(itertools.chain(*slot)), ranks) for slot in stock]
            divisor = max(sum(rollouts.trained) / len(step), ranks)
            for slot, number in zip(stock, tokens):
                rollouts.weigh(itertools.chain(*slot), divisor / number)
            yield from _rows(rollouts, found, divisor)

    def _filled(self, batcher: Any) -> Iterator[Any]:
        """Steps of as many samples as their micro-batches hold."""
        ranks, budget = batcher.num_processes, batcher.token_budget
        least = ranks * self._of_step
        waiting = Waiting(self._row)
        for sample in _within(budget, batcher):
            waiting.add(sample)
            if len(waiting.samples) < least or waiting.tokens < _FULL * least * budget:
                continue
            count, found = len(waiting.samples), None
            while found is None:
                rollouts = Rollouts(waiting.samples[:count], self._row)
                found = rollouts.divided(ranks, self._of_step, budget, self._options)
                if found is None:
                    # So few have a row each.
                    count = max(count - max(count // 64, 1), least)
            yield from _rows(rollouts, found, max(sum(rollouts.trained) / self._of_step, ranks))
            waiting = Waiting(self._row, waiting.samples[count:])


def _rows(rollouts: Rollouts, slots: Slots, divisor: float) -> Iterator[_Rows]:
    for slot in slots:
        yield _Rows((rollouts.row(places) for places in slot), divisor)


def _within(budget: int, batcher: Any) -> Iterator[Any]:
    """The queue's samples; those that no row holds are dropped, as TRL does."""
    for sample in batcher.dataset:
        tokens = len(sample["input_ids"])
        if tokens <= budget:
            yield sample
            continue
        _log.warning("a sample of %d tokens is dropped: token_budget is %d", tokens, budget)
        if hasattr(batcher, "metrics"):
            batcher.metrics["batch/dropped_oversize_total"].append(1.0)
