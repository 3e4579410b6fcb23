#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test through ctest.
#
#   tests/run.sh [--preset release|debug|asan|tsan|clang] [--only SUITE] [--full]
#   tests/run.sh --fuzz [SECONDS [plan_batch|rpc]]
#   tests/run.sh --cluster
#   tests/run.sh --python
#   tests/run.sh --trainers
#   tests/run.sh --gpu
#
#   --preset   the build to test; release by default. All of it: the format is checked first. asan, which clang
#              builds, has clang-tidy read what has changed. asan and tsan try a quarter of the
#              random cases. Each preset tries cases of its own.
#   --only     one suite, named like the folder it mirrors (planner, checker, proto, ...), or several,
#              separated by commas.
#   --full     twenty times as many random cases, and with asan clang-tidy reads everything: the tier for
#              before a release.
#   --fuzz     instead, random bytes as requests, to the planner and then to every RPC of a server, or
#              to one of the two, for so many seconds each; 60 by default. In the build of asan.
#   --cluster  instead, the images of deploy/ built, and compose.yaml brought up under podman, which
#              is installed if it is missing: as root.
#   --python   instead, the Python package, built and installed into build/python: its tests, notebooks and
#              types; and the site of the documents. Exits with 77 where tests/requirements.txt, or for the
#              site deploy/site/requirements.txt, can't be installed.
#   --trainers instead, the same package with the trainers it is for, installed from PyPI into
#              build/trainers: its integrations in training runs of two processes. Exits with 77
#              where they can't be installed; with PyTorch's libraries they take 6 GB. With --full it also
#              times steps by batchplan's plans and by those of the trainers, in some twenty minutes more.
#   --gpu      instead, kernels/ alone on a GPU, in less than ten minutes: benchmarks if there is PyTorch,
#              its tests, then those on the device under the tools of compute-sanitizer. Needs no
#              gRPC, and installs nothing if CMake and a compiler are there. Everything is also in
#              build/gpu/report, as it comes. BATCHPLAN_GOOGLETEST_SOURCE may name a source tree of
#              GoogleTest, and BATCHPLAN_PYTHON_SITE a folder with the Python package, as
#              `pip install --target` leaves it: its tests of tensors run too, and train_speedup.py.
#
# The closing lines are ctest's, with the seconds of each suite. Minutes a lane: tests/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
only=
full=
fuzz=
fuzzers=(plan_batch rpc)
gpu=
cluster=
python=
trainers=
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?--preset needs a name}; shift 2 ;;
    --preset=*) preset=${1#*=}; shift ;;
    --only) only=${2:?--only needs a suite}; shift 2 ;;
    --only=*) only=${1#*=}; shift ;;
    --full) full=1; shift ;;
    --fuzz)
      fuzz=60; shift
      if [[ ${1:-} =~ ^[0-9]+$ ]]; then fuzz=$1; shift; fi
      if [[ ${1:-} =~ ^(plan_batch|rpc)$ ]]; then fuzzers=("$1"); shift; fi ;;
    --cluster) cluster=1; shift ;;
    --python) python=1; shift ;;
    --trainers) trainers=1; shift ;;
    --gpu) gpu=1; shift ;;
    -h | --help) sed -n '2,35s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "$0: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
done

fail() {
  echo "$0: $*" >&2
  exit 1
}

# The path of a program of the CUDA toolkit, which PATH need not lead to.
cuda_program() {
  local folder
  command -v "$1" && return
  for folder in "${CUDA_PATH:-/usr/local/cuda}" /usr/local/cuda; do
    if [ -x "$folder/bin/$1" ]; then echo "$folder/bin/$1"; return; fi
  done
  return 1
}

# Runs a command of --gpu, for so many seconds at most, its output also in the report.
gpu_step() {
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  echo "== $name"
  if timeout "$limit" "$@" 2>&1 | tee "$gpu_report/$name.txt"; then
    echo "== $name: $((SECONDS - begin)) s"
  else
    echo "== $name: FAILED after $((SECONDS - begin)) s"
    gpu_failed+=("$name")
  fi
}

test_on_gpu() {
  local build=build/gpu on_device='*/cuda:CopyTest.Cuda*:GraphTest.*:MoveAgreementTest.*' nvcc sanitizer tool program name
  gpu_report=$build/report
  gpu_failed=()
  nvcc=${CUDACXX:-$(cuda_program nvcc)} ||
    fail "--gpu needs nvcc of the CUDA toolkit; it is neither in PATH nor in /usr/local/cuda/bin"
  mkdir -p "$gpu_report"
  echo 'int main() { int count = 0; return cudaGetDeviceCount(&count) != cudaSuccess || count == 0; }' \
    >"$build/has_device.cu"
  "$nvcc" -o "$build/has_device" "$build/has_device.cu"
  "$build/has_device" || fail "--gpu needs a CUDA device, and a driver as new as the toolkit; none was found"

  if ! command -v cmake >/dev/null || ! command -v c++ >/dev/null; then deploy/install_packages.sh test; fi
  # A compiler that is newer than the project may warn of more.
  CUDACXX=$nvcc cmake -S kernels -B "$build" -DCMAKE_BUILD_TYPE=Release -DBATCHPLAN_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES=native -DBUILD_SHARED_LIBS=ON \
    -DBATCHPLAN_KERNELS_TESTS=ON -DBATCHPLAN_KERNELS_INTERPRETED=OFF -DBATCHPLAN_KERNELS_WERROR=OFF \
    ${BATCHPLAN_GOOGLETEST_SOURCE:+"-DBATCHPLAN_GOOGLETEST_SOURCE=$BATCHPLAN_GOOGLETEST_SOURCE"}
  cmake --build "$build" --parallel "$jobs"

  if python3 -c 'import torch' 2>/dev/null; then
    gpu_step pack_bench 120 python3 tests/bench/gpu/pack_bench.py --library "$build/libbatchplan_kernels.so"
  fi
  # One at a time has the device to itself.
  for program in "$build"/tests/kernels_*_test; do
    name=$(basename "$program")
    gpu_step "$name" 120 "$program" --gtest_brief=1
  done
  if [ -n "${BATCHPLAN_PYTHON_SITE:-}" ]; then
    export PYTHONPATH=$BATCHPLAN_PYTHON_SITE${PYTHONPATH:+:$PYTHONPATH}
    gpu_step python 120 python3 -m pytest --quiet --noconftest -p no:cacheprovider \
      tests/client/python/torch_{backend,groups,moves,refusals,training,verdict}_test.py
    gpu_step train_speedup 150 python3 client/python/examples/train_speedup.py --sequences 128 --batches 1 --runs 2
  fi

  sanitizer=$(cuda_program compute-sanitizer) ||
    fail "--gpu needs compute-sanitizer of the CUDA toolkit too; it is neither in PATH nor in /usr/local/cuda/bin"
  for program in "$build"/tests/kernels_{graph,layout,microbatches,move,reduce}_test; do
    name=$(basename "$program")
    for tool in memcheck initcheck racecheck; do
      # Shared memory is what racecheck looks at.
      if [ "$tool" = racecheck ] && [[ $name = *_@(microbatches|move)_test ]]; then continue; fi
      gpu_step "$name.$tool" 120 env BATCHPLAN_TEST_SCALE=0.2 "$sanitizer" --tool "$tool" --error-exitcode 1 \
        "$program" --gtest_brief=1 --gtest_filter="$on_device"
    done
  done
  [ ${#gpu_failed[@]} -eq 0 ] || fail "failed: ${gpu_failed[*]}; see $gpu_report"
  echo "The kernels pass on the device, and under memcheck, initcheck and racecheck."
}

no_python_packages=
jobs=$(nproc)
if [ -n "$gpu" ]; then
  test_on_gpu
  exit
fi
# What tests in Python import, beside Debian's torch. Whether this fails is asked below, and there bash goes on after a
# command that fails: these are joined.
install_python_packages() {
  /usr/bin/python3 -m venv --system-site-packages build/python &&
    build/python/bin/pip install --quiet --disable-pip-version-check --requirement tests/requirements.txt
}

# Trainers ask for versions of each other's packages that do not go together; verl runs with those here. Joined for
# the same reason.
install_trainers() {
  /usr/bin/python3 -m venv build/trainers &&
    build/trainers/bin/pip install --quiet --disable-pip-version-check \
      --requirement tests/client/trainers/requirements.txt &&
    build/trainers/bin/pip install --quiet --disable-pip-version-check --no-deps \
      --requirement tests/client/trainers/requirements-no-deps.txt
}

# The wheel is of the same Python, and is built where --python builds it.
test_trainers() {
  rm -rf build/wheels
  build/python/bin/pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
    --config-settings=build-dir="$PWD/build/wheel" --wheel-dir build/wheels ./client/python
  build/trainers/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/wheels/*.whl
  build/trainers/bin/python3 -m pytest tests/client/trainers
  if [ -n "$full" ]; then
    # The stopwatch: figures to read before a release, on which no test depends.
    build/trainers/bin/python3 client/python/examples/train_speedup.py --small
    build/trainers/bin/torchrun --nproc-per-node 2 client/python/examples/trl_grpo.py
  fi
}

test_python_package() {
  build/python/bin/pip install --quiet --disable-pip-version-check --no-build-isolation \
    --config-settings=build-dir="$PWD/build/wheel" ./client/python
  build/python/bin/python3 -m pytest tests/client/python
  (cd client/python && ../../build/python/bin/mypy)
  deploy/site/build.sh
}

if [ -n "$cluster" ]; then
  deploy/install_packages.sh cluster
  install_python_packages
  PATH=$PWD/build/python/bin:$PATH tests/deploy/cluster_test.py --project .
  exit
fi
deploy/install_packages.sh test
if [ -n "$python" ]; then
  if ! install_python_packages; then
    echo "$0: SKIPPED: tests/requirements.txt could not be installed" >&2
    exit 77
  fi
  test_python_package
  exit
fi
if [ -n "$trainers" ]; then
  if ! install_python_packages || ! install_trainers; then
    echo "$0: SKIPPED: tests/requirements.txt and tests/client/trainers/requirements*.txt could not be installed" >&2
    exit 77
  fi
  test_trainers
  exit
fi
if command -v ccache >/dev/null; then
  # Every clone of the project finds what another one has compiled; the rest is what precompiled headers need.
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros
fi
# Links the many test programs in a third of the time. Not those of ThreadSanitizer: what its
# suppressions know of Debian's gRPC is hidden from it in a program that mold has linked.
if [ "$preset" != tsan ] && command -v mold >/dev/null; then export LDFLAGS=${LDFLAGS:--fuse-ld=mold}; fi

if [ -n "$fuzz" ]; then
  cmake --preset asan -DBATCHPLAN_TESTS=ON >/dev/null
  cmake --build --preset asan --parallel "$jobs" --target write_corpus "${fuzzers[@]/%/_fuzzer}"
  for fuzzer in "${fuzzers[@]}"; do
    folder=build/fuzz/$fuzzer
    mkdir -p "$folder/corpus"
    build/asan/bin/write_corpus "$fuzzer" "$folder/seeds" 2000
    # A plan of a small request takes some dozen MiB; a server has many threads.
    memory=(-rss_limit_mb=4096)
    if [ "$fuzzer" = plan_batch ]; then memory=(-rss_limit_mb=2048 -malloc_limit_mb=256); fi
    "build/asan/bin/${fuzzer}_fuzzer" -max_total_time="$fuzz" -timeout=120 "${memory[@]}" \
      -max_len=8192 -print_final_stats=1 -artifact_prefix="$folder/" "$folder/corpus" "$folder/seeds"
  done
  exit
fi

if [ -z "$only" ]; then tests/check_style.sh format; fi
if [ -z "$only" ] || [[ ,$only, = *,deploy,* ]]; then
  install_python_packages || no_python_packages=1
fi
benchmarks=OFF
if [ "$preset" = release ]; then benchmarks=ON; fi
cmake --preset "$preset" -DBATCHPLAN_TESTS=ON -DBATCHPLAN_BENCHMARKS="$benchmarks" >/dev/null
targets=()
for suite in ${only//,/ }; do targets+=("${suite}_tests"); done
cmake --build --preset "$preset" --parallel "$jobs" ${only:+--target "${targets[@]}"}
if [ "$preset" = asan ] && [ -z "$only" ]; then
  tests/check_style.sh tidy build/asan ${full:+all}
fi

export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export LSAN_OPTIONS=suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:history_size=7:ignore_noninstrumented_modules=1:suppressions=$PWD/tests/support/tsan.supp
scale=1
if [ "$preset" = asan ] || [ "$preset" = tsan ]; then scale=0.25; fi
export BATCHPLAN_TEST_SCALE=${full:+20}
export BATCHPLAN_TEST_SCALE=${BATCHPLAN_TEST_SCALE:-$scale}
case "$preset" in
  asan) export BATCHPLAN_TEST_SEED=1 ;;
  tsan) export BATCHPLAN_TEST_SEED=2 ;;
  debug) export BATCHPLAN_TEST_SEED=3 ;;
  clang) export BATCHPLAN_TEST_SEED=4 ;;
esac
ctest --test-dir "build/$preset" --parallel "$jobs" --output-on-failure --no-tests=error \
  ${only:+--label-regex "^(${only//,/|})\$"}
if [ -n "$no_python_packages" ]; then
  echo "$0: SKIPPED what needs tests/requirements.txt, which could not be installed: deploy.kubernetes, deploy.chart, deploy.plans_page" >&2
fi
