#!/usr/bin/env bash
# Sets up, builds and passes the tests: what continuous integration runs.
#
#   tools/check.sh            format; release build: all tests but the slow ones; clang-tidy on what changed; fuzzers,
#                             30 s a reader
#   tools/check.sh --quick    format, release build and its fast tests only
#   tools/check.sh --slow     the slow tests too
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
tools/setup.sh
export PIPER_PYTHON="${PIPER_PYTHON:-$(tools/find_python.sh)}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
jobs="${PIPER_JOBS:-$(nproc)}"

# The tool of version 19, whose verdict differs from that of others.
version_19() {
  command -v "$1-19" && return
  [[ "$("$1" --version 2>/dev/null)" == *"version 19."* ]] && command -v "$1" && return
  echo "check: $1 19 is missing; tools/setup.sh installs it on Debian" >&2
  return 1
}

check_format() {
  local format
  git rev-parse --git-dir >/dev/null 2>&1 || return 0  # an archive of the sources
  format="$(version_19 clang-format)"
  git ls-files -z '*.cc' '*.h' '*.cu' | xargs -0 "$format" --dry-run -Werror
}

# clang-tidy on the sources that differ from the main branch, or, on that branch itself, from the commit before. In a
# clone that knows neither there is nothing to compare with.
tidy_changes() {
  local tidy base changed=() compiled=() most="${PIPER_TIDY_FILES:-24}"
  git rev-parse --git-dir >/dev/null 2>&1 || return 0
  base="$(git merge-base HEAD origin/main 2>/dev/null)" || base=""
  [ "$base" != "$(git rev-parse HEAD)" ] || base=""
  [ -n "$base" ] || base="$(git rev-parse --quiet --verify HEAD~1)" || return 0
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- {compiler,schemas,runtime,tools}/'*.cc' \
    ':!runtime/kernels' ':!tools/piper_torchscript')
  for file in "${changed[@]}"; do
    ! grep -qF "\"file\": \"$PWD/$file\"" build/release/compile_commands.json || compiled+=("$file")
  done
  [ ${#compiled[@]} -gt 0 ] || return 0
  tidy="$(version_19 clang-tidy)"
  echo "check: clang-tidy on ${#compiled[@]} changed files, $most at most"
  printf '%s\0' "${compiled[@]:0:$most}" | xargs -0 -n 1 -P "$jobs" "$tidy" -p build/release --quiet 2>&1 |
    { grep -v '^[0-9]* warnings\? generated' || true; }
}

# Each source by itself, also where tools/demo.sh has built before: so it must include what it uses.
build() {
  cmake --preset "$1" -DPIPER_QUICK_BUILD=OFF "${@:3}" >/dev/null
  cmake --build --preset "$1" -j "$jobs" ${2:+--target $2}
}

if [ "$mode" = --sanitize ]; then
  for preset in asan tsan; do
    build "$preset"
    ctest --test-dir "build/$preset" -L 'unit|golden' -LE 'e2e|slow' --output-on-failure --no-tests=error -j "$jobs"
  done
  exit
fi
if [ "$mode" = --cuda ]; then
  found="$(tools/setup_cuda.sh)" || {
    echo "check: skipped: what drives GPUs is not built without CUDA's compiler"
    exit
  }
  plans=()
  if nvidia-smi -L >/dev/null 2>&1; then
    build release "piperc"
    "$PIPER_PYTHON" tests/gpu/train_on_gpu.py --bin build/release/bin --strategies strategies --plans build/gpu_plans
    plans=(-DPIPER_GPU_PLANS="$PWD/build/gpu_plans")
  fi
  eval "$found"
  build cuda "gpu_tests" "${plans[@]}"
  ctest --test-dir build/cuda -L gpu --output-on-failure --no-tests=error
  exit
fi
check_format
build release "" -DPIPER_TORCHSCRIPT=ON -DPIPER_WARNINGS_AS_ERRORS=ON
if [ "$mode" != --quick ]; then
  tidy_changes
  build fuzz fuzzers
  ctest --test-dir build/fuzz -L fuzz --output-on-failure --no-tests=error -j "$jobs"
fi
# Last, so that its summary closes the run.
exclude=(-LE slow)
[ "$mode" = --slow ] && exclude=()
ctest --test-dir build/release --output-on-failure --no-tests=error -j "$jobs" "${exclude[@]}"
