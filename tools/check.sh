#!/usr/bin/env bash
# Sets up, builds and passes the tests: what continuous integration runs.
#
#   tools/check.sh            release build: all tests but the slow ones; fuzzers, 30 s a reader
#   tools/check.sh --quick    release build and its fast tests only
#   tools/check.sh --slow     the slow tests too
#   tools/check.sh --sanitize fast tests under AddressSanitizer + UndefinedBehaviorSanitizer, then ThreadSanitizer
set -euo pipefail
cd "$(dirname "$0")/.."
mode="${1:-}"
tools/setup.sh
export PIPER_PYTHON="${PIPER_PYTHON:-$(tools/find_python.sh)}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
jobs="${PIPER_JOBS:-$(nproc)}"

build() {
  cmake --preset "$1" "${@:3}" >/dev/null
  cmake --build --preset "$1" -j "$jobs" ${2:+--target $2}
}

if [ "$mode" = --sanitize ]; then
  for preset in asan tsan; do
    build "$preset"
    ctest --test-dir "build/$preset" -L 'unit|golden' -LE 'e2e|slow' --output-on-failure --no-tests=error -j "$jobs"
  done
  exit
fi
build release "" -DPIPER_TORCHSCRIPT=ON
if [ "$mode" != --quick ]; then
  build fuzz fuzzers
  ctest --test-dir build/fuzz -L fuzz --output-on-failure --no-tests=error -j "$jobs"
fi
# Last, so that its summary closes the run.
exclude=(-LE slow)
[ "$mode" = --slow ] && exclude=()
ctest --test-dir build/release --output-on-failure --no-tests=error -j "$jobs" "${exclude[@]}"
