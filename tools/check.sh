#!/usr/bin/env bash
# Sets up, builds and passes the tests: what continuous integration runs.
#
#   tools/check.sh            format; the build of tools/demo.sh and the tests beside it; lint of what changed; fuzzers, 30 s a
#                             reader; all tests but the slow ones; where the time went
#   tools/check.sh --quick    format, build, and the tests that a change since their last success can have broken
#   tools/check.sh --slow     what users get, preset `release` with -O3 and each source by itself, passes the slow tests, too
#   tools/check.sh --cuda     what drives GPUs, by CUDA's compiler and against LibTorch's build for CUDA (tools/setup_cuda.sh says
#                             where they come from); its tests, which without a GPU say that there is none
#   tools/check.sh --sanitize fast tests under AddressSanitizer + UndefinedBehaviorSanitizer, then ThreadSanitizer
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' tools/check.sh
  exit "$1"
}

mode="${1:-}"
[ $# -le 1 ] || { echo "check: takes one argument, got: $*" >&2; usage 2 >&2; }
case "$mode" in
  ""|--quick|--slow|--cuda|--sanitize) ;;
  -h|--help) usage 0 ;;
  *) echo "check: unknown argument: $mode" >&2; usage 2 >&2 ;;
esac
phases="$(mktemp)"
trap 'rm -f "$phases"' EXIT

# phase NAME COMMAND...: runs the command, notes its seconds and returns its status. Commands are joined by && in what it runs:
# `set -e` does not hold there.
phase() {
  local name="$1" begin=$SECONDS status=0
  shift
  "$@" || status=$?
  echo "$name $((SECONDS - begin))" >>"$phases"
  return "$status"
}

# A full disk ends builds and tests with errors that name anything but the disk. Built, the check takes 6 GB, --slow more.
room=$(($(df -Pk . | awk 'NR == 2 { print $4 }') / 1000000))
needed=8
[ "$mode" != --slow ] || needed=16
if [ "$room" -lt "$needed" ]; then
  echo "check: $room GB are free where $PWD is, and the check needs $needed GB: make room first" >&2
  exit 1
fi

purpose=check
[ "$mode" != --slow ] || purpose=slow
phase set-up tools/setup.sh "$purpose"
export PIPER_PYTHON="${PIPER_PYTHON:-$(tools/find_python.sh)}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
jobs="${PIPER_JOBS:-$(nproc)}"
# For all checkouts, as ccache's objects are: models that tests export (tests/e2e/exports.py) and what lint read (tools/check/lint.py), each
# by the digest of all that it depends on.
kept="${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/piper"
export PIPER_TEST_EXPORTS="${PIPER_TEST_EXPORTS:-$kept/test-exports}"

# The tool of version 19, whose verdict differs from that of others.
clang_format_19() {
  command -v clang-format-19 && return
  [[ "$(clang-format --version 2>/dev/null)" == *"version 19."* ]] && command -v clang-format && return
  echo "check: clang-format 19 is missing; tools/setup.sh installs it on Debian" >&2
  return 1
}

check_format() {
  local format
  git rev-parse --git-dir >/dev/null 2>&1 || return 0  # an archive of the sources
  format="$(clang_format_19)" || return
  git ls-files -z '*.cc' '*.h' '*.cu' | xargs -0 "$format" --dry-run -Werror
}

# build PRESET TARGETS OPTIONS...
build() {
  cmake --preset "$1" "${@:3}" >/dev/null &&
    cmake --build --preset "$1" -j "$jobs" ${2:+--target $2}
}

# ctest on a build folder, more tests at a time than processors: several wait most of the time. Its JUnit file has all results, also where
# tests fail.
run_tests() {
  local folder="$1"
  shift
  rm -f "$folder/tests.xml"
  ctest --test-dir "$folder" --output-on-failure --no-tests=error -j $((jobs + (jobs + 1) / 2)) --output-junit "$PWD/$folder/tests.xml" "$@"
}

fuzz() {
  build fuzz fuzzers -DPIPER_QUICK_BUILD=ON &&
    ctest --test-dir build/fuzz -L fuzz --output-on-failure --no-tests=error -j "$jobs"
}

if [ "$mode" = --sanitize ]; then
  ulimit -s 65536  # what a recursion has on its stack is several times larger here
  for preset in asan tsan; do
    phase "$preset-build" build "$preset" "" -DPIPER_QUICK_BUILD=ON
    phase "$preset-tests" run_tests "build/$preset" -L 'unit|golden' -LE 'e2e|slow'
  done
  cat "$phases"
  exit
fi
if [ "$mode" = --cuda ]; then
  found="$(tools/setup_cuda.sh)" || {
    echo "check: skipped: what drives GPUs is not built without CUDA's compiler"
    exit
  }
  plans=()
  if nvidia-smi -L >/dev/null 2>&1; then
    build release "piperc" -DPIPER_QUICK_BUILD=ON
    "$PIPER_PYTHON" tests/gpu/train_on_gpu.py --bin build/release/bin --strategies strategies --plans build/gpu_plans
    plans=(-DPIPER_GPU_PLANS="$PWD/build/gpu_plans")
  fi
  eval "$found"
  build cuda "gpu_tests" "${plans[@]}"
  ctest --test-dir build/cuda -L gpu --output-on-failure --no-tests=error
  exit
fi

phase format check_format
# The demo's build, whose objects it finds; --slow: each source by itself, as users build.
quick=ON
[ "$mode" != --slow ] || quick=OFF
phase build build release "" -DPIPER_QUICK_BUILD=$quick -DPIPER_BUILD_TESTS=ON -DPIPER_TORCHSCRIPT=ON
if [ "$mode" = --quick ]; then
  tools/check/affected.py select --build build/release
  if [ -s build/release/affected.txt ]; then
    status=0
    phase tests run_tests build/release -I "$PWD/build/release/affected.txt" || status=$?
    tools/check/affected.py record --build build/release
    [ "$status" = 0 ] || exit "$status"
  fi
  cat "$phases"
  exit
fi
all=()
[ "$mode" != --slow ] || all=(--all)
phase lint "$PIPER_PYTHON" tools/check/lint.py --jobs "$jobs" --passed "$kept/lint" "${all[@]}"
phase fuzzers fuzz
calibration="$(tools/check/report.py --calibrate)"
exclude=(-LE slow)
[ "$mode" != --slow ] || exclude=()
rm -f build/release/test_times.txt
status=0
phase tests run_tests build/release "${exclude[@]}" || status=$?
tools/check/affected.py record --build build/release
# Last, so that its summary closes the run. The budget is that of the fast tests.
[ "$mode" != --slow ] || calibration=0
tools/check/report.py --phases "$phases" --build build/release --calibration "$calibration" || [ "$status" != 0 ] || status=1
exit "$status"
