#!/usr/bin/env bash
# Trains a small GPT, exported from PyTorch, pipeline x data parallel on four ranks of this machine.
#
#   tools/demo.sh                     on the sources of Python's standard library, for about a minute
#   tools/demo.sh --text FILE         on a text of your own
#   tools/demo.sh --steps N           a shorter or longer training (300 by default)
#
# Sets up and builds preset `release` the first time; everything it makes is in build/. PIPER_BIN names a folder
# with piperc, piper-run and piper-plan to use instead of building them; PIPER_PYTHON a python with torch and onnx.
set -euo pipefail
here="$PWD"
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,9s/^# \{0,1\}//p' tools/demo.sh
  exit "$1"
}

text="" steps=300
while [ $# -gt 0 ]; do
  case "$1" in
    --text) [ $# -ge 2 ] || usage 2 >&2; text="$(cd "$here" && realpath -- "$2")"; shift 2 ;;
    --steps) [ $# -ge 2 ] || usage 2 >&2; steps="$2"; shift 2 ;;
    -h|--help) usage 0 ;;
    *) echo "demo: unknown argument: $1" >&2; usage 2 >&2 ;;
  esac
done
[[ "$steps" =~ ^[1-9][0-9]*$ ]] || { echo "demo: --steps must be a whole number from 1 on, not '$steps'" >&2; exit 2; }
# Warm-up over the first steps, then a cosine down to a tenth of the rate at the last step.
warmup=$((steps < 100 ? steps / 5 : 20))

title() { printf '\n== %s\n' "$*"; }
# Prints a command as a user would type it, then runs it.
show() { printf '$ %s\n' "$*"; "$@"; }

if [ -z "${PIPER_BIN:-}" ]; then
  tools/setup.sh demo
  title "Build"
  [ -f build/release/build.ninja ] || cmake --preset release -DPIPER_QUICK_BUILD=ON -DPIPER_BUILD_TESTS=OFF >/dev/null
  cmake --build --preset release --target piperc piper-run piper-plan -j "${PIPER_JOBS:-$(nproc)}"
  PIPER_BIN=build/release/bin
fi
python="${PIPER_PYTHON:-$(tools/find_python.sh)}"
export PYTHONDONTWRITEBYTECODE=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
piperc="$PIPER_BIN/piperc" piper_run="$PIPER_BIN/piper-run" piper_plan="$PIPER_BIN/piper-plan"
out=build/demo
mkdir -p "$out"

title "The model, from PyTorch to a file"
if [ ! -f "$out/gpt.onnx" ] || [ -n "$(find tools/demo/model.py tools/piper_export*.py -newer "$out/gpt.onnx")" ]; then
  show "$python" tools/piper_export.py tools/demo/model.py:make_model -o "$out/gpt.onnx" 2>"$out/export.log" ||
    { cat "$out/export.log" >&2; exit 1; }
else
  echo "$out/gpt.onnx is there already"
fi
"$python" tools/demo/prepare_text.py -o "$out/corpus.txt" ${text:+--text "$text"}

title "Compile: model + strategy -> one plan per rank"
show "$piperc" "$out/gpt.onnx" --strategy tools/demo/demo.yaml -o "$out/plans" \
  --set "run.steps=$steps" --set "lr_schedule.warmup=$warmup" --set "lr_schedule.cosine.until=$steps"
show "$piper_plan" show "$out/plans"

title "Train on four ranks in one process"
show "$piper_run" "$out/plans" --data "$out/corpus.txt" --log "$out/local.jsonl" --save "$out/weights.safetensors"
"$python" tools/demo/judge.py learned "$out/corpus.txt" "$out/local.jsonl"

title "Load the weights by name in PyTorch and write text"
show "$python" tools/demo/sample.py "$out/weights.safetensors"

title "The same bundle, a few steps under mpirun"
if command -v mpirun >/dev/null; then
  few=$((steps < 5 ? steps : 5))
  show mpirun --oversubscribe -n 4 "$piper_run" "$out/plans" --data "$out/corpus.txt" --steps "$few" --log "$out/mpi.jsonl"
  "$python" tools/demo/judge.py same "$out/local.jsonl" "$out/mpi.jsonl"
else
  echo "no mpirun was found: left out"
fi
