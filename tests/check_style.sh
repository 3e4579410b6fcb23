#!/usr/bin/env bash
# The format of everything that is ours, by clang-format 14 and skipped where there is only another version, or
# clang-tidy of what users run.
#
#   tests/check_style.sh format
#   tests/check_style.sh tidy build/asan       # what has changed, and what includes that
#   tests/check_style.sh tidy build/asan all
#
# Clang-tidy goes by the compile commands of a build folder in which everything is built. A unity build spares it from
# reading the same headers for every file; clang's static analyzer, which looks into main files only, has its say
# where each file is compiled by itself (build/clang). Changed is what the commits of the last day before HEAD
# changed, or those since the commit that BATCHPLAN_CHANGED_SINCE names, and what is not committed.
set -euo pipefail
product=(client kernels proto server)

# The source files, or units of several, that clang-tidy reads, by their compile commands.
units() {
  local folders
  folders=$(IFS='|'; echo "${product[*]}")
  sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$1/compile_commands.json" | sort -u |
    grep -E "^$PWD/($folders)/|^$(realpath "$1")/($folders)/.*[.]dir/Unity/" |
    grep -v 'link_check\|step_record'
}

# Of these, those that read a changed file. All if that can't be known.
changed_units() {
  local since=${BATCHPLAN_CHANGED_SINCE:-} head
  if [ -z "$since" ]; then
    head=$(git show -s --format=%ct HEAD) || { units "$1"; return; }
    since=$(git rev-list -1 --before=$((head - 86400)) HEAD)
  fi
  if [ -z "$since" ]; then units "$1"; return; fi
  { git diff --name-only "$since" --; git ls-files --others --exclude-standard; } |
    grep -E '[.](h|cc|cu|proto)$|^[.]clang-tidy$' >"$1/changed" || true
  if grep -qE '[.]proto$|^[.]clang-tidy$' "$1/changed"; then units "$1"; return; fi
  # What an object was made of, by ninja's own account: its first line is the object, the others are indented. Lists that
  # the compiler reads for a sanitizer may come before the source.
  units "$1" >"$1/units"
  ninja -C "$1" -t deps | awk -v root="$PWD/" -v build="$(realpath "$1")/" '
    FILENAME == ARGV[1] { changed[root $0] = 1; next }
    FILENAME == ARGV[2] { unit[$0] = 1; next }
    /^[^ ]/ { source = ""; next }
    /^ / {
      path = substr($0, 5)
      if (path !~ /^[/]/) path = build path
      while (sub(/[^/]+[/][.][.][/]/, "", path)) {}
      if (source == "" && (path in unit)) source = path
      if (source != "" && (path in changed) && !(source in shown)) { shown[source] = 1; print source }
    }' "$1/changed" "$1/units" -
}

case "${1:-}" in
  format)
    format=$(command -v clang-format-14 || command -v clang-format) ||
      { echo "$0: clang-format is missing; deploy/install_packages.sh test installs it" >&2; exit 1; }
    version=$("$format" --version)
    # Other versions break some lines elsewhere.
    if [[ $version != *"version 14."* ]]; then
      echo "format: SKIPPED: it is that of clang-format 14 (Debian 12), and here is only $version"
      exit
    fi
    find "${product[@]}" tests -regex '.*[.]\(h\|hpp\|cc\|cu\|cuh\)' | xargs "$format" --dry-run --Werror
    echo "format: clean"
    ;;
  tidy)
    build=${2:?usage: $0 tidy BUILD_FOLDER [all]}
    if [ "${3:-}" = all ]; then units "$build"; else changed_units "$build"; fi >"$build/tidy"
    echo "clang-tidy: $(wc -l <"$build/tidy") of $(units "$build" | wc -l) units"
    xargs -r -P "$(nproc)" -n 1 clang-tidy --quiet -p "$build" <"$build/tidy" \
      2> >(grep -v 'warnings generated\|^Suppressed\|^Use -' >&2)
    echo "clang-tidy: clean"
    ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
