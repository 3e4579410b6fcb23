"""scikit-build-core, but for a source distribution, which lies deeper in the project than what it is
built from: it carries a copy of that."""

import shutil

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
