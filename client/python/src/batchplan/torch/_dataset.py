"""What plans are told of the sequences of a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from batchplan._options import CostModel, PlanOptions, load_costs
from batchplan._request import Request
from batchplan._sequence_loads import SequenceLoads

# Options with one entry a sequence.
OF_SEQUENCES = ("group_ids", "prompt_lengths", "loads", "items", "kinds")


class Dataset:
    """Attributes:
    lengths: of all sequences.
    group_ids: of all sequences, or none.
    prompts: tokens that each sequence has in common with its group, from the first; None: they share nothing.
    loads: what sequences bring beside tokens.
    """

    def __init__(self, request: Request, options: PlanOptions) -> None:
        """
        Args:
            request: of a plan of all of it.
            options: those of the request.

        Raises:
            ValueError: groups, loads or kinds are not one a sequence, or a load is not finite or below 0.
        """
        self.lengths, self.group_ids = request.lengths, request.group_ids
        if len(self.group_ids) not in (0, len(self.lengths)):
            raise ValueError(
                f"group_ids has {len(self.group_ids)} entries; lengths has {len(self.lengths)}"
            )
        self.prompts = None if options.get("prompt_lengths") is None else request.shared_prefixes
        self.loads = SequenceLoads.of_options(
            len(self.lengths),
            loads=request.loads,
            items=request.items,
            kinds=None if options.get("kinds") is None else request.kinds,
        )

    def of(self, positions: NDArray[Any]) -> dict[str, Any]:
        """Options of a plan of some sequences, without those of what there is not."""
        given = self.loads.of(positions).options()
        if len(self.group_ids):
            given["group_ids"] = self.group_ids[positions]
        if self.prompts is not None:
            given["prompt_lengths"] = self.prompts[positions]
        return given

    def room(self, name: str, cost: CostModel | str | None, ranks: int) -> NDArray[numpy.float64] | None:
        """Of each sequence, what a micro-batch must have room for of a load at least; None: there is no such load."""
        lists = self.loads.items.get(name)
        if lists is None:
            return self.loads.loads.get(name)
        is_dealt = any(one.load == name and one.dealt for one in load_costs(cost))
        return numpy.maximum(lists.largest, lists.sums / ranks) if is_dealt else lists.sums

    def digests(self) -> dict[str, str]:
        """What plans depend on, by option; of loads, items, kinds and prompts, if there are any."""
        found = {"lengths": _digest(self.lengths), "group_ids": _digest(self.group_ids)}
        if self.prompts is not None:
            found["prompt_lengths"] = _digest(self.prompts)
        if self.loads.kinds is not None:
            found["kinds"] = _digest(self.loads.kinds)
        if self.loads.loads:
            found["loads"] = _digest_by_name({name: [values] for name, values in self.loads.loads.items()})
        if self.loads.items:
            parts = {name: [lists.counts, lists.values] for name, lists in self.loads.items.items()}
            found["items"] = _digest_by_name(parts)
        return found


def _digest(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(one.tobytes() for one in arrays)).hexdigest()


def _digest_by_name(arrays: Mapping[str, list[NDArray[Any]]]) -> str:
    """In their order, by which errors and metrics name them."""
    return hashlib.sha256(repr([(name, _digest(*each)) for name, each in arrays.items()]).encode()).hexdigest()
