"""What images add to a micro-batch besides tokens, as integrations tell the planner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy
from numpy.typing import ArrayLike

import batchplan
from batchplan._checks import number, whole

__all__ = ["PATCHES", "Images", "grid_patches", "patches_of", "pixel_rows"]

# The name of what their patches are to the planner.
PATCHES = "patches"
# What a processor makes of images and of videos, and how many patches each of these has in time, height and width.
_GRIDS = {"pixel_values": "image_grid_thw", "pixel_values_videos": "video_grid_thw"}


@dataclasses.dataclass(frozen=True)
class Images:
    """The cost of patches of images, and the most patches of a micro-batch.

    Attributes:
        patch_cost: the encoder's time for a patch, relative to the model's time for a token.
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

    def costing(self, patches: ArrayLike, cost: batchplan.CostModel) -> batchplan.PlanOptions:
        """The options by which so many patches of each sample, or of each packed row, cost something beside what that
        model has their tokens cost. Their encoder is a phase of its own, for which ranks wait."""
        load = batchplan.LoadCost(PATCHES, self.per_patch(cost), separate=True)
        return {"loads": {PATCHES: patches}, "cost": dataclasses.replace(cost, loads=[load])}

    def options(
        self, patches: ArrayLike, cost: batchplan.CostModel, only: batchplan.Pass
    ) -> batchplan.PlanOptions:
        """As costing(), with that pass, within max_patches."""
        options: batchplan.PlanOptions = {**self.costing(patches, cost), "passes": [only]}
        if self.max_patches is not None:
            options["passes"] = [dataclasses.replace(only, limits={PATCHES: self.max_patches})]
            options["overlong"] = "alone"
        return options


def patches_of(inputs: Mapping[str, Any] | None) -> int | None:
    """The patches of all images and videos of a sample, before an encoder merges any.

    Args:
        inputs: by name, as the model takes them; a pair's begin with "chosen_" and "rejected_". None: there are none.

    Returns:
        None where there are pixels that no grid is of: this model's patches are not known.
    """
    given = {name: value for name, value in (inputs or {}).items() if value is not None}
    found = 0
    for name, value in given.items():
        for pixels, grid in _GRIDS.items():
            if name.endswith(grid):
                found += grid_patches(value)
            elif name.endswith(pixels) and name.removesuffix(pixels) + grid not in given:
                return None
    return found


def grid_patches(grid: Any) -> int:
    """The patches of a grid, [items, 3]."""
    numbers = grid.cpu().numpy() if hasattr(grid, "cpu") else numpy.asarray(grid)
    return int(numbers.astype(numpy.int64).reshape(-1, 3).prod(1).sum())


def pixel_rows(tensors: Mapping[str, Any] | None) -> int:
    """Rows of what an encoder gets of a sample, by the names of Transformers' processors: patches of models that
    have a grid of each image, whole images of others."""
    found = [one for name, one in (tensors or {}).items() if name.startswith("pixel_values")]
    shapes = [one.shape for one in found if one is not None]
    return sum(int(shape[0]) for shape in shapes if len(shape))
