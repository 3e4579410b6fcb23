"""The source distribution has all that the package is built from."""

import pathlib
import subprocess
import sys
import tarfile

import pytest

nanobind = pytest.importorskip("nanobind")
pytest.importorskip("scikit_build_core")

PACKAGE = pathlib.Path(__file__).parents[3] / "client/python"
BUILD = "import backend, sys; print(backend.build_sdist(sys.argv[1]))"


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
    configured = subprocess.run(
        ["cmake", "-S", sources, "-B", tmp_path / "build", "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}",
         f"-Dnanobind_DIR={nanobind.cmake_dir()}", "-DBATCHPLAN_CUDA=OFF"],
        capture_output=True, text=True,
    )
    assert configured.returncode == 0, configured.stderr
    # Every source is there, or there is no rule to make it.
    dry = subprocess.run(["ninja", "-n", "-C", tmp_path / "build", "_core"], capture_output=True, text=True)
    assert dry.returncode == 0, dry.stdout
