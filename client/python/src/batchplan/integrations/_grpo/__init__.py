"""TRL's trainers that generate what they train on: each generation batch is planned for all ranks at once.

TRL pads what a rank has generated to its longest, shuffles it, and cuts it into micro-batches of equal numbers. In
place of these come planned ones. Every optimizer step keeps the sequences that it had, and each of them its weight in
the loss.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from typing import Any

import numpy
import torch

import batchplan
from batchplan._checks import whole
from batchplan.integrations._agreement import gathering_in
from batchplan.integrations._grpo._checks import check, check_model, generates
from batchplan.integrations._grpo._log_probs import LogProbs
from batchplan.integrations._grpo._planned_batch import PlannedBatch, amid_a_step, of_different_rows
from batchplan.integrations._grpo._rows import Rows, Whole
from batchplan.integrations._grpo._weights import scale_of, with_weights
from batchplan.integrations._pipeline import with_overheads

__all__ = ["generates", "plan_generation"]

_OPTIONS = ("max_tokens", "passes", "cost", "effort", "synchronization")
_OF_PASSES = ("max_tokens", "name", "scan")
_METHODS = ("_prepare_inputs", "training_step", "_compute_loss", "_get_per_token_logps_and_entropies")


def plan_generation(trainer: Any, padded: bool | None, options: batchplan.PlanOptions) -> None:
    """Plans the training batches of one of TRL's trainers that generate, or of all of a class, from the next train()
    on. See batchplan.integrations.transformers.plan_batches.

    Raises:
        ValueError: what the trainer does can't be kept, by name; of a class when one of its trainers begins to train.
    """
    for name, value in options.items():
        if name not in _OPTIONS and value is not None:
            raise ValueError(f"{name} is given; of a generation batch only {', '.join(_OPTIONS)} can be said")
    if not isinstance(trainer, type):
        _plan_trainer(trainer, padded, options)
        trainer._batchplan_by_itself = True
        return
    owner: Any = trainer
    stock = getattr(owner.train, "planned_over", owner.train)

    @functools.wraps(stock)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        # What was asked for one trainer stays so.
        if not getattr(self, "_batchplan_by_itself", False):
            _plan_trainer(self, padded, options)
        return stock(self, *args, **kwargs)

    train.planned_over = stock  # type: ignore[attr-defined]
    owner.train = train


def _plan_trainer(trainer: Any, padded: bool | None, given: batchplan.PlanOptions) -> None:
    check(trainer)
    passes = _passes(given)
    if any(one.scan is not None for one in passes):
        padded = True
    is_padded, seq_idx = check_model(trainer, padded)
    multiple = getattr(trainer, "pad_to_multiple_of", None) or 1
    with_gradients, *others = [_laid_out(one, is_padded, multiple) for one in passes]
    # A micro-batch costs something too, or every row would be one, which pads nothing.
    options: batchplan.PlanOptions = {
        "synchronization": given.get("synchronization") or "lockstep",
        "cost": given.get("cost") or with_overheads(batchplan.DEFAULT_COST),
    }
    effort = given.get("effort")
    if effort is not None:
        options["effort"] = effort
    for name in _METHODS:
        hook = vars(trainer).get(name)
        # Not that of a plan before this one.
        if isinstance(getattr(hook, "__self__", hook), (_Planner, LogProbs)):
            delattr(trainer, name)
    planner = _Planner(trainer, with_gradients, options)
    log_probs = LogProbs(
        trainer, trainer._get_per_token_logps_and_entropies, is_padded, seq_idx, multiple,
        (others or [with_gradients])[0], options,
    )  # fmt: skip
    hooks = (planner.prepare_inputs, planner.training_step, planner.compute_loss, log_probs)
    for name, hook in zip(_METHODS, hooks):
        setattr(trainer, name, hook)
    trainer._batchplan_generation = planner


def _passes(given: batchplan.PlanOptions) -> list[batchplan.Pass]:
    """One, or two: of the loss, and of log-probabilities without gradients."""
    passes = given.get("passes")
    if passes is None:
        return [batchplan.Pass(given["max_tokens"])]
    if not 1 <= len(passes) <= 2:
        raise ValueError(
            f"passes has {len(passes)} entries; must have one, of the loss, or two, the second of log-probabilities "
            "without gradients"
        )
    for place, one in enumerate(passes):
        for field in dataclasses.fields(one):
            value = getattr(one, field.name)
            if field.name not in _OF_PASSES and value != field.default:
                raise ValueError(
                    f"passes[{place}].{field.name} is {value!r}; of a generation batch passes say "
                    f"{', '.join(_OF_PASSES)} alone"
                )
    return list(passes)


def _laid_out(one: batchplan.Pass, is_padded: bool, multiple: int) -> batchplan.Pass:
    budget = whole("max_tokens", one.max_tokens)
    if budget < multiple:
        raise ValueError(
            f"max_tokens is {budget}; must be at least " + (f"pad_to_multiple_of {multiple}" if multiple > 1 else "1")
        )
    tokens = budget // multiple * multiple
    if is_padded:
        return batchplan.Pass(tokens, scan=one.scan or "optimal", length_multiple=multiple)
    return batchplan.Pass(tokens, rows="none")


class _Planner:
    """In place of a trainer's methods between generation and loss."""

    def __init__(self, trainer: Any, one: batchplan.Pass, options: batchplan.PlanOptions) -> None:
        self._trainer = trainer
        self._pass = one
        self._options = options
        self._prepare_inputs = trainer._prepare_inputs
        self._training_step = trainer.training_step
        self._compute_loss = trainer._compute_loss
        owner: type = next(kind for kind in type(trainer).__mro__ if "training_step" in vars(kind))
        # Of transformers: it knows nothing of generation.
        self._inner_step: Any = getattr(super(owner, trainer), "training_step")

    def prepare_inputs(self, inputs: Any) -> Any:
        """While training, the micro-batches that stand in place of TRL's next one."""
        trainer = self._trainer
        if isinstance(inputs, PlannedBatch):
            return inputs
        before = trainer._buffered_inputs
        prepared = self._prepare_inputs(inputs)
        if not trainer.model.training or trainer._buffered_inputs is before:
            return prepared
        trainer._buffered_inputs = self._planned(trainer._buffered_inputs)
        return trainer._buffered_inputs[trainer._step % len(trainer._buffered_inputs)]

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        trainer = self._trainer
        began = time.perf_counter()
        # As transformers does before it prepares inputs.
        model.train()
        if callable(getattr(trainer.optimizer, "train", None)):
            trainer.optimizer.train()
        *earlier, last = trainer._prepare_inputs(inputs)
        loss = torch.zeros((), device=trainer.accelerator.device)
        for one in earlier:
            with amid_a_step(trainer.accelerator, model):
                loss = loss + self._inner_step(model, one, num_items_in_batch)
        trainer._current_train_step_time += time.perf_counter() - began
        return loss + self._training_step(model, last, num_items_in_batch)

    def compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        if not isinstance(inputs, PlannedBatch):
            return self._compute_loss(model, inputs)
        with of_different_rows(self._trainer, inputs):
            return self._compute_loss(model, inputs) * inputs.scale

    def _planned(self, batches: list[dict[str, Any]]) -> list[list[PlannedBatch]]:
        """Of each of TRL's micro-batches what stands in its place."""
        accumulated = self._trainer.args.gradient_accumulation_steps
        # So many always go into one optimizer step, wherever steps begin.
        together = math.gcd(len(batches), accumulated)
        each = len(batches[0]["prompt_ids"])
        rows: Rows | None = None

        def lengths() -> Whole:
            nonlocal rows
            mode = str(getattr(self._trainer, "vllm_importance_sampling_mode", ""))
            rows = Rows.of(
                [with_weights(self._trainer, one) for one in batches],
                ratios_of_rows=mode.startswith("sequence"),
            )
            return numpy.concatenate([rows.prompts, rows.completions])

        # Where a rank's rows are refused, all ranks raise.
        gather = gathering_in()
        everyone = gather(lengths)[1] if gather else [lengths()]
        assert rows is not None
        # [2, ranks, rows]: prompts and completions.
        tokens = numpy.stack(everyone).reshape(len(everyone), 2, -1).swapaxes(0, 1)
        planned = []
        for begin in range(0, len(rows), together * each):
            part = slice(begin, begin + together * each)
            own = rows.take(numpy.arange(len(rows))[part])
            planned += self._of_one_step(own, tokens[:, :, part], together, each)
        return planned

    def _of_one_step(self, own: Rows, tokens: Whole, count: int, each: int) -> list[list[PlannedBatch]]:
        """
        Args:
            own: this rank's rows.
            tokens: [2, ranks, rows], of all ranks' prompts and completions.
            count: of TRL's micro-batches that these are.
            each: rows of each of them.
        """
        ranks, number = tokens.shape[1:]
        one = dataclasses.replace(self._pass, min_microbatches=count, microbatch_count_multiple=count)
        request: batchplan.PlanOptions = {
            **self._options,
            "dp": ranks,
            "passes": [one],
            "overlong": "alone",
        }
        plan = batchplan.plan(tokens.sum(axis=0).ravel(), **request)
        slots = [[one.indices.astype(numpy.int64) for one in plan.rank(rank)] for rank in range(ranks)]
        # Rows by the rank that trains on them, in its order.
        places = [numpy.concatenate(of_rank) for of_rank in slots]
        here = self._trainer.accelerator.process_index
        if ranks > 1:
            outgoing = [of_rank[of_rank // number == here] for of_rank in places]
            sent = numpy.array([len(one) for one in outgoing])
            by_source = numpy.argsort(places[here] // number, kind="stable")
            incoming = places[here][by_source]
            received = numpy.bincount(incoming // number, minlength=ranks)
            prompts, completions = tokens.reshape(2, -1)[:, incoming]
            arrived = own.take(numpy.concatenate(outgoing) % number)
            arrived = arrived.exchanged(sent, (prompts, completions), received)
            trained = arrived.take(numpy.argsort(by_source, kind="stable"))
        else:
            trained = own.take(places[0])
        number_of_slots = len(slots[here])
        of_each = number_of_slots // count
        batches = []
        ends = numpy.cumsum([len(one) for one in slots[here]])
        for slot, (indices, end) in enumerate(zip(slots[here], ends)):
            batch = PlannedBatch(trained.take(numpy.arange(end - len(indices), end)).batch())
            batch.scale = scale_of(self._trainer, batch, each)
            batch.share = 1 / of_each
            of_ranks = [of_rank[slot] for of_rank in slots]
            batch.most_rows = max(map(len, of_ranks))
            of_slot = numpy.concatenate(of_ranks)
            batch.row_weight = number_of_slots * len(of_slot) / tokens[0].size
            completions = tokens[1].ravel()
            batch.token_weight = number_of_slots * completions[of_slot].sum() / max(completions.sum(), 1)
            batches.append(batch)
        return [batches[begin : begin + of_each] for begin in range(0, number_of_slots, of_each)]
