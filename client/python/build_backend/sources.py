"""Where the project's own sources are, and which of them the package is built from."""

import pathlib
import shutil

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
# Of a source distribution; made while that is built, and gone afterwards.
CARRIED = PACKAGE / "project"
NEEDED = (
    "CMakeLists.txt",
    "client/python/core",
    "kernels",
    "proto",
    "server/base",
    "server/explain",
    "server/find_packages.cmake",
    "server/fitting",
    "server/pages",
    "server/planner",
)


def root() -> pathlib.Path:
    """Of the project, or of what a source distribution carries of it."""
    # Which has this file, and nothing else does.
    return CARRIED if (PACKAGE / "PKG-INFO").exists() else PACKAGE.parents[1]


def gather() -> None:
    """Copies what is needed to CARRIED."""
    project = root()
    shutil.rmtree(CARRIED, ignore_errors=True)
    for name in NEEDED:
        source, target = project / name, CARRIED / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)
