"""A batchplan-server for the tests: that of build/release, or BATCHPLAN_SERVER."""

import os
import pathlib
import sys

import pytest

PROJECT = pathlib.Path(__file__).parents[3]
sys.path.append(str(PROJECT / "tests/deploy"))

from processes import Processes, start_server  # noqa: E402


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """Starts a server with these flags; returns the address of its gRPC."""
    program = pathlib.Path(os.environ.get("BATCHPLAN_SERVER", PROJECT / "build/release/bin/batchplan-server"))
    if not program.exists():
        pytest.skip(f"needs {program}; tests/run.sh builds it")
    with Processes() as processes:
        folder = tmp_path_factory.mktemp("servers")
        def start(*flags):
            return start_server(processes, program.parent, folder, *flags)[0]

        start.binaries = program.parent
        yield start


@pytest.fixture(scope="session")
def server(start):
    return start()
