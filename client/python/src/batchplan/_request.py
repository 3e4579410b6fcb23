"""A request as the core takes it: JSON, and the manifest's arrays beside it."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import ArrayLike, NDArray

from batchplan._errors import InvalidRequest
from batchplan._options import CostModel, Pass, PlanOptions, enum, without_none

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST = 2**32 - 1
# Of protobuf's JSON, which has no numbers for these.
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Request:
    """Attributes:
    lengths, group_ids: uint32, without a copy where they were that already.
    fields: a PlanBatchRequest without them, as protobuf's JSON has it.
    """

    def __init__(self, lengths: ArrayLike, **options: Unpack[PlanOptions]) -> None:
        unknown = sorted(options.keys() - PlanOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"{unknown[0]!r} is no option of a plan")
        max_tokens, passes = options.get("max_tokens"), options.get("passes") or ()
        if (max_tokens is None) == (not passes):
            raise InvalidRequest("max_tokens or passes is needed, and not both")
        self.lengths = _uint32("lengths", lengths)
        group_ids = options.get("group_ids")
        self.group_ids = _uint32("group_ids", () if group_ids is None else group_ids)
        for one in passes:
            if not isinstance(one, Pass):
                raise InvalidRequest(f"passes has {one!r}; each must be a batchplan.Pass")
        seed, cost = options.get("seed"), options.get("cost")
        if not (cost is None or cost == "fitted" or isinstance(cost, CostModel)):
            raise InvalidRequest(f'cost is {cost!r}; must be a batchplan.CostModel, or "fitted"')
        self.fields = without_none(
            preset=options.get("preset"),
            topology=without_none(
                data_parallel=options.get("dp"),
                context_parallel=options.get("cp"),
                tensor_parallel=options.get("tp"),
                pipeline_parallel=options.get("pp"),
                virtual_pipeline=options.get("vpp"),
                sequence_parallel=options.get("sequence_parallel"),
            ),
            mini_batches=without_none(
                size=options.get("mini_batch_size"),
                order="ORDER_SHUFFLED" if options.get("shuffle") else None,
                seed=None if seed is None else str(seed),
                groups=enum("groups", options.get("groups")),
            ),
            cost_model={"fitted": True} if cost == "fitted" else cost and dataclasses.asdict(cost),
            synchronization=enum("synchronization", options.get("synchronization")),
            effort=enum("effort", options.get("effort")),
            overlong=enum("overlong", options.get("overlong")),
            allow_empty_microbatches=options.get("allow_empty_microbatches"),
            manifest=without_none(pad_to=options.get("pad_to")),
            passes=[one.to_dict() for one in passes or (Pass(max_tokens or 0),)],
        )

    def to_json(self) -> str:
        return to_json(self.fields)


def to_json(fields: dict[str, Any]) -> str:
    """As the core reads it."""
    return json.dumps(_plain(fields))


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and those that are not finite as text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    return value


def _uint32(name: str, values: ArrayLike) -> NDArray[numpy.uint32]:
    array = numpy.asarray(values)
    if array.ndim != 1:
        raise InvalidRequest(f"manifest.{name} has {array.ndim} dimensions; it must have one")
    if array.size == 0:
        return numpy.empty(0, numpy.uint32)
    if array.dtype.kind not in "iu":
        raise InvalidRequest(f"manifest.{name} has dtype {array.dtype}; it must be of whole numbers")
    if array.dtype != numpy.uint32:
        for wrong in (array < 0, array > _MOST):
            if wrong.any():
                place = int(wrong.argmax())
                raise InvalidRequest(f"manifest.{name}[{place}] is {array[place]}; must be 0 to {_MOST}")
    return numpy.ascontiguousarray(array, numpy.uint32)
