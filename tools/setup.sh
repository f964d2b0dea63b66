#!/usr/bin/env bash
# Installs what piper needs on Debian 12: packages, and LibTorch where none is found.
# A second run finds everything in place and does nothing. Called by tools/demo.sh and tools/check.sh.
#
#   tools/setup.sh demo    what building the programs, exporting a model and training it need
#   tools/setup.sh check   all that the tests need as well: Catch2, clang, a browser, Slurm, transformers, TensorBoard (the default)
#   tools/setup.sh slow    and what the slow tests need: timm and x-transformers, whose models they train
#
#   PIPER_TORCH_DIR   directory of an existing LibTorch (holds include/ and lib/): used as it is
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' tools/setup.sh
  exit "$1"
}

[ $# -le 1 ] || { echo "setup: takes one argument, got: $*" >&2; usage 2 >&2; }
purpose="${1:-check}"
packages="build-essential ccache cmake libasio-dev libcli11-dev libcpp-httplib-dev libfmt-dev libmimalloc-dev libopenmpi-dev libprotozero-dev libssl-dev
 libucx-dev libxxhash-dev libyaml-cpp-dev ninja-build nlohmann-json3-dev openmpi-bin python3-venv zlib1g-dev"
python_packages="numpy onnx==1.23.2 onnxscript==0.7.2 safetensors"
python_modules="torch, numpy, onnx, onnxscript, safetensors"
suites=""
case "$purpose" in
  demo) ;;
  check|slow)
    packages="$packages catch2 chromium chromium-driver clang-14 clang-format-19 clang-tidy-19 iproute2 libclang-rt-14-dev munge slurm-client slurm-wlm time"
    python_packages="$python_packages perfetto==0.59.1 tensorboard==2.21.0 transformers==5.23.0"
    python_modules="$python_modules, perfetto, tensorboard, transformers"
    [ "$purpose" = check ] || suites="expecttest==0.3.0 timm==1.0.31 torchvision==0.28.0 x-transformers==2.31.10
 einops==0.8.2 einx==0.4.3 frozendict==2.5.1 loguru==0.7.3 torch-einops-utils==0.2.0" ;;
  -h|--help) usage 0 ;;
  *) echo "setup: unknown argument: $1" >&2; usage 2 >&2 ;;
esac

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

install_packages() {
  local missing=""
  if ! command -v dpkg-query >/dev/null; then
    for tool in cmake ninja g++ mpirun; do
      command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    [ -z "$missing" ] || fail "this is no Debian system and these tools are missing:$missing; install them, and the libraries that README.md lists"
    return
  fi
  for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  [ "$(id -u)" = 0 ] || fail "these packages are missing and only root can install them: apt-get install$missing"
  command -v apt-get >/dev/null || fail "these packages are missing and there is no apt-get:$missing"
  echo "setup: installing Debian packages:$missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || fail "no package index could be reached; missing:$missing"
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $missing >/dev/null || fail "apt-get could not install:$missing"
}

# Looks for the modules without importing them, which takes seconds.
has_modules() {
  "$1" -c 'import importlib.util, sys; sys.exit(any(importlib.util.find_spec(m) is None for m in sys.argv[1].split(", ")))' "$python_modules" 2>/dev/null
}

# The python with torch that tests and exports use: the project's own environment, or an active one that has all of it.
install_python() {
  if [ -x .venv/bin/python ] && has_modules .venv/bin/python; then return 0; fi
  if command -v python3 >/dev/null && has_modules python3; then return 0; fi
  command -v python3 >/dev/null || fail "python3 is missing"
  echo "setup: making .venv with torch==2.13.0 (about 200 MB as a CPU build; an index that only has CUDA builds sends gigabytes) and: $python_packages"
  [ -x .venv/bin/python ] || python3 -m venv .venv || fail "python3 cannot make a virtual environment; install python3-venv"
  .venv/bin/python -m pip install --quiet torch==2.13.0 || fail "pip could not install torch==2.13.0; set PIPER_TORCH_DIR to an existing LibTorch, or check the package index"
  # shellcheck disable=SC2086
  .venv/bin/python -m pip install --quiet $python_packages || fail "pip could not install: $python_packages"
}

# Into a folder of their own, without what they depend on: torch stays as it is, and transformers finds no torchvision.
install_suites() {
  local python folder
  python="$(tools/find_python.sh)" || fail "there is no python with torch"
  folder="$("$python" -c 'import sys; print(sys.prefix)')/suites"
  [ "$(cat "$folder/installed.txt" 2>/dev/null)" != "$suites" ] || return 0
  echo "setup: installing into $folder: $suites"
  # shellcheck disable=SC2086
  "$python" -m pip install --quiet --no-deps --upgrade --target "$folder" $suites || fail "pip could not install: $suites"
  echo "$suites" >"$folder/installed.txt"
}

install_packages
if [ -n "${PIPER_TORCH_DIR:-}" ]; then
  [ -e "$PIPER_TORCH_DIR/lib/libtorch_cpu.so" ] || fail "PIPER_TORCH_DIR=$PIPER_TORCH_DIR holds no lib/libtorch_cpu.so"
fi
install_python
[ -z "$suites" ] || install_suites
