#!/usr/bin/env bash
# Prints, for `eval`, where CUDA's compiler, NCCL and LibTorch's build for CUDA are. What this machine does not have is taken
# from the index of Python packages, as files under build/cuda_packages; a second run finds them there. Called by
# tools/check.sh --cuda.
#
#   PIPER_CUDA_DIR    CUDA's toolkit, else CUDA_HOME, that of the nvcc in PATH or which it calls, /usr/local/cuda
#   PIPER_NCCL_DIR    NCCL, else that of the system or of the active python3
#   PIPER_TORCH_DIR   LibTorch, else that of .venv or of the active python3 where it is built for CUDA
#   PIPER_CUDA_FROM   packages: look for none of these and take the packages; machine: take no packages
#
# Exit status 1, and a line on standard error: CUDA's compiler cannot be had. Without NCCL, or without a LibTorch for CUDA, a
# line says what is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' tools/setup_cuda.sh
  exit "$1"
}

# Standard output is for `eval`, so that the usage goes to standard error.
case "${1:-}" in
  "") ;;
  -h|--help) usage 0 >&2 ;;
  *) echo "setup_cuda: takes no argument, got: $*" >&2; usage 2 >&2 ;;
esac

packages="$PWD/build/cuda_packages"
from="${PIPER_CUDA_FROM:-either}"
python="${PIPER_PYTHON:-$(tools/find_python.sh 2>/dev/null || command -v python3)}"

say() { printf 'setup_cuda: %s\n' "$*" >&2; }

# fetch WHAT FOLDER PACKAGE...: into a folder of their own, without what they depend on. (pip replaces the folder `nvidia`
# that packages share where they are installed one after the other.)
fetch() {
  local what="$1" folder="$2"
  shift 2
  [ "$from" != machine ] || return 1
  say "$what: from the index of Python packages: $*"
  rm -rf "${packages:?}/$folder"
  timeout "${PIPER_DOWNLOAD_S:-300}" "$python" -m pip install --quiet --no-deps --no-cache-dir --disable-pip-version-check --upgrade \
    --target "$packages/$folder" "$@" 2>&1 | { grep -v "^WARNING: Location" || true; } >&2 || {
    say "$what: the index does not have it, or cannot be reached"
    return 1
  }
}

module_folder() { # python, module
  "$1" -c "import importlib.util as u; s = u.find_spec('$2'); print(s.submodule_search_locations[0] if s else '')" 2>/dev/null || true
}

toolkit() {
  local in_path place says=""
  in_path="$(command -v nvcc || true)"
  if [ "$from" != packages ]; then
    # A script in PATH that calls the compiler elsewhere: it says where.
    [ -z "$in_path" ] || says="$(nvcc --dryrun -E -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p' | head -1 || true)"
    for place in "${PIPER_CUDA_DIR:-}" "${CUDA_HOME:-}" "${in_path:+$(dirname "$(dirname "$in_path")")}" "$says" /usr/local/cuda; do
      [ -n "$place" ] && [ -e "$place/include/cuda_runtime_api.h" ] && [ -x "$place/bin/nvcc" ] && realpath "$place" && return
    done
  fi
  place="$packages/cuda/nvidia/cu13"
  [ -x "$place/bin/nvcc" ] || fetch "CUDA's compiler" cuda "nvidia-cuda-nvcc==13.0.*" "nvidia-cuda-crt==13.0.*" \
    "nvidia-cuda-runtime==13.0.*" "nvidia-nvvm==13.0.*" "nvidia-cuda-cccl==13.0.*" "nvidia-cuda-cupti==13.0.*" || return 1
  echo "$place"
}

nccl() {
  local place
  if [ "$from" != packages ]; then
    for place in "${PIPER_NCCL_DIR:-}" /usr /usr/local "$(module_folder "$python" nvidia.nccl)" "$(module_folder python3 nvidia.nccl)"; do
      [ -n "$place" ] && [ -e "$place/include/nccl.h" ] && echo "$place" && return
    done
  fi
  place="$packages/nccl/nvidia/nccl"
  [ -e "$place/include/nccl.h" ] || fetch NCCL nccl "nvidia-nccl-cu13==2.28.9" || return 1
  echo "$place"
}

torch() {
  local place
  if [ "$from" != packages ]; then
    for place in "${PIPER_TORCH_DIR:-}" "$(module_folder "$python" torch)" "$(module_folder python3 torch)"; do
      [ -n "$place" ] && [ -e "$place/lib/libtorch_cuda.so" ] && echo "$place" && return
    done
  fi
  place="$packages/torch/torch"
  [ -e "$place/lib/libtorch_cuda.so" ] || fetch "LibTorch for CUDA (530 MB)" torch "torch==2.11.0" || return 1
  [ -e "$place/lib/libtorch_cuda.so" ] || {
    say "LibTorch for CUDA: the index has torch 2.11.0 only for the CPU"
    return 1
  }
  echo "$place"
}

cuda="$(toolkit)" || {
  say "there is no CUDA compiler: none in PIPER_CUDA_DIR, CUDA_HOME, PATH or /usr/local/cuda, and no packages"
  exit 1
}
printf 'export PIPER_CUDA_DIR=%q\n' "$cuda"
if place="$(nccl)"; then printf 'export PIPER_NCCL_DIR=%q\n' "$place"; else say "no NCCL: ranks on GPUs are those of one process"; fi
if place="$(torch)"; then
  printf 'export PIPER_TORCH_DIR=%q\n' "$place"
else
  say "no LibTorch for CUDA: its operators on GPUs are left out"
fi
