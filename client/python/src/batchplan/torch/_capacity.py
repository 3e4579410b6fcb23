"""What global batches are divided among: ranks, and micro-batches of a budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from batchplan._checks import whole
from batchplan._options import PlanOptions


@dataclasses.dataclass(frozen=True)
class Capacity:
    """Which sequences a global batch has rests on it only where these could not be divided otherwise: a saved place
    may go on with another one.

    Attributes:
        dp: data-parallel ranks.
        max_tokens: of a micro-batch on one rank, of each pass.
        microbatches_per_step: of each rank; None: as few as it takes.
    """

    dp: int
    max_tokens: tuple[int, ...]
    microbatches_per_step: int | None

    @classmethod
    def of(cls, options: PlanOptions, ranks: int, microbatches_per_step: int | None) -> Capacity:
        """That of these options, which have passes."""
        wholes = tuple(whole("max_tokens", one.max_tokens) for one in options["passes"])
        return cls(ranks, wholes, microbatches_per_step)

    @classmethod
    def saved(cls, state: Any) -> Capacity:
        """As to_dict() has it.

        Raises:
            ValueError: it is none.
        """
        try:
            number = state["microbatches_per_step"]
            return cls(
                whole("dp", state["dp"]),
                tuple(whole("max_tokens", one) for one in state["max_tokens"]),
                None if number is None else whole("microbatches_per_step", number),
            )
        except (KeyError, TypeError):
            raise ValueError(f"divided_by is {state!r}; must be what a state_dict has there") from None

    def to_dict(self) -> dict[str, Any]:
        """JSON."""
        return {**dataclasses.asdict(self), "max_tokens": list(self.max_tokens)}

    def applied(self, options: PlanOptions) -> PlanOptions:
        """Options that have another one, with this one."""
        passes = zip(options["passes"], self.max_tokens)
        budgets = [dataclasses.replace(one, max_tokens=budget) for one, budget in passes]
        return {**options, "dp": self.dp, "passes": budgets}

    def differences(self, saved: Capacity) -> str:
        """What differs from another one, as an error says it."""
        own, others = self._named(), saved._named()
        found = [f"{name} is {own[name]}; it was {others[name]}" for name in own if own[name] != others.get(name)]
        return ", and ".join(found) + " when the state was saved"

    def _named(self) -> Mapping[str, Any]:
        first, *others = self.max_tokens
        passes = {f"passes[{place}].max_tokens": one for place, one in enumerate(others, 1)}
        return {
            "dp": self.dp,
            "max_tokens": first,
            **passes,
            "microbatches_per_step": self.microbatches_per_step,
        }
