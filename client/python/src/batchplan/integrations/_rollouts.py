"""Samples of a rollout, whose rows may forward the tokens that they share once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

import batchplan
from batchplan.integrations._slots import slots_of_count

# [micro-batches][ranks] of positions among the samples.
Slots = list[list[list[int]]]


def samples_of(row: Any) -> Sequence[dict[str, Any]]:
    """Those of a rank's row: TRL's TreeRow, or a list, as TRL had before 1.16."""
    samples: Sequence[dict[str, Any]] = getattr(row, "samples", row)
    return samples


def tokens_of(row: Any) -> Sequence[int]:
    """Those that a row forwards."""
    if hasattr(row, "tokens"):
        tokens: Sequence[int] = row.tokens
        return tokens
    return [token for sample in row for token in sample["input_ids"]]


def shared_tokens(own: NDArray[Any], others: Iterable[NDArray[Any]]) -> int:
    """Tokens at a sample's beginning that a TreeRow with the other ones forwards anyhow. It forks one token before
    samples differ, so that each token has one successor."""
    most = 0
    for other in others:
        length = min(len(own), len(other))
        differ = numpy.flatnonzero(own[:length] != other[:length])
        if len(differ) == 0 and len(own) == len(other):
            return length
        most = max(most, int(differ[0]) - 1 if len(differ) else length - 1)
    return most


class Waiting:
    """Samples that wait for a step.

    Attributes:
        samples: in the order that they came in.
        tokens: what rows must hold for them, at least: those that they forward, or train.
    """

    def __init__(self, kind: Callable[[], Any], samples: Iterable[dict[str, Any]] = ()) -> None:
        """kind: as Rollouts has it."""
        self.samples: list[dict[str, Any]] = []
        self.tokens = 0
        self._shares = hasattr(kind, "add")
        self._of_group: dict[Any, list[NDArray[Any]]] = {}
        for sample in samples:
            self.add(sample)

    def add(self, sample: dict[str, Any]) -> None:
        """One more, behind the others."""
        ids = numpy.asarray(sample["input_ids"])
        others = self._of_group.setdefault(sample["group_id"], [])
        novel = len(ids) - (shared_tokens(ids, others) if self._shares else 0)
        others.append(ids)
        self.samples.append(sample)
        self.tokens += max(novel, int(numpy.asarray(sample["completion_mask"]).sum()))


class Rollouts:
    """The samples of an optimizer step, of which those of a `group_id` often begin alike.

    Attributes:
        trained: tokens of each sample that the loss is taken over.
    """

    def __init__(self, samples: Sequence[dict[str, Any]], kind: Callable[[], Any]) -> None:
        """
        Args:
            samples: as the trainer's queue has them.
            kind: makes a rank's empty row, TRL's TreeRow, which forwards shared tokens once, or a list.
        """
        self._samples = list(samples)
        self._kind = kind
        self._shares = hasattr(kind, "add")
        self._ids = [numpy.asarray(sample["input_ids"]) for sample in samples]
        # The first token is predicted by none.
        self.trained = [int(numpy.asarray(sample["completion_mask"])[1:].sum()) for sample in samples]
        # What all begin with, such as a system's prompt, is forwarded once in every row.
        self._common = min(map(self._begins_as_all, range(len(samples)))) if self._shares and samples else 0

    def _begins_as_all(self, place: int) -> int:
        ids = self._ids[place]
        # At least a token more, and what is trained, is a sample's own.
        return min(shared_tokens(ids, self._ids[:1]), len(ids) - max(self.trained[place], 1))

    def divided(self, ranks: int, of_step: int, budget: int, options: batchplan.PlanOptions) -> Slots | None:
        """All samples in of_step micro-batches of every rank, none of them empty, with at most `budget` tokens
        to forward and as many to train. The faster one of two plans: of samples by themselves, and of groups
        that forward what they share once. None if neither has so few micro-batches."""
        # Beside what all begin with.
        budget -= self._common
        own = numpy.array([len(ids) - self._common for ids in self._ids])
        found = [self._planned(own, None, ranks, of_step, budget, options)]
        units, lengths = self._units(budget)
        if lengths.sum() < own.sum():
            found.append(self._planned(lengths, units, ranks, of_step, budget, options))
        plans = [one for one in found if one is not None]
        return min(plans, key=lambda one: self.time(one, options), default=None)

    def _planned(
        self,
        lengths: NDArray[numpy.int64],
        units: Sequence[int] | None,
        ranks: int,
        of_step: int,
        budget: int,
        options: batchplan.PlanOptions,
    ) -> Slots | None:
        request: batchplan.PlanOptions = {**options, "dp": ranks}
        if units is not None:
            request["group_ids"] = numpy.asarray(units)
            request["groups"] = "same_microbatch"
        return slots_of_count(lengths, of_step, batchplan.Pass(budget), request)

    def _units(self, budget: int) -> tuple[list[int], NDArray[numpy.int64]]:
        """Of each sample the unit that it stays in, a group or as much of it as a row holds, and the tokens that
        it adds to the unit's samples before it: to those that a row forwards, or trains, whichever are more."""
        units = [0] * len(self._ids)
        lengths = numpy.zeros(len(self._ids), numpy.int64)
        unit = -1
        for group in self._of_groups(range(len(self._ids))):
            members: list[int] = []
            tokens = 0
            for place in group:
                own = len(self._ids[place])
                added = max(own - self._shared(place, members), self.trained[place], 1)
                if not members or tokens + added > budget:
                    unit += 1
                    members, tokens, added = [], 0, own - self._common
                members.append(place)
                tokens += added
                units[place], lengths[place] = unit, added
        return units, lengths

    def _shared(self, place: int, before: Iterable[int]) -> int:
        return shared_tokens(self._ids[place], [self._ids[one] for one in before]) if self._shares else 0

    def time(self, slots: Slots, options: batchplan.PlanOptions) -> float:
        """Of a step, by the options' costs and synchronization."""
        costs = numpy.array([[self._cost(row, options) for row in slot] for slot in slots])
        if options.get("synchronization") == "accumulated":
            return float(costs.sum(axis=0).max())
        return float(costs.max(axis=1).sum())

    def _cost(self, row: Sequence[int], options: batchplan.PlanOptions) -> float:
        model = options.get("cost") or batchplan.DEFAULT_COST
        assert isinstance(model, batchplan.CostModel)
        alone = model.of_sequences([len(self._ids[place]) for place in row]).sum()
        if not self._shares:
            return float(alone) + model.per_microbatch
        # All but the row's first one begin as the others do.
        shared = numpy.array([
            self._shared(one, group[:number]) for group in self._of_groups(row) for number, one in enumerate(group)
        ])
        shared[1:] = numpy.maximum(shared[1:], self._common)
        saved = float((model.of_sequences(shared) - model.per_sequence).sum())
        return float(alone) - saved + model.per_microbatch

    def _of_groups(self, places: Iterable[int]) -> Iterable[list[int]]:
        """These samples in groups, in the order that they came in."""
        groups: dict[Any, list[int]] = {}
        for place in sorted(places):
            groups.setdefault(self._samples[place]["group_id"], []).append(place)
        return groups.values()

    def trained_tokens(self, places: Iterable[int]) -> int:
        """Of these samples."""
        return sum(self.trained[place] for place in places)

    def weigh(self, places: Iterable[int], weight: float) -> None:
        """Has these samples count so many times what they did: losses are proportional to advantages."""
        for place in places:
            sample = self._samples[place]
            self._samples[place] = {**sample, "advantage": sample["advantage"] * weight}

    def row(self, places: Iterable[int]) -> Any:
        """A rank's row of these samples."""
        row = self._kind()
        add = getattr(row, "add", None) or row.append
        for place in sorted(places):
            add(self._samples[place])
        return row
