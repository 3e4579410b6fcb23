"""Plans of global batches of a dataset, each by itself."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._choices import Effort
from batchplan._errors import InvalidRequest
from batchplan._local import plan as make_plan
from batchplan._options import DEFAULT_COST, CostModel, Pass, PlanOptions, load_costs
from batchplan._pass_plan import PassPlan
from batchplan._plan import Plan
from batchplan._sequence_loads import SequenceLoads
from batchplan.torch._dataset import Dataset
from batchplan.torch._dropped import kept_of
from batchplan.torch._mini_batches import MiniBatches

Positions = NDArray[Any]
_PLACE = re.compile(r"(\b(?:lengths|group_ids|prompt_lengths)\[|\bsequence )(\d+)")
_INT32_MOST = 2**31 - 1
# The quickest first.
_EFFORTS: tuple[Effort, ...] = ("fast", "default", "thorough")
# By which a budget or limit is divided, where several are to be held.
_FINEST = 2**20
# Sums of doubles depend on their order.
_SLACK = 1 + 1e-9


class MoreNeededError(ValueError):
    """A global batch needs more micro-batches on each rank than the fixed number."""

    def __init__(self, number: int | None, needed: int) -> None:
        super().__init__(f"microbatches_per_step is {number}; these sequences need {needed} on each rank")
        self.needed = needed


class BatchPlanner:
    """Plans global batches, and says which can be planned at all: functions of what this was made from.

    Attributes:
        options: of a plan, without those of each sequence; of a fixed number, the first pass asks for it.
        ranks: data-parallel.
        microbatches: of each rank and global batch, or mini-batch; None: as few as it takes.
        each: the sequences of a micro-batch are a multiple of it.
        least: sequences that a global batch, or mini-batch, has at least.
        multiple: of sequences, with which the micro-batches of all ranks can have equally many.
        is_plain: whether each batch of such a multiple of sequences can be planned, as each sequence can have a
            micro-batch of its own.
        goes_by_tokens: whether only tokens decide which sequences fit together.
    """

    def __init__(
        self, dataset: Dataset, options: PlanOptions, *, ranks: int, microbatches: int | None
    ) -> None:
        """
        Args:
            options: of a plan, with passes, without those of each sequence.
            ranks: data-parallel.

        Raises:
            ValueError: a fixed number of micro-batches is below 1, or a pass asks for another one.
        """
        self.options = options
        self.microbatches: int | None = None
        self._dataset, self._lengths, self._group_ids = dataset, dataset.lengths, dataset.group_ids
        self.ranks = ranks
        if microbatches is not None:
            self._fix(microbatches)
        first = self.passes[0]
        # Not of NumPy, whose products overflow.
        self._budget = int(first.max_tokens)
        # The micro-batches of all ranks are a multiple of it.
        self._rows = ranks * max(1, int(first.microbatch_count_multiple or 1))
        self.each = max(1, int(first.sequence_count_multiple or 1))
        self.multiple = self._rows * self.each
        self.least = math.ceil(ranks * (first.min_microbatches or 1) / self._rows) * self.multiple
        self._allows_empty = bool(options.get("allow_empty_microbatches"))
        if self._allows_empty:
            self.least = 1
        # Of each load that is limited, what sequences need of it. What is wrong with a limit, a plan says.
        cost = options.get("cost")
        self._limits = {
            name: (values, most)
            for name, most in (first.limits or {}).items()
            if most > 0 and (values := dataset.room(name, cost, ranks)) is not None
        }
        deals = any(one.dealt and one.load in self._limits for one in load_costs(cost))
        stays = bool(len(dataset.group_ids)) and options.get("groups") not in (None, "ignore")
        asked = MiniBatches.of(options)
        self._mini_batches = MiniBatches(0, False, True) if first.ignore_mini_batches else asked
        self.is_plain = (
            self.microbatches is None
            and len(self.passes) == 1
            and options.get("preset") in (None, "balanced")
            and max(options.get("pp") or 1, options.get("vpp") or 1) == 1
            and not (stays and (self._mini_batches or options.get("groups") != "same_mini_batch"))
            and not (first.ignore_mini_batches and asked)
            and not asked.of_groups
            and self.kinds_rule is None
            and not deals
            and self.each == 1
        )
        self.goes_by_tokens = self.is_plain and not self._limits and dataset.prompts is None
        self._aligned: NDArray[numpy.int64] | None = None
        if self.goes_by_tokens and first.rows in (None, "none") and first.scan is None:
            counts = first.equal_sequence_counts or first.sequence_counts is not None
            if first.max_sequences in (None, 0) and not counts:
                self._aligned = self._lengths.astype(numpy.int64)
        # Of each sequence; where only tokens are limited, these.
        self._sizes: NDArray[numpy.int64] | None = None
        if self._limits:
            parts = self._lengths / max(1, self._budget)
            for values, most in self._limits.values():
                parts = numpy.maximum(parts, values / most)
            self._sizes = numpy.ceil(numpy.minimum(parts, _FINEST) * _FINEST).astype(numpy.int64)

    @property
    def passes(self) -> list[Pass]:
        return list(self.options["passes"])

    @property
    def kinds_rule(self) -> str | None:
        """Which kinds run at the same time: "together" or "alike"; None: any."""
        rules = [one.kinds_per_slot for one in self.passes if one.kinds_per_slot not in (None, "any")]
        if self._dataset.loads.kinds is None or not rules:
            return None
        return "alike" if "alike" in rules else "together"

    def kinds(self, batch: Positions) -> NDArray[numpy.int64] | None:
        """Of each sequence, by what must not meet in a slot: 0 of text; None: anything may."""
        kinds, rule = self._dataset.loads.kinds, self.kinds_rule
        if kinds is None or rule is None:
            return None
        own = kinds[batch].astype(numpy.int64)
        return own if rule == "alike" else numpy.minimum(own, 1)

    @property
    def limit(self) -> str:
        """What bounds a micro-batch, as errors say it."""
        first = self.passes[0]
        most = first.max_sequences
        return f"max_sequences {most}" if most else f"max_tokens {first.max_tokens}"

    def _fix(self, number: int) -> None:
        """Has every plan take this number of micro-batches."""
        if number < 1:
            raise ValueError(f"microbatches_per_step is {number}; must be at least 1")
        first, *others = self.passes
        for name in ("min_microbatches", "microbatch_count_multiple"):
            given = getattr(first, name)
            if given not in (None, number):
                raise ValueError(f"microbatches_per_step is {number}; passes[0].{name} is {given}")
        first = dataclasses.replace(first, min_microbatches=number, microbatch_count_multiple=number)
        self.options["passes"] = [first, *others]
        self.microbatches = number

    def kept(self) -> Positions:
        """Positions of the sequences that are not dropped for their length, or what they bring."""
        if self.options.get("overlong") != "drop":
            return numpy.arange(len(self._lengths))
        return kept_of(self._dataset, self.options, self.ranks)

    def check_longest(self, positions: Positions, batch_size: int) -> None:
        """Plans those of these sequences that take the most room, one for each micro-batch: a wrong option, or a
        sequence that is too long, is found before any epoch.

        Raises:
            InvalidRequest: one is too long, an option is wrong, or a row could have 2^31 tokens.
            FailedPrecondition: cost="fitted".
        """
        count = min(len(positions), max(self.least, self.multiple))
        # Where counts must be equal.
        count -= count % self.ranks if count > self.ranks else 0
        if count == 0:
            return
        ascending = positions[numpy.argsort(self._lengths[positions], kind="stable")]
        longest = ascending[-count:]
        if self._limits:
            longest = positions[numpy.argsort(self.sizes(positions), kind="stable")][-count:]
        lone: PlanOptions = {**self.options_of(longest), "allow_empty_microbatches": True, "effort": "fast"}
        for name in ("mini_batch_size", "mini_batch_groups", "last_mini_batch", "max_delay", "order", "groups"):
            lone.pop(name, None)  # type: ignore[misc]
        # Kinds and counts are those of a global batch.
        of_batch: Any = {"kinds_per_slot": None, "sequence_count_multiple": None}
        lone["passes"] = [dataclasses.replace(one, **of_batch) for one in self.passes]
        multiple = self.made(longest, lone).passes[0].length_multiple
        if self._aligned is not None:
            self._aligned += -self._aligned % multiple
        # No batch has more.
        lengths = self._lengths[ascending[-batch_size - self.multiple :]].astype(numpy.int64)
        lengths += -lengths % multiple
        widest = max(int(lengths[-1]), min(int(lengths.sum()), self._budget))
        if widest > _INT32_MOST:
            raise InvalidRequest(
                f"max_tokens is {self._budget}, by which a row could have {widest} tokens; must be at most "
                f"{_INT32_MOST}, which its offsets, of int32, reach"
            )

    def fits(self, batch: Positions, *, quickly: bool = False) -> bool:
        """Whether these sequences can be planned as a global batch. `quickly` stops at effort="fast", which may
        miss a plan."""
        if self._lacks_a_kind(batch):
            return False
        size = self._mini_batches.sequences or len(batch)
        if self.is_plain and len(batch) % size == 0:
            if size < self.least:
                return False
            rest = size % self.multiple
            if self._allows_empty or rest == 0:
                return True
            shared = None if self._mini_batches else self._share(batch, rest)
            if shared is not None:
                return shared
        try:
            if quickly and self.microbatches is None:
                self.made(batch, {**self.options_of(batch), "effort": "fast"})
            else:
                self.plan(batch, effort="fast")
        except ValueError:
            return False
        return True

    def _lacks_a_kind(self, batch: Positions) -> bool:
        """Whether it has too few sequences of a kind for a slot, which has one on each rank."""
        kinds = None if self._mini_batches else self.kinds(batch)
        if kinds is None:
            return False
        found, counts = numpy.unique(kinds, return_counts=True)
        if self.kinds_rule == "together" or self._allows_empty:
            counts = counts[found > 0]
        return bool((counts < self.ranks).any())

    def _share(self, batch: Positions, count: int) -> bool | None:
        """Whether so many sequences can go to the micro-batches of others: whether the 2 * count shortest fit in
        count micro-batches. None: neither pairs nor sums tell."""
        if self._aligned is None:
            return None
        lengths = self._aligned[batch]
        if len(lengths) < 2 * count:
            return None
        shortest = numpy.sort(lengths)[: 2 * count]
        if shortest[0] + shortest[1] > self._budget or shortest.sum() > count * self._budget:
            return False
        if (shortest[:count] + shortest[count:][::-1]).max() <= self._budget:
            return True
        # Where no three fit, only pairs are left.
        return False if shortest[:3].sum() > self._budget else None

    def holds(self, batches: list[Positions]) -> bool:
        """False where these have more tokens, or more of a load, than their micro-batches hold: no order of them can
        be planned."""
        if self.microbatches is None or self.options.get("overlong") == "alone":
            return True
        if self._mini_batches or self._dataset.prompts is not None:
            return True
        held = len(batches) * self._rows
        positions = numpy.concatenate(batches)
        if self._lengths[positions].sum(dtype=numpy.int64) > held * self._budget:
            return False
        return all(values[positions].sum() <= held * most * _SLACK for values, most in self._limits.values())

    def sizes(self, batch: Positions) -> NDArray[numpy.int64]:
        """Of each sequence, how much of a micro-batch it takes: tokens; or, where loads are limited, the part of the
        budget or limit of which it is the largest."""
        return self._lengths[batch].astype(numpy.int64) if self._sizes is None else self._sizes[batch]

    def loads(self, batch: Positions) -> SequenceLoads:
        """What the sequences bring beside tokens."""
        return self._dataset.loads.of(batch)

    def mini_batches(self, batch: Positions) -> int:
        """Those of a global batch."""
        return self._mini_batches.count(len(batch), self._group_ids[batch] if len(self._group_ids) else self._group_ids)

    def plan(self, batch: Positions, *, effort: Effort | None = None) -> Plan:
        """A global batch's plan, by another effort where that of the options finds none.

        Raises:
            MoreNeededError: it needs more micro-batches than the fixed number.
            InvalidRequest: it can't be planned.
            FailedPrecondition: cost="fitted".
        """
        options = self.options_of(batch)
        if self.microbatches is not None:
            return self._of_number(batch, options, effort)
        efforts: list[Effort] = [effort or self.options.get("effort") or "default", *_EFFORTS]
        refused: InvalidRequest | None = None
        for one in dict.fromkeys(efforts):
            try:
                return self.made(batch, {**options, "effort": one})
            except InvalidRequest as error:
                refused = refused or error
        assert refused is not None
        raise refused

    def _of_number(self, batch: Positions, options: PlanOptions, effort: Effort | None) -> Plan:
        plan = None
        if effort is None:
            plan = self._exact(batch, options)
            if plan is None:
                # More micro-batches than needed shorten the step, by the costs.
                plan = self._exact(batch, self._heavy(batch, options))
        return plan or self._fewest(batch, options)

    def rows(self, sequences: Positions, batches: int) -> list[Positions] | None:
        """These sequences in as many micro-batches as this number of global batches has, on all ranks; None: none
        were found, or there is no fixed number of them."""
        if self.microbatches is None:
            return None
        options = self._heavy(sequences, self.options_of(sequences))
        first, *others = self.passes
        number = self.microbatches * batches
        first = dataclasses.replace(first, min_microbatches=number, microbatch_count_multiple=number)
        options["passes"] = [first, *others]
        for effort in _EFFORTS[:2]:
            try:
                plan = self.made(sequences, {**options, "effort": effort}).passes[0]
            except InvalidRequest:
                continue
            if (plan.microbatches_per_rank == number).all():
                return [sequences[row.indices] for rank in range(self.ranks) for row in plan.rank(rank)]
        return None

    def options_of(self, batch: Positions) -> PlanOptions:
        """Of a plan of these sequences."""
        return {**self.options, **self._dataset.of(batch)}  # type: ignore[typeddict-item]

    def made(self, batch: Positions, options: PlanOptions) -> Plan:
        """A plan by these options, whose errors name sequences by their positions in the dataset."""
        try:
            return make_plan(self._lengths[batch], **options)
        except InvalidRequest as error:
            # What is named by its place in the batch.
            message = _PLACE.sub(lambda found: f"{found[1]}{batch[int(found[2])]}", str(error))
            raise InvalidRequest(message) from None

    def is_exact(self, plan: PassPlan) -> bool:
        """Whether it has the fixed number of micro-batches, if there is one."""
        number = self.microbatches
        return number is None or bool((plan.microbatches_per_rank == number).all())

    def _exact(self, batch: Positions, options: PlanOptions) -> Plan | None:
        """A plan of the fixed number of micro-batches; None: it would have more."""
        try:
            plan = self.made(batch, options)
        except InvalidRequest:
            # Maybe of twice as many only, for which there are too few sequences.
            plan = self.made(batch, _of_any_multiple(options))
        return plan if self.is_exact(plan.passes[0]) else None

    def _heavy(self, batch: Positions, options: PlanOptions) -> PlanOptions:
        """With costs by which a micro-batch more costs more than it can save."""
        cost = options.get("cost")
        if not isinstance(cost, CostModel):
            cost = DEFAULT_COST
        # No sequence costs more, whatever the coefficients are of. One above the budget is rounded up
        # by less than that.
        widest = budget = float(self._budget)
        longest = float(self._lengths[batch].max())
        if longest > budget:
            widest += longest
        exchanged = max((float(one) for _, one in cost.exchange), default=0.0)
        per_sequence = (cost.per_token, cost.per_token_squared, cost.per_microbatch, cost.per_sequence)
        most = (sum(per_sequence) + exchanged) * widest**2
        sums = self.loads(batch).sums()
        brought = sum(one.per_unit * float(sums[one.load].sum()) for one in load_costs(cost))
        added = cost.per_microbatch + 2.0 * (len(batch) * most + brought)
        heavy = options.copy()
        heavy["cost"] = dataclasses.replace(cost, per_microbatch=added)
        return heavy

    def _fewest(self, batch: Positions, options: PlanOptions) -> Plan:
        """A plan of no more micro-batches than needed, with as little effort as finds it.

        Raises:
            MoreNeededError: these are more than the fixed number, whatever the effort.
        """
        options = self._heavy(batch, options)
        for effort in _EFFORTS:
            options["effort"] = effort
            plan = self._exact(batch, options)
            if plan is not None:
                return plan
        plan = self.made(batch, _of_any_multiple(options))
        if not self.is_exact(plan.passes[0]):
            needed = plan.passes[0].microbatches_per_rank.max()
            raise MoreNeededError(self.microbatches, int(needed))
        return plan


def _of_any_multiple(options: PlanOptions) -> PlanOptions:
    """With any number of micro-batches that is not below the least."""
    first, *others = options["passes"]
    passes = [dataclasses.replace(first, microbatch_count_multiple=None), *others]
    return {**options, "passes": passes}
