#!/usr/bin/env bash
# Format and clang-tidy of everything that is ours, against the compile commands of a build folder.
#
#   tests/check_style.sh build/release
set -euo pipefail
build=${1:?usage: $0 BUILD_FOLDER}
folders=(client kernels proto server tests)

find "${folders[@]}" -name '*.h' -o -name '*.cc' | xargs clang-format --dry-run --Werror
echo "format: clean"

# clang-tidy reads C++ as clang does; the compile commands name GCC.
find "${folders[@]}" -name '*.cc' |
  xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p "$build" 2> >(grep -v 'warnings generated\|^Suppressed\|^Use -' >&2)
echo "clang-tidy: clean"
