#!/bin/sh
# Runs a command where the driver shows a GPU; elsewhere one line says that it was left out. Usage: where_a_gpu_is.sh COMMAND...
nvidia-smi -L > /dev/null 2>&1 && exec "$@"
echo "skipped: no CUDA device was found by nvidia-smi"
