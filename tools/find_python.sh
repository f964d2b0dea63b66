#!/usr/bin/env bash
# Prints the python that has torch, onnx and the rest of what tests and exports need.
cd "$(dirname "$0")/.." || exit 1
for candidate in .venv/bin/python python3; do
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import torch, onnx, safetensors' 2>/dev/null; then
    case "$candidate" in
      .venv/*) echo "$PWD/$candidate" ;;
      *) command -v "$candidate" ;;
    esac
    exit 0
  fi
done
echo "no python with torch, onnx and safetensors was found; run tools/setup.sh" >&2
exit 1
