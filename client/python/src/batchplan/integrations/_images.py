"""What images bring to a micro-batch beside tokens, as integrations tell the planner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import batchplan
from batchplan._checks import number, whole

__all__ = ["LOAD", "Images", "patches_of"]

# The name of what their patches are to the planner.
LOAD = "patches"


@dataclasses.dataclass(frozen=True)
class Images:
    """What patches of images cost, and how many a micro-batch has at most.

    Attributes:
        patch_cost: what the encoder takes for a patch, as a part of what the model takes for a token.
        max_patches: of a micro-batch; a sample that has more alone is alone in its micro-batch. None: any number.

    Raises:
        InvalidRequest: one is none that there is.
    """

    patch_cost: float = 0.0
    max_patches: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= number("patch_cost", self.patch_cost) < float("inf"):
            raise batchplan.InvalidRequest(f"patch_cost is {self.patch_cost}; must be finite, and at least 0")
        if self.max_patches is not None and whole("max_patches", self.max_patches) < 1:
            raise batchplan.InvalidRequest(f"max_patches is {self.max_patches}; must be at least 1")

    @property
    def are_planned(self) -> bool:
        """Whether patches change a plan."""
        return self.patch_cost > 0 or self.max_patches is not None

    def per_patch(self, cost: batchplan.CostModel) -> float:
        return self.patch_cost * cost.per_token

    def options(
        self, patches: Sequence[float], cost: batchplan.CostModel, only: batchplan.Pass
    ) -> batchplan.PlanOptions:
        """The options of a plan of samples with so many patches each, by that cost of their tokens and that pass.
        Their encoder is a phase of its own, for which ranks wait."""
        load = batchplan.LoadCost(LOAD, self.per_patch(cost), separate=True)
        options: batchplan.PlanOptions = {
            "loads": {LOAD: patches},
            "cost": dataclasses.replace(cost, loads=[load]),
            "passes": [only],
        }
        if self.max_patches is not None:
            options["passes"] = [dataclasses.replace(only, limits={LOAD: self.max_patches})]
            options["overlong"] = "alone"
        return options


def patches_of(tensors: Mapping[str, Any] | None) -> int:
    """Rows of what an encoder gets of a sample, by the names of Transformers' processors: patches of models that
    have a grid of each image, whole images of others."""
    found = [one for name, one in (tensors or {}).items() if name.startswith("pixel_values")]
    shapes = [one.shape for one in found if one is not None]
    return sum(int(shape[0]) for shape in shapes if len(shape))
