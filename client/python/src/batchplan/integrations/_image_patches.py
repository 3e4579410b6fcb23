"""How many patches the images and videos of a sample are divided into, by what a processor says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

# The name of the load.
PATCHES = "patches"
# What a processor makes of images and of videos, and how many patches each of these has in time, height and width.
_GRIDS = {"pixel_values": "image_grid_thw", "pixel_values_videos": "video_grid_thw"}


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
