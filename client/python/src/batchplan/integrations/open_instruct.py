"""For open-instruct: the packs of its GRPO, planned for all ranks.

    + import batchplan.integrations.open_instruct
    + batchplan.integrations.open_instruct.install(num_mini_batches=args.num_mini_batches)

at the beginning of main of grpo_fast.py or grpo.py, before the DataPreparationActor is made: it packs. By
itself it packs responses in their order, leaves out packs until ranks divide them, gives each rank a run of
packs, and shuffles these on each rank. Planned, packs that run at the same time are alike in cost, and every
response is trained. The loss keeps its denominator, but for rho_mask_sequence_level and rho_mask_tv_divergence,
which open-instruct takes over a pack.

With a per_device_train_batch_size above 1 give num_mini_batches times it: open-instruct counts micro-batches, of so
many packs each. A batch whose sequences can't be divided so, because too few share a pack, is packed in fewer
mini-batches or by open-instruct's own rule, which leaves packs out; a warning says so once.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy

import batchplan
from batchplan._checks import whole
from batchplan.integrations._replace import wrap
from batchplan.integrations._slots import options_of, slots_or_none

_log = logging.getLogger("batchplan")
_told: set[str] = set()

__all__ = ["install", "pack_sequences", "prepare_collated_data_for_workers"]


def pack_sequences(
    queries: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    masks: Sequence[Sequence[int]],
    pack_length: int,
    pad_token_id: int,
    vllm_logprobs: Sequence[Sequence[float]],
    min_num_batches: int = 1,
    *,
    stock: Callable[..., Any],
    num_mini_batches: int = 1,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
    **others: Any,
) -> Any:
    """open_instruct.rl_utils.pack_sequences: the first rank's packs, then the second one's, as many of each.

    Args:
        queries, responses, masks, pad_token_id, vllm_logprobs, others: as open-instruct has them.
        pack_length: tokens of a pack, at most; of a longer sequence, that is alone, as many as it has.
        min_num_batches: data-parallel ranks. With one the packs are open-instruct's own.
        stock: open-instruct's function, which makes the tensors.
        num_mini_batches: each rank's packs are a multiple of it, where sequences can be divided so, and none is
            left out of the mini-batches.
        cost: what is balanced; that of a model of 7B parameters unless given.
        synchronization: "lockstep", the default, where ranks wait for each other at every pack (ZeRO-3, FSDP),
            or "accumulated", where they do at the end of a step.
        effort: "fast", "default" or "thorough".

    Returns:
        open-instruct's PackedSequences. Each token's mask names its response by its position among all. Where the
        ranks can't divide the sequences, those of open-instruct's own rule.
    """
    ranks = whole("min_num_batches", min_num_batches)

    def packed(places: Sequence[int], length: int) -> Any:
        columns = [[column[place] for place in places] for column in (queries, responses, masks)]
        log_probs = [vllm_logprobs[place] for place in places]
        return stock(*columns, length, pad_token_id, log_probs, **others)

    if ranks <= 1 or not queries:
        return packed(range(len(queries)), pack_length)
    lengths = [
        max(sum(token != pad_token_id for part in pair for token in part), 1) for pair in zip(queries, responses)
    ]
    options: batchplan.PlanOptions = {
        **options_of(cost, synchronization, effort),
        "dp": ranks,
        "overlong": "alone",
    }
    slots = _slots(lengths, pack_length, whole("num_mini_batches", num_mini_batches), options)
    if slots is None:
        _warn(f"can't be divided among {ranks} ranks, and is packed by open-instruct's own rule")
        columns = (queries, responses, masks)
        return stock(*columns, pack_length, pad_token_id, vllm_logprobs, min_num_batches=ranks, **others)
    packs = [sorted(slot[rank]) for rank in range(ranks) for slot in slots]
    made: list[Any] = [_with_numbers(packed(places, sum(lengths)), places) for places in packs]
    joined: dict[str, Any] = {
        field.name: [one for part in made for one in getattr(part, field.name)]
        for field in dataclasses.fields(made[0])
        if getattr(made[0], field.name) is not None
    }
    joined["original_responses"] = responses
    return dataclasses.replace(made[0], **joined)


def _slots(
    lengths: Sequence[int], pack_length: int, mini_batches: int, options: batchplan.PlanOptions
) -> list[list[list[int]]] | None:
    """[packs of a rank][ranks] of positions; None where too few sequences share a pack for ranks to have as many."""
    for multiple in dict.fromkeys((mini_batches, 1)):
        one = batchplan.Pass(pack_length, min_microbatches=multiple, microbatch_count_multiple=multiple)
        slots = slots_or_none(lengths, {**options, "passes": [one]})
        if slots is not None:
            if multiple < mini_batches:
                _warn(f"can't be divided into {mini_batches} mini-batches, and some packs are in none")
            return slots
    return None


def _warn(what: str) -> None:
    if what not in _told:
        _log.warning("batchplan: a batch whose sequences share too few packs %s", what)
    _told.add(what)


def _with_numbers(part: Any, places: Sequence[int]) -> Any:
    """One pack, whose tokens name their sequences by their positions in the batch, from 1."""
    import torch

    numbers = torch.tensor([0, *(place + 1 for place in places)])
    return dataclasses.replace(
        part,
        response_masks=[numbers[mask] for mask in part.response_masks],
        dones=[numbers[mask] for mask in part.dones],
    )


def prepare_collated_data_for_workers(
    packed_sequences: Any, dp_world_size: int, *args: Any, stock: Callable[..., Any], **kwargs: Any
) -> list[Any]:
    """open_instruct.data_loader.prepare_collated_data_for_workers: the packs are shuffled alike on all ranks.

    Args:
        packed_sequences: as pack_sequences makes them, as many packs of each rank.
        dp_world_size: ranks.
        args, kwargs: as open-instruct has them.
        stock: open-instruct's function, which makes the tensors of one rank.

    Returns:
        a CollatedBatchData of each rank. Packs that ranks do not divide are dealt by open-instruct's function.
    """
    packs = len(packed_sequences.query_responses)
    if packs % dp_world_size:
        return list(stock(packed_sequences, dp_world_size, *args, **kwargs))
    of_rank = packs // dp_world_size
    # What open-instruct shuffles by.
    state = numpy.random.get_state()
    collated = []
    for first in range(0, packs, max(of_rank, 1)):
        numpy.random.set_state(state)
        own = {
            field.name: value[first : first + of_rank]
            for field in dataclasses.fields(packed_sequences)
            if isinstance(value := getattr(packed_sequences, field.name), list) and len(value) == packs
        }
        collated += stock(dataclasses.replace(packed_sequences, **own), 1, *args, **kwargs)
    return collated


def install(
    *,
    num_mini_batches: int = 1,
    cost: batchplan.CostModel | None = None,
    synchronization: str | None = None,
    effort: str | None = None,
) -> None:
    """Puts both in the place of open-instruct's, in the DataPreparationActor that this process makes afterwards.

    Args:
        num_mini_batches, cost, synchronization, effort: those of pack_sequences.

    Raises:
        ImportError: open-instruct is not there.
        ValueError: num_mini_batches is less than 1, or what stands beside it none that there is.
    """
    options_of(cost, synchronization, effort)
    if whole("num_mini_batches", num_mini_batches) < 1:
        raise batchplan.InvalidRequest(f"num_mini_batches is {num_mini_batches}; must be at least 1")
    # The actor's class is sent to its process with the functions that it finds in its module, and open-instruct's own
    # by name.
    module: Any = importlib.import_module("open_instruct.data_loader")
    packing = functools.partial(
        pack_sequences,
        num_mini_batches=num_mini_batches,
        cost=cost,
        synchronization=synchronization,
        effort=effort,
    )

    def collating(stock: Any) -> Any:
        return functools.partial(prepare_collated_data_for_workers, stock=stock)

    wrap(module, "pack_sequences", lambda stock: functools.partial(packing, stock=stock), everywhere=False)
    wrap(module, "prepare_collated_data_for_workers", collating, everywhere=False)
