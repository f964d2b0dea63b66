#!/bin/sh
# `piper-run --device cuda` with a plan for CPU ranks: one line and exit status 1, that there is no GPU, or, having opened
# libpiper_cuda.so where there is one, that the plan is not for it. Usage: program_test.sh PIPER_RUN WRITE_PLANS
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
"$2" pipeline "$dir/pipeline" || exit 1
"$1" "$dir/pipeline/plans" --data "$dir/pipeline/data.safetensors" --device cuda > "$dir/out" 2>&1
status=$?
cat "$dir/out"
[ $status = 1 ] && [ "$(wc -l < "$dir/out")" = 1 ] || exit 1
grep -qE 'R0106.*(there is no CUDA device|compiled for CPU ranks)' "$dir/out"
