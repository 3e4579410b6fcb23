"""scikit-build-core, but for a source distribution, which lies deeper in the project than what it is
built from: it carries a copy of that; and for the last words of a build that something was missing for."""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator

import sources
from scikit_build_core.build import *  # noqa: F403
from scikit_build_core import build as scikit


def build_sdist(sdist_directory, config_settings=None):
    if sources.root() == sources.CARRIED:
        return scikit.build_sdist(sdist_directory, config_settings)
    try:
        sources.gather()
        return scikit.build_sdist(sdist_directory, config_settings)
    finally:
        shutil.rmtree(sources.CARRIED, ignore_errors=True)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with _telling_what_is_missing():
        return scikit.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    with _telling_what_is_missing():
        return scikit.build_editable(wheel_directory, config_settings, metadata_directory)


@contextlib.contextmanager
def _telling_what_is_missing() -> Iterator[None]:
    """Ends a failed build with what is missing, which else stands far above."""
    with tempfile.TemporaryDirectory() as folder:
        # server/find_packages.cmake writes it.
        missing = pathlib.Path(folder) / "missing"
        os.environ["BATCHPLAN_MISSING"] = str(missing)
        try:
            yield
        except BaseException:
            sys.stdout.flush()
            if missing.exists():
                raise SystemExit(missing.read_text().rstrip()) from None
            if not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))):
                raise SystemExit("batchplan is built with a C++ compiler, and none was found here. "
                                 "On Debian and Ubuntu: apt-get install g++") from None
            raise
        finally:
            del os.environ["BATCHPLAN_MISSING"]
