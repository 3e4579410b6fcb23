"""A request as the core takes it: JSON, and the manifest's arrays beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy
from numpy.typing import ArrayLike, NDArray

from batchplan import _core
from batchplan._checks import did_you_mean, flag, members, positive, text, whole
from batchplan._choices import enum
from batchplan._columns import listed, uint32_of
from batchplan._errors import InvalidRequest
from batchplan._loads import NO_VALUES, items_of, loads_of
from batchplan._option_table import BY_NAME, FIELDS
from batchplan._options import (
    CostModel,
    DynamicContext,
    Pass,
    Pipeline,
    PlanOptions,
    Selection,
    without_none,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

Value = TypeVar("Value")
# Options with one entry a sequence.
_OF_SEQUENCES = (
    "group_ids", "ranks", "prompt_lengths", "shared_prefixes", "shared_with", "loads", "items", "kinds", "ages",
)  # fmt: skip
# Of what is not given.
_NONE = numpy.empty(0, numpy.uint32)
_NONE.flags.writeable = False
# Of protobuf's JSON, which has no numbers for these.
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Request:
    """Attributes:
    lengths, group_ids: uint32, without a copy where they were that already.
    loads: by name, one value a sequence.
    items: by name of the load, those of each sequence.
    kinds: uint32, or none.
    shared_prefixes: uint32; those of prompts too.
    arrays: of the manifest, as the core takes them.
    ranks: how many, data-parallel; where context-parallel groups differ in size, those of the pool.
    fields: a PlanBatchRequest without them, as protobuf's JSON has it.
    """

    def __init__(self, lengths: ArrayLike | Iterable[float], **options: Unpack[PlanOptions]) -> None:
        for name in options.keys() - PlanOptions.__annotations__.keys():
            raise _unknown_option(name)
        max_tokens, passes = options.get("max_tokens"), options.get("passes")
        given = [] if passes is None else members("passes", passes, Pass)
        limits = options.get("limits")
        if (max_tokens is None) == (not given):
            raise InvalidRequest("max_tokens or passes is needed, and not both")
        if max_tokens is not None:
            given = [Pass(max_tokens, limits=limits)]
        elif limits is not None:
            raise InvalidRequest("limits and passes are set; give each pass its own limits")
        self.lengths = uint32_of("lengths", lengths)

        def array(name: str, values: Any) -> NDArray[numpy.uint32]:
            return _NONE if values is None else uint32_of(name, values)

        self.group_ids = array("group_ids", options.get("group_ids"))
        self.kinds = array("kinds", options.get("kinds"))
        prefixes = array("shared_prefixes", options.get("shared_prefixes"))
        if options.get("prompt_lengths") is not None:
            prefixes = _of_prompts(array("prompt_lengths", options["prompt_lengths"]), self.lengths, self.group_ids)
            for name in ("shared_prefixes", "shared_with"):
                if options.get(name) is not None:
                    raise InvalidRequest(f"prompt_lengths and {name} are set; give one of them")
        loads = loads_of(options.get("loads"))
        items = items_of(options.get("items"), len(self.lengths))
        for name, _ in loads:
            if name in items:
                raise InvalidRequest(f'loads and items both have "{name}"; its items add up to it')
        self.loads, self.items, self.shared_prefixes = dict(loads), items, prefixes
        self.arrays = (
            self.lengths,
            self.group_ids,
            array("ranks", options.get("ranks")),
            array("ages", options.get("ages")),
            prefixes,
            array("shared_with", options.get("shared_with")),
            self.kinds,
            [*loads, *((name, NO_VALUES) for name in items)],
            [(name, lists.sequences, lists.values) for name, lists in items.items()],
        )
        cost = options.get("cost")
        fitted = isinstance(cost, str) and cost == "fitted"
        if not (cost is None or fitted or isinstance(cost, CostModel)):
            raise InvalidRequest(f'cost is "{cost}"; must be a batchplan.CostModel, or "fitted"')

        pipeline = options.get("pipeline")
        if not (pipeline is None or isinstance(pipeline, Pipeline)):
            raise InvalidRequest(f'pipeline is "{pipeline}"; must be a batchplan.Pipeline')
        selection = options.get("selection")
        if not (selection is None or isinstance(selection, Selection)):
            raise InvalidRequest(f"selection is {selection!r}; must be a batchplan.Selection")

        def optional(check: Callable[[str, Any], Value], name: str) -> Value | None:
            value: Any = options.get(name)
            return None if value is None else check(FIELDS.get(name, name), value)

        seed = optional(whole, "seed")
        dynamic = _dynamic_context(options.get("dynamic_cp"))
        self.ranks = optional(positive, "dp") or 1
        if dynamic is not None:
            self.ranks *= optional(positive, "cp") or 1
        self.fields = without_none(
            preset=optional(text, "preset"),
            topology=without_none(
                data_parallel=optional(positive, "dp"),
                context_parallel=optional(positive, "cp"),
                tensor_parallel=optional(positive, "tp"),
                pipeline_parallel=optional(positive, "pp"),
                virtual_pipeline=optional(positive, "vpp"),
                sequence_parallel=optional(flag, "sequence_parallel"),
                dynamic_context=dynamic,
            ),
            pipeline=None if pipeline is None else pipeline.to_dict(),
            mini_batches=without_none(
                size=optional(whole, "mini_batch_size"),
                order=_order(options.get("order"), optional(flag, "shuffle")),
                seed=None if seed is None else str(seed),
                groups=enum("groups", options.get("groups")),
                max_delay=optional(whole, "max_delay"),
                group_count=optional(whole, "mini_batch_groups"),
                last=enum("last_mini_batch", options.get("last_mini_batch")),
            ),
            selection=None if selection is None else selection.to_dict(),
            cost_model=cost.to_dict() if isinstance(cost, CostModel) else cost and {"fitted": True},
            synchronization=enum("synchronization", options.get("synchronization")),
            effort=enum("effort", options.get("effort")),
            overlong=enum("overlong", options.get("overlong")),
            allow_empty_microbatches=optional(flag, "allow_empty_microbatches"),
            manifest=without_none(pad_to=optional(whole, "pad_to")),
            passes=[one.to_dict(place) for place, one in enumerate(given)],
        )

    def to_json(self) -> str:
        return to_json(self.fields)


def _unknown_option(name: str) -> TypeError:
    """With what was probably meant: another option, by its name or the wire contract's, or a field of one."""
    known = list(PlanOptions.__annotations__)
    meant = {field.rpartition(".")[2]: one for one, field in FIELDS.items() if one in known}.get(name)
    if meant is not None:
        return TypeError(f"{name!r} is no option of a plan; did you mean {meant}?")
    for kind, where in ((Pass, "passes=[{}]"), (Pipeline, "pipeline={}"), (Selection, "selection={}")):
        if name in kind.__annotations__:
            made = where.format(f"batchplan.{kind.__name__}(..., {name}=...)")
            return TypeError(f"{name!r} is no option of a plan; did you mean {made}?")
    return TypeError(f"{name!r} is no option of a plan{did_you_mean(name, known)}")


def check_options(options: PlanOptions) -> None:
    """Raises InvalidRequest for what is wrong whatever the sequences are."""
    own: Any = {name: value for name, value in options.items() if name not in _OF_SEQUENCES}
    Request((), **own)


def columns_listed(options: PlanOptions) -> PlanOptions:
    """The options, of which those with one entry a sequence can be read more than once."""
    found: Any = dict(options)
    for name in _OF_SEQUENCES:
        values, where = found.get(name), f"manifest.{name}"
        if isinstance(values, Mapping) and name in BY_NAME:
            values = {load: listed(where, one) for load, one in values.items()}
            if name == "items":
                values = {
                    load: [listed(where, one) for one in lists] if isinstance(lists, Iterable) else lists
                    for load, lists in values.items()
                }
            found[name] = values
        elif values is not None and name not in BY_NAME:
            found[name] = listed(where, values)
    return found  # type: ignore[no-any-return]


def _dynamic_context(asked: bool | DynamicContext | None) -> dict[str, int] | None:
    """The sizes of groups, as the wire contract has them; None where all are alike."""
    if isinstance(asked, DynamicContext):
        return asked.to_dict()
    if not isinstance(asked, (bool, numpy.bool_)) and asked is not None:
        raise InvalidRequest(
            f"topology.dynamic_context is {asked!r}; must be True, False or a batchplan.DynamicContext"
        )
    return {} if asked else None


def _order(word: str | None, shuffle: bool | None) -> str | None:
    """In which sequences come to mini-batches."""
    order = enum("order", word, kind="mini_batch_order")
    if order is not None and shuffle is not None and (order == "ORDER_SHUFFLED") != shuffle:
        raise InvalidRequest(f'order is "{word}", and shuffle is {shuffle}; give one of them')
    return "ORDER_SHUFFLED" if shuffle else order


def kept(arrays: _core.Arrays) -> _core.Arrays:
    """Copies, which stay as they are when the caller's arrays change."""
    lengths, group_ids, ranks, ages, shared_prefixes, shared_with, kinds, loads, items = arrays
    return (
        lengths.copy(),
        group_ids.copy(),
        ranks.copy(),
        ages.copy(),
        shared_prefixes.copy(),
        shared_with.copy(),
        kinds.copy(),
        [(name, values.copy()) for name, values in loads],
        [(name, sequences.copy(), values.copy()) for name, sequences, values in items],
    )


def to_json(fields: dict[str, Any]) -> str:
    """As the core reads it."""
    return json.dumps(_plain(fields))


def _plain(value: Any) -> Any:
    """Numbers that are not finite as text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    return value


def _of_prompts(
    prompts: NDArray[numpy.uint32], lengths: NDArray[numpy.uint32], group_ids: NDArray[numpy.uint32]
) -> NDArray[numpy.uint32]:
    """What sequences share that begin with the prompt of their group: shared_prefixes.

    Raises:
        InvalidRequest: there is not one prompt a sequence, or a group; or one is longer than its sequence, or
            not as long as others of its group.
    """
    for name, entries in (("prompt_lengths", prompts), ("group_ids", group_ids)):
        if len(entries) != len(lengths):
            raise InvalidRequest(
                f"manifest.{name} has {len(entries)} entries; with prompt_lengths it must have {len(lengths)}, "
                "one a sequence"
            )
    for place in numpy.flatnonzero(prompts > lengths)[:1].tolist():
        raise InvalidRequest(
            f"manifest.prompt_lengths[{place}] is {prompts[place]}; its sequence has {lengths[place]} tokens"
        )
    _, firsts, groups = numpy.unique(group_ids, return_index=True, return_inverse=True)
    of_first = firsts[groups.reshape(-1)]
    for place in numpy.flatnonzero(prompts != prompts[of_first])[:1].tolist():
        raise InvalidRequest(
            f"manifest.prompt_lengths[{place}] is {prompts[place]}, but {prompts[of_first[place]]} of sequence "
            f"{of_first[place]}, which is of the same group"
        )
    return prompts
