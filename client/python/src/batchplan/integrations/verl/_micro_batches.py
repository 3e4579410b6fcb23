"""One rank's batch in micro-batches: as the driver planned them, or as the ranks agree to."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

import batchplan
from batchplan._checks import whole
from batchplan.integrations._after_dispatch import own_part
from batchplan.integrations._agreement import device_of, gathering_in, on_all_ranks
from batchplan.integrations._image_patches import PATCHES
from batchplan.integrations._pipeline import Stages
from batchplan.integrations._slots import options_of
from batchplan.integrations.verl import _field, _settings
from batchplan.integrations.verl._partitions import get_micro_batches

_log = logging.getLogger("batchplan")
# The largest of all ranks' numbers, place by place.
Largest = Callable[[Sequence[int]], list[int]]
# By use, where the batch has one.
Fields = dict[_field.Use, NDArray[Any] | None]
# A field's first slot, and the micro-batches from there on.
Held = tuple[int, list[list[int]]]
# What verl computes with other budgets comes first: of a whole batch both fields may hold.
_USES: tuple[_field.Use, ...] = ("infer", "train")
# Above what any number of patches is.
_NO_LIMIT = 2**62


def rearrange_micro_batches(
    batch: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    force_group_size: int = 1,
    *,
    cost: batchplan.CostModel | None = None,
) -> tuple[list[Any], list[list[int]]]:
    """Divides one rank's batch into micro-batches, within the budget always.

    The function of verl.utils.seqlen_balancing, with its arguments. A batch that carries a plan of all
    ranks is divided by it, where every rank can: each micro-batch that it has is whole, within the
    budget, and stands in slots that are the same on all. Otherwise ranks tell each other their lengths,
    and patches where BATCHPLAN_LIMIT or BATCHPLAN_LOAD_COST is set, and all make one plan of what they
    have; where they have different numbers of sequences, or forced groups, each divides its own, into as
    many as the one that needs most. All ranks of the group make the same collective calls, and where one
    can't go on, all raise.

    Args:
        batch: a TensorDict with input_ids, nested, or attention_mask; or a DataProto of one. Patches are those of its
            multi_modal_inputs.
        max_token_len: tokens of a micro-batch, at most.
        dp_group: the ranks that have as many micro-batches as this one, where torch.distributed is
            initialized.
        num_batches_divided_by: the number of micro-batches is a multiple of it.
        same_micro_num_in_dp: False: this rank alone decides, as with no dp_group.
        min_num_micro_batch: micro-batches, at least.
        use_dynamic_bsz_balance: small ones stand at both ends.
        force_group_size: so many sequences in a row stay in one micro-batch.
        cost: what sequences cost; None: BATCHPLAN_COST, or verl's 24576 * L + L ** 2.

    Returns:
        the micro-batches, of the batch's kind, and the positions in the batch of each one's sequences.

    Raises:
        ValueError: a sequence, or a group, is longer than max_token_len, or has more patches than BATCHPLAN_LIMIT, or
            there are fewer of them than micro-batches; of any rank.
    """
    tensors, others = getattr(batch, "batch", batch), getattr(batch, "non_tensor_batch", batch)
    rules = _Rules(
        whole("max_token_len", max_token_len),
        whole("force_group_size", force_group_size),
        1 if min_num_micro_batch is None else whole("min_num_micro_batch", min_num_micro_batch),
        1 if num_batches_divided_by is None else whole("num_batches_divided_by", num_batches_divided_by),
        use_dynamic_bsz_balance,
    )
    largest = _over_ranks(dp_group) if same_micro_num_in_dp and dp_group is not None else list
    own, _ = on_all_ranks(lambda number: largest([number])[0], lambda: _read(tensors, others, rules, cost))
    rules, sequences, fields, held, cost, options = own
    agreed = largest([fact for one in held for fact in _facts(one)] + rules.facts(sequences))
    for place, one in enumerate(held):
        if one is not None and agreed[5 * place : 5 * place + 5] == _facts(one):
            parts = one[1]
            break
    else:
        _tell_why(tensors, fields, held, rules.budget)
        numbers, numbers_below_0, limit_below_0, torn, longest, heaviest, most, fewest = *agreed[-8:-1], -agreed[-1]
        rules = dataclasses.replace(rules, limit=-limit_below_0)
        rules.refuse(torn, longest, heaviest, fewest)
        gather = None if largest is list else gathering_in(dp_group)
        if gather is not None and most == fewest and numbers == -numbers_below_0 and rules.group == 1:
            stages = _stages(dp_group, rules.multiple)
            parts = _in_one_plan(*gather(lambda: sequences), rules, stages, options)
        else:
            parts = _alone(sequences, rules, fewest, largest, cost)
    return [_selected(batch, part) for part in parts], parts


@dataclasses.dataclass(frozen=True)
class _Rules:
    """What micro-batches are to keep to. Sequences are rows of numbers, [sequences, 1 or 2]: tokens, and patches where
    batches are planned by them."""

    budget: int
    group: int
    at_least: int
    multiple: int
    small_at_both_ends: bool
    # Of patches; a variable of this process has it, or of another rank.
    limit: int = _NO_LIMIT

    def facts(self, sequences: _field.Int64s) -> list[int]:
        """How many numbers a sequence has, also below 0, the limit below 0, whether groups are torn, the most tokens of
        one and the most patches, and the number of groups, also below 0: of which the largest of all ranks' say what
        holds for all."""
        count, columns = sequences.shape
        whole_groups = sequences[: count - count % self.group].reshape(-1, self.group, columns).sum(1)
        longest, *heaviest = whole_groups.max(0, initial=0).tolist()
        torn = count % self.group != 0
        groups = len(whole_groups)
        return [columns, -columns, -self.limit, int(torn), longest, *(heaviest or [0]), groups, -groups]

    def refuse(self, torn: int, longest: int, heaviest: int, fewest: int) -> None:
        """What no rank can divide by itself, all refuse."""
        if torn:
            raise batchplan.InvalidRequest(
                f"force_group_size is {self.group}; it does not divide a rank's number of sequences"
            )
        if longest > self.budget:
            raise batchplan.InvalidRequest(
                f"max_token_len is {self.budget}; a sequence, or a group of force_group_size, has {longest} "
                "tokens"
            )
        if heaviest > self.limit:
            raise batchplan.InvalidRequest(
                f"BATCHPLAN_LIMIT has {self.limit} patches; a sequence, or a group of force_group_size, has {heaviest}"
            )
        self.check_count(max(self.at_least, 1), fewest)

    def limits(self, sequences: _field.Int64s) -> dict[str, float] | None:
        """As plans have it, where there are patches."""
        return {PATCHES: self.limit} if self.limit < _NO_LIMIT and sequences.shape[1] > 1 else None

    def check_count(self, count: int, groups: int) -> None:
        if count > groups:
            raise batchplan.InvalidRequest(
                f"num_micro_batch is {count}, the same on all ranks; a rank has {groups} sequences, or "
                "groups of force_group_size, one a micro-batch at least"
            )

    def kept(self, parts: list[list[int]], sequences: _field.Int64s) -> bool:
        """Whether micro-batches that were planned elsewhere are what is asked for here."""
        most = [self.budget, self.limit]
        return (
            len(parts) >= self.at_least
            and len(parts) % self.multiple == 0
            and all((sequences[part].sum(0) <= most[: sequences.shape[1]]).all() for part in parts)
            and (self.group == 1 or all(self._has_whole_groups(part) for part in parts))
        )

    def _has_whole_groups(self, part: list[int]) -> bool:
        if len(part) % self.group:
            return False
        groups = numpy.asarray(part).reshape(-1, self.group)
        return (
            bool((groups == groups[:, :1] + numpy.arange(self.group)).all())
            and not (groups[:, 0] % self.group).any()
        )


def _read(
    tensors: Any, others: Any, rules: _Rules, cost: batchplan.CostModel | None
) -> tuple[_Rules, _field.Int64s, Fields, list[Held | None], batchplan.CostModel | None, batchplan.PlanOptions]:
    """What a rank has by itself: rules with its limit, sequences, the fields of plans, those that hold, and what else
    a plan is made by."""
    limits = _settings.limits()
    if limits is not None:
        rules = dataclasses.replace(rules, limit=int(limits[PATCHES]))
    # One without tokens takes its place as others do.
    lengths = numpy.maximum(_field.sequence_lengths(tensors), 1)
    loads = _settings.loads()
    sequences = numpy.stack([lengths, *(_field.sequence_patches(others, len(lengths)) for _ in loads)], axis=1)
    fields = {use: _values(tensors, _field.field_name(use, rules.budget)) for use in _USES}
    held = [_held(fields[use], sequences, rules) for use in _USES]
    cost = cost or _settings.cost()
    return rules, sequences, fields, held, cost, options_of(cost, None, _settings.effort(), loads=loads)


def _held(field: NDArray[Any] | None, sequences: _field.Int64s, rules: _Rules) -> Held | None:
    found = _field.read(field, len(sequences))
    return found if found is not None and rules.kept(found[1], sequences) else None


def _facts(held: Held | None) -> list[int]:
    """Five numbers of which the largest are a rank's own exactly where they are the same on all ranks."""
    if held is None:
        return [1, 0, 0, 0, 0]
    first, parts = held
    return [0, first, -first, len(parts), -len(parts)]


def _in_one_plan(
    sequences: _field.Int64s,
    everyone: Sequence[_field.Int64s],
    rules: _Rules,
    stages: Stages,
    options: batchplan.PlanOptions,
) -> list[list[int]]:
    """The rank's part of the plan that every rank makes of all their sequences."""
    # What else would be verl's order is on pipelines a part of their plan.
    small_at_both_ends = rules.small_at_both_ends and not stages.are_several
    parts = own_part(
        sequences,
        everyone,
        batchplan.Pass(
            rules.budget,
            min_microbatches=rules.at_least,
            microbatch_count_multiple=rules.multiple,
            order="small_at_both_ends" if small_at_both_ends else None,
            limits=rules.limits(sequences),
        ),
        stages.options(options),
        _settings.loads(),
    )
    return [sorted(part) for part in parts]


def _stages(group: Any, multiple: int) -> Stages:
    """Of Megatron's engine, where the group is one of its data-parallel ranks."""
    state: Any = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return Stages()
    if group is not state.get_data_parallel_group():
        return Stages()
    return Stages(
        state.get_pipeline_model_parallel_world_size(),
        state.get_virtual_pipeline_model_parallel_world_size() or 1,
        multiple,
        state.get_expert_model_parallel_world_size(),
    )


def _alone(
    sequences: _field.Int64s,
    rules: _Rules,
    fewest: int,
    largest: Largest,
    cost: batchplan.CostModel | None,
) -> list[list[int]]:
    """The rank's own micro-batches, as many as on the one with the most."""
    lengths, *values = sequences.T
    count = rules.at_least
    while True:
        parts: list[list[int]] = []
        error: batchplan.Error | None = None
        try:
            parts = get_micro_batches(
                lengths,
                rules.budget,
                min_num_micro_batch=count,
                num_batches_divided_by=rules.multiple,
                use_dynamic_bsz_balance=rules.small_at_both_ends,
                force_group_size=rules.group,
                cost=cost,
                loads=dict(zip(_settings.loads(), values)),
                limits=rules.limits(sequences),
            )
        except batchplan.Error as raised:
            error = raised
        failed, most, fewest_parts_below_0 = largest([int(error is not None), len(parts), -len(parts)])
        if failed:
            raise error or batchplan.InvalidRequest(
                f"max_token_len is {rules.budget}; another rank could not divide its sequences, and says why"
            )
        if most == -fewest_parts_below_0:
            return parts
        rules.check_count(most, fewest)
        count = most


def _over_ranks(group: Any) -> Largest:
    import torch
    import torch.distributed

    if not torch.distributed.is_initialized():
        return list
    device = device_of(group)

    def largest(numbers: Sequence[int]) -> list[int]:
        agreed = torch.tensor(list(numbers), dtype=torch.int64, device=device)
        torch.distributed.all_reduce(agreed, torch.distributed.ReduceOp.MAX, group=group)
        return [int(one) for one in agreed.tolist()]

    return largest


def _values(tensors: Any, name: str) -> NDArray[Any] | None:
    """A field as an array: of a tensor, one that a queue has nested, or a list."""
    import torch

    value = tensors.get(name, None)
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        value = (value.values() if value.is_nested else value).cpu()
    return numpy.asarray(value.tolist())


def _selected(batch: Any, part: list[int]) -> Any:
    if hasattr(batch, "select_idxs"):
        return batch.select_idxs(part)
    from verl.utils.tensordict_utils import index_select_tensor_dict

    return index_select_tensor_dict(batch, part)


_told: set[str] = set()


def _tell_why(tensors: Any, fields: Fields, held: list[Held | None], budget: int) -> None:
    """Once for each reason, why a batch that was planned is divided by its ranks."""
    planned = sorted(str(name) for name in tensors.keys() if str(name).startswith("batchplan_"))
    if not planned:
        return
    if all(field is None for field in fields.values()):
        why = f"it is for other micro-batches than of {budget} tokens ({', '.join(planned)})"
    elif all(one is None for one in held):
        why = "sequences were left out, repeated or exchanged since, or more is asked of micro-batches"
    else:
        why = "another rank can't follow it"
    if why not in _told:
        _told.add(why)
        _log.warning("batchplan: ranks divide what they have, as the driver's plan does not hold: %s", why)
