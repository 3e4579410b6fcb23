#!/usr/bin/env bash
# The format of everything that is ours, and clang-tidy of what users run, by the compile commands of a
# build folder.
#
#   tests/check_style.sh build/release
set -euo pipefail
build=${1:?usage: $0 BUILD_FOLDER}
product=(client kernels proto server)

find "${product[@]}" tests -regex '.*[.]\(h\|hpp\|cc\|cu\|cuh\)' | xargs clang-format --dry-run --Werror
echo "format: clean"

# clang-tidy reads C++ as clang does; the compile commands name GCC.
find "${product[@]}" -name '*.cc' |
  xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p "$build" 2> >(grep -v 'warnings generated\|^Suppressed\|^Use -' >&2)
echo "clang-tidy: clean"
