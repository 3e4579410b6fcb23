#!/usr/bin/env bash
# The format of everything that is ours, or clang-tidy of what users run.
#
#   tests/check_style.sh format
#   tests/check_style.sh tidy build/asan       # by the compile commands of a build folder
#   tests/check_style.sh tidy build/release
#
# A unity build spares clang-tidy from reading the same headers for every file; clang's static analyzer,
# which looks into main files only, has its say where each file is compiled by itself.
set -euo pipefail
product=(client kernels proto server)

case "${1:-}" in
  format)
    find "${product[@]}" tests -regex '.*[.]\(h\|hpp\|cc\|cu\|cuh\)' | xargs clang-format --dry-run --Werror
    echo "format: clean"
    ;;
  tidy)
    build=${2:?usage: $0 tidy BUILD_FOLDER}
    folders=$(IFS='|'; echo "${product[*]}")
    # clang-tidy reads C++ as clang does; the compile commands name GCC.
    sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | sort -u |
      grep -E "^$PWD/($folders)/|^$(realpath "$build")/($folders)/.*[.]dir/Unity/" |
      grep -v 'link_check\|step_record' |
      xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p "$build" 2> >(grep -v 'warnings generated\|^Suppressed\|^Use -' >&2)
    echo "clang-tidy: clean"
    ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
