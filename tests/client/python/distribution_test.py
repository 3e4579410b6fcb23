"""The source distribution has all that the package is built from, and configures with the Protobuf of wheels."""

import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

nanobind = pytest.importorskip("nanobind")
pytest.importorskip("scikit_build_core")

PACKAGE = pathlib.Path(__file__).parents[3] / "client/python"
BUILD = "import backend, sys; print(backend.build_sdist(sys.argv[1]))"
# As deploy/wheels/libraries.sh leaves it: a CMake package, and no compiler in it.
PROTOBUF = "add_library(protobuf::libprotobuf INTERFACE IMPORTED)\n"


def test_the_sources_that_are_distributed_configure_alone(tmp_path):
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PACKAGE / "build_backend")}
    made = subprocess.run(
        [sys.executable, "-c", BUILD, tmp_path], cwd=PACKAGE, env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    assert not (PACKAGE / "project").exists()
    (archive,) = tmp_path.glob("batchplanner-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path)
    sources = tmp_path / archive.name.removesuffix(".tar.gz")
    assert not (sources / "core").exists()
    assert not (sources / "LICENSE").is_symlink()
    assert "The batchplan Authors" in (sources / "LICENSE").read_text()
    assert "Abseil" in (sources / "NOTICE").read_text()
    # No rule names headers: one that is missing would not show before it is compiled.
    files = {str(file.relative_to(sources / "project")): file for file in (sources / "project").rglob("*.*")}
    included = {
        header
        for name, file in files.items() if name.endswith((".h", ".cc"))
        for header in re.findall(r'^#include "((?:client|proto|server)/[^"]+)"', file.read_text(), re.MULTILINE)
    }
    missing = {header for header in included - files.keys() if not header.endswith(".pb.h")}
    assert not missing
    protobuf = tmp_path / "prefix/lib/cmake/protobuf"
    protobuf.mkdir(parents=True)
    (protobuf / "protobuf-config.cmake").write_text(PROTOBUF)
    configured = subprocess.run(
        ["cmake", "-S", sources, "-B", tmp_path / "build", "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}",
         f"-Dnanobind_DIR={nanobind.cmake_dir()}", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}", "-DBATCHPLAN_CUDA=OFF"],
        capture_output=True, text=True,
    )
    assert configured.returncode == 0, configured.stderr
    # Every source is there, or there is no rule to make it.
    dry = subprocess.run(["ninja", "-n", "-C", tmp_path / "build", "_core"], capture_output=True, text=True)
    assert dry.returncode == 0, dry.stdout
