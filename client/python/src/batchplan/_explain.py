"""Why ranks wait in a plan, and sequences."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from batchplan import _core


@dataclasses.dataclass(frozen=True)
class Cause:
    """A part of what the step takes beyond an ideal one."""

    # "longest_sequence", "few_sequences", "budget", "sequence_limit", "microbatch_counts", "sequence_multiple",
    # "equal_counts", "mini_batches", "groups", "given_ranks", "kinds", "load_limits", "load_phases", "bubbles",
    # "stages", "padding", "exchange", "repeated_prefixes", "more_slots"; "unexplained" is the rest.
    name: str
    # In the cost model's unit, and as a part of the predicted step time.
    step_time: float
    share: float
    # Whether it is proven that every plan for the request has it.
    in_any_plan: bool


@dataclasses.dataclass(frozen=True)
class LoneSequence:
    """A slot that lasts as long as one sequence, which is alone in its micro-batch."""

    mini_batch: int
    slot: int
    # Its position in the batch, and its tokens.
    sequence: int
    length: int
    # What ranks wait for it, on average, in the cost model's unit.
    waiting: float


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Why ranks wait in a pass; server/explain/explanation.h says how that is found. As a string, its sentences."""

    predicted_step_time: float
    ideal_step_time: float
    # The plan's, or what is proven beyond it.
    lower_bound_step_time: float
    # The most first, what is unexplained last. They add up to the predicted over the ideal time.
    causes: tuple[Cause, ...]
    # What the ideal step itself takes for lengths to be multiples, and for the minimum and multiple of
    # micro-batches.
    aligning: float
    required_microbatches: float
    # What would stay of the cause "budget", at least, with twice the budget.
    with_twice_the_budget: float
    # In lockstep, those that are waited for most first.
    lone_sequences: tuple[LoneSequence, ...]
    # All of that in English.
    sentences: tuple[str, ...]
    # With a selection, why sequences wait.
    deferral: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.sentences, *self.deferral))


def explain(request_json: str, plan: dict[str, Any], arrays: _core.Arrays) -> tuple[Explanation, ...]:
    """Of each pass of a whole plan, as protobuf's JSON has it, for a request with these arrays."""
    passes, deferral = _core.explain_plan(request_json, json.dumps(plan), arrays)
    return tuple(
        Explanation(
            predicted,
            ideal,
            least,
            tuple(
                Cause(name, time, time / predicted if predicted else 0.0, in_any_plan)
                for name, time, in_any_plan in causes
            ),
            aligning,
            required,
            twice,
            tuple(LoneSequence(*one) for one in lone),
            tuple(sentences),
            tuple(deferral),
        )
        for predicted, ideal, least, causes, aligning, required, twice, lone, sentences in passes
    )
