"""A batchplan-server for the tests: that of build/release, or BATCHPLAN_SERVER. And their locale, which writes 1.5 as
1,5: programs may set any, and what is read and written must not depend on it."""

import locale
import os
import pathlib
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).parents[3]
sys.path.append(str(PROJECT / "tests/deploy"))

from processes import Processes, start_server  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def decimal_comma(tmp_path_factory):
    """Made from Debian's sources, for these tests and for the programs that they start."""
    folder = tmp_path_factory.mktemp("locales")
    subprocess.run(["localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], check=True)
    os.environ.update(LOCPATH=str(folder), LC_ALL="de_DE.UTF-8")
    locale.setlocale(locale.LC_ALL, "")
    assert locale.str(1.5) == "1,5"


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
