"""Rows that were packed beforehand, planned by what the sequences in them cost.

Such rows are almost alike in width, but not in cost, since attention stays within each sequence. To the planner a row
is a sequence of its width, and what it costs is a load, beside which tokens cost nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._checks import members, whole
from batchplan._errors import InvalidRequest
from batchplan._local import plan as make_plan
from batchplan._options import DEFAULT_COST, CostModel, LoadCost, Pass, PlanOptions, load_costs
from batchplan._request import Request, check_options
from batchplan.torch._dataset import OF_SEQUENCES
from batchplan.torch._identity import flat

_INT32_MOST = 2**31 - 1
# The load that is a row's cost.
_COST = "cost"
# What is the same of rows as of sequences.
_TAKEN = (
    "max_tokens", "passes", "preset", "dp", "shuffle", "seed", "cost", "synchronization", "effort", "group_ids",
    "groups", "mini_batch_size", "mini_batch_groups", "last_mini_batch", "max_delay", "allow_empty_microbatches",
    "loads", "items", "kinds", "limits",
)  # fmt: skip
_TAKEN_OF_PASS = (
    "max_tokens", "name", "max_sequences", "min_microbatches", "microbatch_count_multiple",
    "equal_sequence_counts", "sequence_counts", "sequence_count_multiple", "order", "ignore_mini_batches", "limits",
    "kinds_per_slot",
)  # fmt: skip
_REASON = "rows packed beforehand are dealt among data-parallel ranks by their cost"


class PackedRows:
    """The sequences of each row.

    Attributes:
        counts: sequences of each row. Shape [rows].
        widths: tokens of each row, padding included. Shape [rows].
    """

    def __init__(
        self,
        lengths: NDArray[numpy.int64],
        counts: NDArray[numpy.int64],
        widths: NDArray[numpy.int64] | None = None,
        *,
        name: str = "lengths",
    ) -> None:
        """
        Args:
            lengths: of all sequences, row after row.
            counts: sequences of each row.
            widths: tokens of each row, with those that are of no sequence; None: there are no such.
            name: of the column that lengths are from, for errors.

        Raises:
            InvalidRequest: a row has no sequence, or one of no token, or 2^31 tokens.
        """
        ends = numpy.cumsum(counts)
        if not counts.all():
            raise InvalidRequest(f"{name}[{int(counts.argmin())}] has no sequence; every row has at least one")
        for wrong, limit in ((lengths < 1, "at least 1"), (lengths > _INT32_MOST, f"at most {_INT32_MOST}")):
            if wrong.any():
                place = int(wrong.argmax())
                row = int(numpy.searchsorted(ends, place, "right"))
                within = place - int(ends[row] - counts[row])
                raise InvalidRequest(f"{name}[{row}][{within}] is {lengths[place]}; must be {limit}")
        self.counts = counts
        begins = ends - counts
        self._tokens = numpy.add.reduceat(lengths, begins) if len(counts) else counts
        self.widths = self._tokens if widths is None else widths
        if (self.widths > _INT32_MOST).any():
            row = int(self.widths.argmax())
            raise InvalidRequest(f"{name}[{row}] has {self.widths[row]} tokens; must be at most {_INT32_MOST}")
        self._lengths = lengths
        # Sums of whole numbers, which are the same on every machine.
        self._squares = numpy.add.reduceat(lengths**2, begins) if len(counts) else counts

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def are_packed(self) -> bool:
        """Whether any row has several sequences."""
        return bool((self.counts > 1).any())

    def lengths_of(self, row: int) -> NDArray[numpy.int64]:
        """Those of a row's sequences, in their order."""
        end = int(self.counts[: row + 1].sum())
        return self._lengths[end - self.counts[row] : end]

    def costs(self, cost: CostModel) -> NDArray[numpy.float64]:
        """What each row costs: the sum of CostModel.of_sequences over its sequences, without padding."""
        linear = cost.per_token * self._tokens + cost.per_sequence * self.counts
        return linear + cost.per_token_squared * self._squares

    def most(self, options: PlanOptions) -> int:
        """Rows of a micro-batch, at most: as many as max_tokens holds of the widest one, and no more than the first
        pass's max_sequences.

        Raises:
            InvalidRequest: it holds not even one.
        """
        first = _first(options)
        budget, widest = whole("max_tokens", first.max_tokens), int(self.widths.max(initial=1))
        if budget < widest:
            row = int(self.widths.argmax())
            raise InvalidRequest(f"lengths[{row}] has {widest} tokens, a row; max_tokens is {budget}")
        held = budget // widest
        asked = whole("max_sequences", first.max_sequences or held)
        if asked < 1:
            raise InvalidRequest(f"passes[0].max_sequences is {asked}; must be at least 1")
        return min(held, asked, max(len(self), 1))

    def of_trainer(
        self, options: PlanOptions, of_device: int, batch_size: int, *, drop_last: bool
    ) -> PlanOptions:
        """For global batches of a trainer that steps after a fixed number of micro-batches.

        Args:
            options: what is asked of the rows; without a budget, they are as many in a micro-batch as without a plan.
            of_device: rows of a micro-batch without a plan.
            batch_size: rows of a global batch, over all ranks.

        Returns:
            the options, with allow_empty_microbatches where the last global batch has fewer rows than micro-batches.

        Raises:
            InvalidRequest: the budget does not hold the widest row.
        """
        found: PlanOptions = options.copy()
        if all(options.get(name) is None for name in ("max_tokens", "passes")):
            budget, limits = of_device * int(self.widths.max(initial=1)), found.pop("limits", None)
            found["passes"] = [Pass(budget, max_sequences=of_device, limits=limits)]
        # Each micro-batch of each global batch has a row where rows are as many.
        needed = -(-len(self) // batch_size) * (batch_size // of_device)
        if drop_last or len(self) % batch_size == 0 or (self.most(found) > 1 and len(self) >= needed):
            return found
        found["allow_empty_microbatches"] = True
        return found

    def planned(self, options: PlanOptions) -> PlanOptions:
        """The options by which the rows are planned as sequences of their widths.

        Args:
            options: what is asked of the rows.

        Raises:
            InvalidRequest: an option says nothing of rows, or max_tokens does not hold the widest one.
        """
        check_options(options)
        for name, value in options.items():
            is_default = value is None or (name, value) == ("overlong", "reject")
            if name not in _TAKEN and not is_default:
                raise InvalidRequest(f"{name} is {value!r}, and {_REASON}: leave it out")
        if options.get("preset") not in (None, "balanced"):
            raise InvalidRequest(f'preset is "{options["preset"]}", and {_REASON}: leave it out')
        first = _first(options)
        for field in dataclasses.fields(first):
            value = getattr(first, field.name)
            if field.name not in _TAKEN_OF_PASS and value != field.default:
                raise InvalidRequest(f"passes[0].{field.name} is {value!r}, and {_REASON}: leave it out")
        for name in ("loads", "items"):
            given: Any = options.get(name)
            if given is not None and _COST in given:
                raise InvalidRequest(f'{name} has "{_COST}", as what rows cost is called: give it another name')
        cost = _cost_of(options)
        planned: PlanOptions = options.copy()
        planned.pop("max_tokens", None)
        planned.pop("limits", None)
        planned["passes"] = [dataclasses.replace(first, max_sequences=self.most(options))]
        planned["loads"] = {**(options.get("loads") or {}), _COST: self.costs(cost)}
        loads = [*load_costs(cost), LoadCost(_COST, 1.0)]
        planned["cost"] = CostModel(0.0, per_microbatch=cost.per_microbatch, loads=loads)
        return planned

    def identity(self, options: PlanOptions, planned_as: dict[str, Any]) -> dict[str, Any]:
        """What plans of the rows depend on, by name; JSON.

        Args:
            options: what is asked of the rows.
            planned_as: the same of sequences of their widths.
        """
        without: Any = {**options, **dict.fromkeys(OF_SEQUENCES)}
        asked = flat("", Request((), **without).fields)
        of_sequences = {name: planned_as[name] for name in OF_SEQUENCES if name in planned_as}
        if not options.get("loads"):
            # The rows' cost alone.
            of_sequences.pop("loads", None)
        digest = hashlib.sha256(self._lengths.tobytes() + self.counts.tobytes()).hexdigest()
        cost = flat("", {"cost_model": _cost_of(options).to_dict()})
        return {**asked, **of_sequences, "lengths": digest, **cost}


def packed_rows(lengths: Any) -> PackedRows | None:
    """The rows, where the entries are those of rows: each the lengths of the sequences in it, in place of one
    length. None: they are not.

    Raises:
        InvalidRequest: some entries are of rows and others are not, or as PackedRows().
    """
    if isinstance(lengths, PackedRows):
        return lengths
    entries = lengths
    if isinstance(lengths, numpy.ndarray) and lengths.dtype == object:
        entries = list(lengths)
    elif not isinstance(lengths, Sequence) or isinstance(lengths, (str, bytes)):
        return None
    if not len(entries) or not _is_row(entries[0]):
        return None
    rows = []
    for place, one in enumerate(entries):
        array = whole_numbers(one)
        if array is None:
            raise InvalidRequest(
                f"lengths[{place}] is {one!r}; must be a list of whole numbers, the lengths of a row's sequences, "
                "as lengths[0] is a list"
            )
        rows.append(array)
    counts = numpy.array([len(one) for one in rows], numpy.int64)
    return PackedRows(numpy.concatenate(rows), counts)


def whole_numbers(entry: Any) -> NDArray[numpy.int64] | None:
    """The numbers in any kind of list; None: it is no list of whole numbers."""
    if not _is_row(entry):
        return None
    try:
        array = numpy.asarray(entry)
    except ValueError:  # of lists of several lengths
        return None
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        return None
    return array.astype(numpy.int64)


def rows_of_positions(
    positions: NDArray[numpy.int64], widths: NDArray[numpy.int64]
) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
    """The lengths of the sequences in rows, and how many each row has, by position_ids, which begin with 0 in each
    sequence. Zeros at a row's end are padding.

    Args:
        positions: of all tokens, row after row.
        widths: tokens of each row, padding included; at least 1.
    """
    ends = numpy.cumsum(widths)
    begins = ends - widths
    places = numpy.arange(len(positions))
    # Behind the last token that is no padding.
    last = numpy.maximum.reduceat(numpy.where(positions != 0, places, -1), begins)
    ends = numpy.maximum(last, begins) + 1
    is_begin = positions == 0
    is_begin[begins] = True
    row_of = numpy.repeat(numpy.arange(len(widths)), widths)
    starts = numpy.flatnonzero(is_begin & (places < ends[row_of]))
    counts = numpy.bincount(row_of[starts], minlength=len(widths))
    following = numpy.append(starts[1:], len(positions))
    return numpy.minimum(following, ends[row_of[starts]]) - starts, counts


def _is_row(entry: Any) -> bool:
    # Tensors and arrays of one number have a __len__ that raises.
    return hasattr(entry, "__len__") and not isinstance(entry, (str, bytes, dict)) and getattr(entry, "ndim", 1) > 0


def _first(options: PlanOptions) -> Pass:
    if options.get("passes") is None:
        return Pass(options["max_tokens"], limits=options.get("limits"))
    first, *others = members("passes", options["passes"], Pass)
    if others:
        raise InvalidRequest(f"passes has {1 + len(others)} entries, and {_REASON}: there must be one")
    return first


def _cost_of(options: PlanOptions) -> CostModel:
    cost = options.get("cost")
    if not isinstance(cost, CostModel):
        if cost is not None:
            raise InvalidRequest(f'cost is "{cost}", and {_REASON}: must be a batchplan.CostModel')
        return DEFAULT_COST
    if cost.exchange:
        raise InvalidRequest(f"cost.exchange is {cost.exchange}, and {_REASON}: leave it out")
    alone = [dataclasses.replace(one, separate=False, dealt=False) for one in load_costs(cost)]
    nothing = {one.load: [0.0] for one in alone}
    make_plan([1], max_tokens=1, cost=dataclasses.replace(cost, loads=alone), loads=nothing)
    return cost
