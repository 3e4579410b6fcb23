#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test through ctest.
#
#   tests/run.sh [--preset release|debug|asan|tsan|clang] [--only SUITE] [--full]
#   tests/run.sh --fuzz [SECONDS]
#
#   --preset   the build to test; release by default. release also checks format and clang-tidy.
#   --only     one suite, named like the folder it mirrors: planner, checker, proto, ...
#   --full     twenty times as many random cases: the tier for before a release.
#   --fuzz     instead, random bytes as requests, for so many seconds; 60 by default.
#
# The closing lines are ctest's, with the seconds of each suite. Minutes a suite: tests/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
only=
full=
fuzz=
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?--preset needs a name}; shift 2 ;;
    --preset=*) preset=${1#*=}; shift ;;
    --only) only=${2:?--only needs a suite}; shift 2 ;;
    --only=*) only=${1#*=}; shift ;;
    --full) full=1; shift ;;
    --fuzz)
      fuzz=60; shift
      if [[ ${1:-} =~ ^[0-9]+$ ]]; then fuzz=$1; shift; fi ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "$0: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
done

jobs=$(nproc)
deploy/install_packages.sh test
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi

if [ -n "$fuzz" ]; then
  cmake --preset fuzz -DBATCHPLAN_TESTS=ON >/dev/null
  cmake --build --preset fuzz --parallel "$jobs"
  build/fuzz/bin/write_corpus build/fuzz/seeds 2000
  mkdir -p build/fuzz/corpus
  exec build/fuzz/bin/plan_batch_fuzzer -max_total_time="$fuzz" -timeout=120 -rss_limit_mb=4096 \
    -max_len=8192 -print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/corpus build/fuzz/seeds
fi

cmake --preset "$preset" -DBATCHPLAN_TESTS=ON -DBATCHPLAN_BENCHMARKS=ON >/dev/null
cmake --build --preset "$preset" --parallel "$jobs" ${only:+--target "${only}_tests"}

if [ "$preset" = release ] && [ -z "$only" ]; then
  tests/check_style.sh build/release
fi

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1:suppressions=$PWD/tests/support/tsan.supp
export BATCHPLAN_TEST_SCALE=${full:+20}
ctest --test-dir "build/$preset" --parallel "$jobs" --output-on-failure --no-tests=error \
  ${only:+--label-regex "^$only\$"}
