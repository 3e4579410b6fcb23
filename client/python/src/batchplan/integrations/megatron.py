"""For Megatron-LM: its packing schedulers "dp_balanced" and, where its version has it, "default_dynamic_cp",
with ranks and micro-batches planned together.

    + import batchplan.integrations.megatron
    + batchplan.integrations.megatron.register()

in the script that trains, such as pretrain_gpt.py, on all ranks, beside --sequence-packing-scheduler
dp_balanced; or, for context-parallel groups that differ in size, beside --dynamic-context-parallel
--calculate-per-token-loss --max-seqlen-per-dp-cp-rank TOKENS, and --min-dynamic-context-parallel-size where
groups of one rank are too small. Naming the scheduler default_dynamic_cp is not enough: only the first of these
makes the process groups, pads samples for them and tells attention of them. Fetching, rerouting and packing stay
Megatron's: of its scheduler classes the one method is replaced that says which samples go where. With
--pipeline-model-parallel-size the plan is one of pipelines, virtual stages included: how many micro-batches there
are, what each has and their order keep the stages busy.

A plan that comes from elsewhere becomes what these methods return by sample_id_groups, and
check_sample_id_groups refuses what Megatron's loops would fail on or wait for ever with.

Megatron-LM has the schedulers since 2026: its branch dev both, main "dp_balanced", by which it trains since pull
request 6742, merged after 22 August 2026. megatron-core 0.16.1, PyPI's newest, has neither.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import batchplan
from batchplan._checks import whole
from batchplan.integrations._model_cost import cost_of
from batchplan.integrations._pipeline import Stages, with_overheads
from batchplan.integrations._replace import stock_of
from batchplan.integrations._slots import options_of, slots_of

__all__ = [
    "PlannedDynamicScheduler",
    "PlannedScheduler",
    "check_sample_id_groups",
    "register",
    "sample_id_groups",
]

# Of each micro-batch, and each rank of data-parallel and context-parallel ones, the numbers of its samples.
Groups = list[list[list[int]]]

_NAME = "dp_balanced"
_DYNAMIC_NAME = "default_dynamic_cp"
_MODULE = "megatron.core.datasets.data_schedule"
_ARGUMENTS = "megatron.training.global_vars"
# Of that module: by a config, the sequences that a row may have beside the one that padding adds.
_REAL_SEQUENCES = "_get_scheduler_max_real_num_seqs"


class _Planned:
    """Mixed into a scheduler of Megatron's, before it, by register(): schedules by a plan.

    The attributes are those that the scheduler has from its constructor. The plan is the same on all
    ranks, which each make it of the gathered lengths. What a scheduler does not know, the pipeline and the
    shape of the model, its method run is told.
    """

    # Tokens that one GPU holds.
    max_seqlen_per_dp_cp_rank: int
    cp_size: int
    dp_size: int
    # Micro-batches are a multiple of it, with virtual pipelines; None without.
    microbatch_group_size_per_vp_stage: int | None
    # Samples of a micro-batch at most, where Megatron's version knows of that.
    max_num_seqs: int | None = None
    # register()'s.
    plan_options: batchplan.PlanOptions = {}
    # Megatron's TransformerConfig; None: without run, ranks have the whole model, as far as is known.
    config: Any = None

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Megatron's, of the same arguments, of which one is config."""
        stock: Any = super()
        self.config = inspect.signature(stock.run).bind(*arguments, **named).arguments.get("config")
        self._check()
        return stock.run(*arguments, **named)

    def _check(self) -> None:
        """Refuses a config that no plan can be kept with."""

    @property
    def _stages(self) -> Stages:
        return Stages(
            getattr(self.config, "pipeline_model_parallel_size", 1),
            getattr(self.config, "virtual_pipeline_model_parallel_size", None) or 1,
            self.microbatch_group_size_per_vp_stage,
            getattr(self.config, "expert_model_parallel_size", 1),
        )

    def _options(self, stages: Stages, *, dynamic: bool = False) -> batchplan.PlanOptions:
        """register()'s options and the pipeline; the model's own costs unless register() was given some."""
        options = stages.options(self.plan_options)
        cost = None if "cost" in options else cost_of(_arguments()) or cost_of(self.config)
        if cost is None:
            return options
        if dynamic or stages.are_several:
            cost = with_overheads(cost, exchange=dynamic)
        return {**options, "cost": cost}


def _arguments() -> Any:
    """What the training script was given, with the size of the vocabulary; None where there is no such script."""
    try:
        return sys.modules[_ARGUMENTS].get_args()
    except (KeyError, AssertionError):
        return None


class PlannedScheduler(_Planned):
    """The scheduler of context-parallel groups of one size, in which cp_size GPUs divide a sample."""

    def get_groups_and_subsamples(self, sample_id_seqlens: Sequence[tuple[int, int]]) -> Groups:
        """Of each micro-batch, and each data-parallel and context-parallel rank, the samples.

        Args:
            sample_id_seqlens: of each sample of the global batch its number, and its tokens with
                its padding.

        Returns:
            [micro-batches][dp_size * cp_size] lists of numbers, each sample once for all the cp_size
            ranks that share it. None is empty.

        Raises:
            ValueError: a sample is longer than a micro-batch of its cp_size ranks, and overlong is not
                "alone"; or there are too few.
        """
        numbers = [number for number, _ in sample_id_seqlens]
        budget = whole("max_seqlen_per_dp_cp_rank", self.max_seqlen_per_dp_cp_rank) * self.cp_size
        only = batchplan.Pass(
            budget,
            microbatch_count_multiple=self.microbatch_group_size_per_vp_stage,
            max_sequences=self.max_num_seqs,
        )
        options: batchplan.PlanOptions = {
            **self._options(self._stages),
            "dp": self.dp_size,
            "cp": self.cp_size,
            "passes": [only],
        }
        plan = batchplan.plan([int(tokens) for _, tokens in sample_id_seqlens], **options)
        return [
            [[numbers[place] for place in one] for one in slot for _ in range(self.cp_size)]
            for slot in slots_of(plan, self.dp_size)
        ]


class PlannedDynamicScheduler(_Planned):
    """The scheduler of context-parallel groups that differ in size, of which one of c holds c times as many tokens.

    Megatron has process groups of all of the dp_size * cp_size ranks, and of every power of two from min_cp_size
    to less than the largest one within them, each from a multiple of its size on. Planned are those of them
    that divide the ranks, so that they fill every micro-batch. What needs all ranks of a number that is no
    power of two is planned apart. Numbers of ranks that are odd Megatron refuses.
    """

    # Ranks of the smallest group.
    min_cp_size: int = 1

    def _check(self) -> None:
        if not getattr(self.config, "dynamic_context_parallel", True):
            raise batchplan.FailedPrecondition(
                f'the scheduler is "{_DYNAMIC_NAME}", but dynamic_context_parallel is False: without '
                "--dynamic-context-parallel Megatron-LM makes no process groups for it"
            )
        # Megatron gives its own scheduler the sequences of a row with the one that padding adds.
        real_sequences = getattr(importlib.import_module(_MODULE), _REAL_SEQUENCES, None)
        if real_sequences is not None:
            self.max_num_seqs = real_sequences(self.config)

    def get_groups_and_subsamples(self, sample_id_seqlens: Sequence[tuple[int, int]]) -> Groups:
        """As PlannedScheduler's; ranks with the same samples are a group.

        Raises:
            ValueError: a sample is longer than all ranks hold, or its tokens are not padded for its group; there
                are too few; or the ranks are odd.
        """
        groups = self._groups(sample_id_seqlens)
        check_sample_id_groups(
            groups,
            sample_id_seqlens,
            ranks=self._pool,
            max_tokens_per_rank=self.max_seqlen_per_dp_cp_rank,
            multiple=self._multiple,
            min_size=self.min_cp_size,
        )
        return groups

    def _groups(self, sample_id_seqlens: Sequence[tuple[int, int]]) -> Groups:
        slots = self._slots([int(tokens) for _, tokens in sample_id_seqlens])
        return [
            [[sample_id_seqlens[place][0] for place in one] for one in slot] for slot in slots
        ]

    @property
    def _pool(self) -> int:
        return self.dp_size * self.cp_size

    @property
    def _multiple(self) -> int:
        return self.microbatch_group_size_per_vp_stage or 1

    def _room(self, ranks: int) -> int:
        """The longest sample that so many ranks hold."""
        multiple = 2 * ranks if ranks > 1 else 1
        return ranks * self.max_seqlen_per_dp_cp_rank // multiple * multiple

    def _slots(self, lengths: list[int]) -> Groups:
        """By places in `lengths`."""
        everything = range(len(lengths))
        # The largest power of two that divides the pool.
        largest = self._pool & -self._pool
        if largest == self._pool:
            return self._on_groups(lengths, everything, largest, self._multiple)
        by_length = sorted(everything, key=lambda place: -lengths[place])
        long = sum(length > self._room(largest) for length in lengths)
        if self.min_cp_size <= largest and long < len(lengths) and max(lengths) <= self._room(self._pool):
            slots = self._in_two_parts(lengths, by_length, long, largest)
            if slots is not None:
                return slots
            warnings.warn(
                f"{len(lengths)} samples do not fill micro-batches of groups of at most {largest} of the "
                f"{self._pool} ranks, their number a multiple of {self._multiple}: all ranks share each sample",
                stacklevel=3,
            )
        return self._on_all_ranks(lengths, everything, self._multiple)

    def _in_two_parts(
        self, lengths: list[int], places: list[int], long: int, largest: int
    ) -> Groups | None:
        """Micro-batches of all ranks for the `long` first ones of these places, of groups for the others; both
        together are a multiple. None: no such ones were found."""
        slots = self._try_on_groups(lengths, places[long:], largest, 1)
        if slots is None:
            # Each on a group of the largest size, they fill micro-batches of their own, but for these.
            long += (len(places) - long) % (self._pool // largest)
            slots = self._try_on_groups(lengths, places[long:], largest, 1)
            if slots is None:
                return None
        of_long = self._on_all_ranks(lengths, places[:long], 1) if long else []
        missing = -(len(of_long) + len(slots)) % self._multiple
        if missing == 0:
            return of_long + slots
        more = self._try_on_groups(lengths, places[long:], largest, len(slots) + missing)
        if more is None:
            # More of all ranks, if need be of samples that were on groups.
            count = len(of_long) + missing
            more = slots
            if count > long:
                more = self._try_on_groups(lengths, places[count:], largest, len(slots))
            if more is None:
                return None
            of_long = self._on_all_ranks(lengths, places[: max(count, long)], count)
        both = of_long + more
        return None if len(both) % self._multiple else both

    def _try_on_groups(
        self, lengths: list[int], places: Sequence[int], largest: int, multiple: int
    ) -> Groups | None:
        """As _on_groups; None: there are too few."""
        if not places:
            return None
        try:
            return self._on_groups(lengths, places, largest, multiple)
        except batchplan.InvalidRequest as error:
            # What is wrong with lengths and options has the name of a field within the pass or beside it.
            if error.field != "passes[0]":
                raise
            return None

    def _on_groups(
        self, lengths: list[int], places: Sequence[int], largest: int, multiple: int
    ) -> Groups:
        """The samples at these places on groups of up to `largest` ranks."""
        # Powers of two alone have process groups.
        least = 1 << (self.min_cp_size - 1).bit_length()
        sizes = batchplan.DynamicContext(least, largest)
        return self._planned(lengths, places, multiple, self.dp_size, self.cp_size, sizes)

    def _on_all_ranks(self, lengths: list[int], places: Sequence[int], multiple: int) -> Groups:
        """The samples at these places, each on all ranks."""
        return self._planned(lengths, places, multiple, 1, self._pool)

    def _planned(
        self,
        lengths: list[int],
        places: Sequence[int],
        multiple: int,
        dp: int,
        cp: int,
        dynamic_cp: bool | batchplan.DynamicContext = False,
    ) -> Groups:
        only = batchplan.Pass(
            whole("max_seqlen_per_dp_cp_rank", self.max_seqlen_per_dp_cp_rank) * cp,
            microbatch_count_multiple=multiple,
            max_sequences=self.max_num_seqs,
        )
        # A plan of a part of the samples fills no pipeline: it is made as of ranks that have the whole model.
        stages = self._stages if len(places) == len(lengths) else Stages()
        options: batchplan.PlanOptions = {
            **self._options(stages, dynamic=True),
            "dp": dp,
            "cp": cp,
            "dynamic_cp": dynamic_cp,
            "passes": [only],
        }
        plan = batchplan.plan([lengths[place] for place in places], **options)
        return sample_id_groups(plan, places)


def sample_id_groups(
    plan: batchplan.Plan | batchplan.PassPlan, numbers: Sequence[int] | None = None
) -> Groups:
    """A plan as Megatron's schedulers return theirs: of each micro-batch, the samples of each of the
    data-parallel and context-parallel ranks. Those that share samples have equal lists.

    Args:
        plan: of all ranks; its mini-batches come one after the other.
        numbers: of the samples, by position in the batch; None: the positions.
    """
    one_pass = plan.passes[0] if isinstance(plan, batchplan.Plan) else plan
    ranks = range(one_pass.data_parallel)
    groups: Groups = []
    for rank in ranks:
        for slot, microbatch in enumerate(one_pass.rank(rank)):
            if slot == len(groups):
                count = len(ranks) * (1 if microbatch.is_dynamic else microbatch.context_parallel)
                groups.append([[] for _ in range(count)])
            places: list[int] = microbatch.indices.tolist()
            samples = places if numbers is None else [numbers[place] for place in places]
            for member in microbatch.ranks:
                groups[slot][member] = samples
    return groups


def check_sample_id_groups(
    groups: Groups,
    sample_id_seqlens: Sequence[tuple[int, int]],
    *,
    ranks: int,
    max_tokens_per_rank: int,
    multiple: int = 1,
    min_size: int = 1,
) -> None:
    """What Megatron's loops take for granted of a schedule with groups that differ in size.

    Args:
        groups: [micro-batches][ranks] lists of samples' numbers.
        sample_id_seqlens: number and tokens of every sample.
        ranks: data-parallel times context-parallel ones.
        max_tokens_per_rank: of a group of c, c times as many.
        multiple: of the number of micro-batches, with virtual pipelines.
        min_size: of a group, Megatron's --min-dynamic-context-parallel-size.

    Raises:
        ValueError: a rank has no samples, or not those of its group; a group has no process group; a group has
            too many tokens, or a sample that twice its ranks do not divide; a sample is missing or there
            twice; there is another number of micro-batches, or an odd one of ranks.
    """
    if ranks % 2:
        raise ValueError(f"there are {ranks} ranks; Megatron-LM makes process groups of even numbers alone")
    # Process groups are of smaller powers of two than the largest one within the ranks, and of all ranks.
    too_large = 1 << (ranks.bit_length() - 1)
    tokens = dict(sample_id_seqlens)
    seen: set[int] = set()
    if len(groups) % multiple:
        raise ValueError(f"there are {len(groups)} micro-batches; must be a multiple of {multiple}")
    for number, of_ranks in enumerate(groups):
        if len(of_ranks) != ranks:
            raise ValueError(f"micro-batch {number} is of {len(of_ranks)} ranks; must be of {ranks}")
        first = 0
        while first < ranks:
            samples, where = of_ranks[first], f"rank {first} of micro-batch {number}"
            if not samples:
                raise ValueError(f"{where} has no samples")
            size = of_ranks.count(samples)
            if of_ranks[first : first + size] != [samples] * size:
                raise ValueError(f"{where} has samples of ranks that are not its neighbours")
            if size != ranks and (size & (size - 1) or not min_size <= size < too_large or first % size):
                raise ValueError(
                    f"{where} begins a group of {size}, which has no process group: it must be of all {ranks} "
                    f"ranks, or of a power of two from {min_size} to less than {too_large}, beginning at a "
                    "multiple of that"
                )
            for one in samples:
                if one not in tokens or one in seen:
                    raise ValueError(f"{where} has sample {one}, which is none or there twice")
                if size > 1 and tokens[one] % (2 * size):
                    raise ValueError(
                        f"{where} has sample {one} of {tokens[one]} tokens on {size} ranks; must be a multiple "
                        f"of {2 * size}, as samples are padded with --dynamic-context-parallel"
                    )
                seen.add(one)
            total = sum(tokens[one] for one in samples)
            if total > size * max_tokens_per_rank:
                raise ValueError(
                    f"{where} has {total} tokens on {size} ranks; must be at most {max_tokens_per_rank} each"
                )
            first += size
    if len(seen) != len(tokens):
        missing = min(tokens.keys() - seen)
        raise ValueError(f"sample {missing} is in no micro-batch")


def register(
    *,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
    overlong: str = "reject",
) -> None:
    """Puts a PlannedScheduler in the place of "dp_balanced" in Megatron's scheduler_map, and a
    PlannedDynamicScheduler in that of "default_dynamic_cp" where there is one. Called again, it counts anew.

    Args:
        cost: of this model, for what ranks are balanced by; on pipelines with what a micro-batch costs, for
            groups that differ in size also with what their ranks exchange. None: by the shape of the model
            that Megatron's arguments name, with 1,024 tokens' cost a micro-batch on pipelines and with such
            groups.
        synchronization: "lockstep", where ranks wait for each other at every micro-batch (FSDP, expert
            parallel), or "accumulated", where they do at the end of a step, the default for pipelines without
            expert parallelism.
        effort: "fast", "default" or "thorough".
        overlong: samples beyond the budget: "reject", or "alone", as Megatron runs them: each by itself,
            in a micro-batch of more tokens than any other may have. Where groups differ in size they are
            rejected, as nothing is longer there but what all ranks can't hold.

    Raises:
        ImportError: Megatron-LM is not there.
        FailedPrecondition: its version has no such scheduler.
        ValueError: an option is none that there is.
    """
    if overlong not in ("reject", "alone"):
        # Megatron expects every sample, and whole.
        raise batchplan.InvalidRequest(f'overlong is "{overlong}"; must be "reject" or "alone"')
    options = options_of(cost, synchronization, effort)
    module: Any = importlib.import_module(_MODULE)
    schedulers: dict[Any, type] = getattr(module, "scheduler_map", {})
    # By name, or by an enumeration whose values are the names.
    keys = {getattr(key, "value", key): key for key in schedulers}
    if _NAME not in keys:
        raise batchplan.FailedPrecondition(
            f'{_MODULE} has no scheduler "{_NAME}"; Megatron-LM has it since 2026, megatron-core 0.16 not'
        )
    _replace(schedulers, keys[_NAME], PlannedScheduler, {**options, "overlong": overlong})  # type: ignore[typeddict-item]
    if _DYNAMIC_NAME in keys:
        _replace(schedulers, keys[_DYNAMIC_NAME], PlannedDynamicScheduler, options)


def _replace(
    schedulers: dict[Any, type], key: Any, planned: type, options: batchplan.PlanOptions
) -> None:
    stock = stock_of(schedulers[key])
    schedulers[key] = type(
        f"{planned.__name__.replace('Scheduler', '')}{stock.__name__}",
        (planned, stock),
        {"plan_options": options, "_batchplan_replaces": stock, "__doc__": planned.__doc__},
    )
