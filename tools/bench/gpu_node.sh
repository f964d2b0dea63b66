#!/usr/bin/env bash
# All that is asked of a machine with GPUs, as one archive and one command a stage. The machine needs a python3 with torch built for
# CUDA and NCCL's package, and, for what was not built before, CUDA's compiler, CMake, ninja and g++; nothing is downloaded there.
#
#   tools/bench/gpu_node.sh pack [--prebuilt] [-o FILE]
#       here: sources, plans compiled for GPUs, and the libraries that the runtime is built from, as one archive
#       (build/piper-node.tar.gz). --prebuilt: with piper-run, libpiper_cuda.so and the tests of tests/gpu, built here by CUDA's
#       compiler for one architecture (90a: H100, H200). Archive and sources together are at most 60 MiB.
#   tools/bench/gpu_node.sh run [STAGE ...] [--out DIR]
#       there, in the unpacked archive: the stages in turn (default: all four); what they say goes to DIR (node-results) as it comes
#         smoke   devices, the first step times, two plans of several ranks, kernels; beside them everything is built once more there
#         bench   step times, MFU and memory against PyTorch; the time of each kernel call
#         check   all plans; memory errors and races by compute-sanitizer
#         nccl    every call of NCCL on one GPU; several GPUs where there are some
#
# A stage ends within PIPER_STAGE_S seconds (530), each of its steps within its own limit: what hangs is ended, what there is no time
# for is left out and said. A step that failed keeps none from running; the exit status says so.
#
#   PIPER_BIN              piperc's folder, for `pack` (build/release/bin)
#   PIPER_PYTHON           python with torch
#   PIPER_GPU_CASES        for `pack`: cases of against_torch.py that GPUs run
#   PIPER_NODE_PLANS       for `pack`: plans of train_on_gpu.py (all)
#   PIPER_NODE_PREBUILT    for `pack --prebuilt`: a folder of programs that are taken instead of built
#   PIPER_ARCHITECTURES    for `pack --prebuilt` and the build there: what kernels are compiled for (90a)
#   PIPER_NODE_STANDIN=1   for `run`: the programs are those of the stand-ins (tests/e2e/gpu_node_rehearsal.py), PyTorch is on the CPU
#
# Without a GPU `run` does the same as far as that goes: tests of the host's side, and the benchmark of a small model on the CPU.
set -euo pipefail
cd "$(dirname "$0")/../.."
most_bytes=$((60 << 20))
gpu_cases="gpt2:32:bf16 qwen3_1b:4:bf16 gpt2:32:bf16:dp2 gpt2:32:bf16:zero3_2 gpt2_untied:32:bf16:pp2_1f1b"
small_case="tied:4:f32"
stages="smoke bench check nccl"
programs="piper-run libpiper_cuda.so gpu_device_test gpu_kernels_test gpu_nccl_test write_plans"

fail() {
  printf 'gpu_node: %s\n' "$*" >&2
  exit 1
}
usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' tools/bench/gpu_node.sh
  exit "$1"
}

# The file that is included under a name.
included() {
  printf '#include <%s>\n' "$1" | "${CXX:-c++}" -x c++ -M - 2>/dev/null | tr -s ' \\' '\n' | awk -v name="/$1" \
    'substr($0, length($0) - length(name) + 1) == name && !found { found = $0 } END { if (found == "") exit 1; print found }'
}

# What runtime/ and its tests are built from beside LibTorch, CUDA and NCCL, as a prefix that CMake finds packages in.
carry_libraries() {
  local to="$1" header file crypto package
  mkdir -p "$to/include/openssl" "$to/lib"
  for header in nlohmann/json.hpp CLI/CLI.hpp catch2/catch.hpp openssl/evp.h protozero/pbf_builder.hpp; do
    file="$(included "$header")" || fail "there is no $header here"
    cp -rL "$(dirname "$file")" "$to/include"
  done
  file="$(included xxhash.h)" || fail "there is no xxhash.h here"
  cp -L "$file" "$to/include"
  for header in openssl/configuration.h openssl/opensslconf.h; do    # Debian has them in another folder
    file="$(included "$header")" || fail "there is no $header here"
    cp -L "$file" "$to/include/openssl"
  done
  crypto="$("${CXX:-c++}" -print-file-name=libcrypto.a)"
  [ -e "$crypto" ] || fail "there is no libcrypto.a here, which carries OpenSSL's SHA-256"
  cp -L "$crypto" "$to/lib"
  for package in CLI11 nlohmann_json; do
    mkdir -p "$to/share/cmake/$package"
    printf 'add_library(%s INTERFACE IMPORTED)\nset_target_properties(%s PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "%s")\n' \
      "$package::$package" "$package::$package" "\${CMAKE_CURRENT_LIST_DIR}/../../../include" >"$to/share/cmake/$package/${package}Config.cmake"
  done
}

# The newest symbols that a program wants of libraries, against those of Ubuntu 24.04 (glibc 2.39, libstdc++ of GCC 14).
check_symbols() { # folder
  local file limit name newest
  for file in "$1"/*; do
    for limit in GLIBC_2.39 GLIBCXX_3.4.33 CXXABI_1.3.15 GCC_14.0; do
      name="${limit%%_*}"
      newest="$(objdump -T "$file" 2>/dev/null | grep -oE "\b${name}_[0-9.]+" | sort -Vu | tail -1 || true)"
      [ "$(printf '%s\n' "$limit" "$newest" | sort -V | tail -1)" = "$limit" ] || fail "$file wants $newest, Ubuntu 24.04 has $limit"
    done
  done
}

# Against LibTorch's build for CUDA; UCX, MPI and what else this machine has are left out.
build_here() { # folder for the programs
  local found
  found="$(tools/setup_cuda.sh)" || fail "CUDA's compiler is not here"
  eval "$found"
  [ -n "${PIPER_TORCH_DIR:-}" ] && [ -n "${PIPER_NCCL_DIR:-}" ] || fail "LibTorch for CUDA or NCCL is not here"
  cmake --preset node -B build/prebuilt -DCMAKE_PREFIX_PATH= -DCMAKE_SKIP_RPATH=ON -DPIPER_CUDA_ARCHITECTURES="${PIPER_ARCHITECTURES:-90a}" \
    -DPIPER_UCX_INCLUDE=OFF -DPIPER_UCP_LIBRARY=OFF -DPIPER_UCS_LIBRARY=OFF >/dev/null
  cmake --build build/prebuilt --target gpu_tests -j "${PIPER_JOBS:-$(nproc)}"
  mkdir -p "$1"
  for program in $programs; do strip -o "$1/$program" "build/prebuilt/bin/$program"; done
}

pack() {
  local file="$PWD/build/piper-node.tar.gz" bin="${PIPER_BIN:-build/release/bin}" prebuilt="" python stage bytes tree
  while [ $# -gt 0 ]; do
    case "$1" in
      --prebuilt) prebuilt=1 ;;
      -o) [ $# -ge 2 ] || fail "-o wants a file"; file="$(realpath -m -- "$2")"; shift ;;
      *) echo "gpu_node: pack: unknown argument: $1" >&2; usage 2 >&2 ;;
    esac
    shift
  done
  [ -x "$bin/piperc" ] || fail "there is no $bin/piperc; PIPER_BIN names its folder"
  python="${PIPER_PYTHON:-$(tools/find_python.sh)}"
  stage="${PIPER_NODE_STAGE:-build/node}"
  rm -rf "$stage/piper"
  mkdir -p "$stage/piper/plans"
  # As they are here: what is not committed, too, and without what is deleted.
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' path; do [ ! -e "$path" ] || printf '%s\0' "$path"; done |
    tar -c --null -T - | tar -x -C "$stage/piper"
  tree="$(du -sb "$stage/piper" | cut -f1)"
  carry_libraries "$stage/piper/carried"
  # shellcheck disable=SC2086
  "$python" tests/gpu/train_on_gpu.py --bin "$bin" --strategies strategies --plans "$stage/gpu" ${PIPER_NODE_PLANS:+--only $PIPER_NODE_PLANS}
  # shellcheck disable=SC2086
  "$python" tools/bench/against_torch.py --bin "$bin" --work "$stage/bench" --device cuda --cases $small_case ${PIPER_GPU_CASES-$gpu_cases} --compile
  cp -r "$stage/gpu" "$stage/piper/plans/gpu"
  mkdir "$stage/piper/plans/bench"
  cp -r "$stage/bench/bundles" "$stage/piper/plans/bench/bundles"
  if [ -n "$prebuilt" ]; then
    if [ -n "${PIPER_NODE_PREBUILT:-}" ]; then cp -rL "$PIPER_NODE_PREBUILT" "$stage/piper/prebuilt"; else build_here "$stage/piper/prebuilt"; fi
    check_symbols "$stage/piper/prebuilt"
  fi
  mkdir -p "$(dirname "$file")"
  tar -czf "$file" -C "$stage" piper
  bytes="$(stat -c %s "$file")"
  [ -n "${PIPER_NODE_PREBUILT:-}" ] || [ "$((bytes + tree))" -le "$most_bytes" ] ||
    fail "$file has $bytes bytes, the sources $tree, more than $most_bytes together"
  printf 'gpu_node: %s, %d bytes, sources %d; there: tar -xzf %s && piper/tools/bench/gpu_node.sh run smoke\n' "$file" "$bytes" "$tree" "$(basename "$file")"
}

# step NAME SECONDS COMMAND...: what it says goes to OUT/NAME.txt and here as it comes; the next one runs whatever came of it.
failed=""
step() {
  local name="$1" limit="$2" status=0 began="$SECONDS" left
  shift 2
  left=$((stage_end - SECONDS - 5))
  [ "$limit" -le "$left" ] || limit="$left"
  if [ "$limit" -lt 10 ]; then
    echo "== $name: left out, the stage has $left s left" | tee -a "$out/summary.txt"
    return
  fi
  printf '\n== %s, at most %d s\n' "$name" "$limit"
  # Without waiting for tee: what a command leaves behind may hold the pipe.
  timeout --kill-after=5 "$limit" stdbuf -oL "$@" > >(tee "$out/$name.txt") 2>&1 || status=$?
  sleep 0.2
  local said=done
  case "$status" in
    0) ! grep -q '^skipped: ' "$out/$name.txt" || said="skipped" ;;
    124 | 137) said="ENDED at its limit" failed="$failed $name" ;;
    *) said="FAILED ($status)" failed="$failed $name" ;;
  esac
  printf '== %s: %s, %d s\n' "$name" "$said" "$((SECONDS - began))" | tee -a "$out/summary.txt"
}

describe_machine='nvidia-smi || echo "no nvidia-smi"; nproc; free -g | head -2; "$PIPER_PYTHON" -c "
import sys, torch
print(\"python\", sys.version.split()[0], \"torch\", torch.__version__, \"CUDA\", torch.version.cuda, \"GPUs\", torch.cuda.device_count())
print(torch.cuda.get_device_name() if torch.cuda.device_count() else \"no GPU for torch\")"'

# Where programs find LibTorch, CUDA and NCCL: in the Python packages, without importing them.
find_libraries() {
  local site
  site="$("$PIPER_PYTHON" -c 'import importlib.util as u, os; s = u.find_spec("torch"); print(os.path.dirname(s.submodule_search_locations[0]) if s else "")')"
  [ -n "$site" ] || fail "there is no torch for $PIPER_PYTHON"
  export LD_LIBRARY_PATH="$site/torch/lib$(printf ':%s' "$site"/nvidia/*/lib)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# Whether the loader finds all that the programs of a folder want; it says what it does not.
starts() { # folder
  local program missing=0
  [ -x "$1/piper-run" ] || { echo "$1: there is no piper-run"; return 1; }
  for program in $programs; do
    [ -e "$1/$program" ] || continue
    ! ldd "$1/$program" 2>&1 | grep 'not found' | grep -v 'libcuda.so.1' | sed "s|^|$program: |" || missing=1
  done
  [ "$missing" = 0 ] && "$1/piper-run" --help >/dev/null
}

# Beside the first stage, of its own time: OUT/build.txt. The programs are in build/node/bin.
build_there() {
  [ ! -e build/node/built ] && [ -z "${builder:-}" ] || return 0
  (
    began="$SECONDS" status=0
    timeout --kill-after=5 450 nice -n 10 bash -ec 'found="$(PIPER_CUDA_FROM=machine tools/setup_cuda.sh)"
      eval "$found"
      cmake --preset node -DPIPER_CUDA_ARCHITECTURES="${PIPER_ARCHITECTURES:-90a}" -DPIPER_GPU_PLANS="$PWD/plans/gpu"
      cmake --build --preset node --target gpu_tests
      touch build/node/built' >"$out/build.txt" 2>&1 &
    inner=$!
    trap 'kill "$inner"' TERM
    wait "$inner" || status=$?
    echo "== build: $([ "$status" = 0 ] && echo done || echo "FAILED ($status)"), $((SECONDS - began)) s" >>"$out/summary.txt"
    exit "$status"
  ) &
  builder=$!
}

# The programs of the archive, or of the build there where those do not start.
choose_programs() {
  bin="$PWD/prebuilt"
  if [ -d prebuilt ] && starts prebuilt; then
    echo "gpu_node: the prebuilt programs are used" | tee -a "$out/summary.txt"
    return
  fi
  [ ! -d prebuilt ] || echo "gpu_node: the prebuilt programs do not start here" | tee -a "$out/summary.txt"
  bin="$PWD/build/node/bin"
  build_there
  [ -z "${builder:-}" ] || wait "$builder" || { tail -30 "$out/build.txt"; fail "the build failed"; }
  builder=""
  starts "$bin" || fail "the programs that were built here do not start"
}

kernels_test() { # NAME SECONDS CASES...: under $under
  local name="$1" limit="$2"
  shift 2
  # shellcheck disable=SC2086
  step "$name" "$limit" $under "$bin/gpu_kernels_test" "$@" -d yes
}
bench_case() { # NAME SECONDS CASE OPTIONS...
  local name="$1" limit="$2" case="$3"
  shift 3
  # shellcheck disable=SC2086
  step "$name" "$limit" "$PIPER_PYTHON" tools/bench/against_torch.py --bin "$bin" --work plans/bench $bench_device --cases "$case" \
    --rounds 1 --threads "$threads" --json "$out/$name.json" "$@"
}
train() { # NAME SECONDS OPTIONS...
  local name="$1" limit="$2"
  shift 2
  # shellcheck disable=SC2086
  step "$name" "$limit" "$PIPER_PYTHON" tests/gpu/train_on_gpu.py --plans plans/gpu --program "$bin/piper-run" --work "$work/$name" $gpus "$@"
}

smoke() {
  step devices 60 "$bin/gpu_device_test"
  bench_case first_steps 150 "$first_case" --steps 8 --variants none
  # shellcheck disable=SC2086
  train first_plans 120 --only $first_plans --sanitizer ""
  under="" kernels_test kernels 170 "~whole table*" "~the kernels of*"
}

bench() {
  bench_case "$first_name" 200 "$first_case" --steps 10 --variants $first_variants
  step kernel_times 90 "$PIPER_PYTHON" tools/bench/kernel_times.py --program "$bin/piper-run" --bench plans/bench --case "$first_name" \
    --device "$device" --out "$out/kernel_times.jsonl"
  [ -z "$second_case" ] || bench_case "$second_name" 210 "$second_case" --steps 8 --variants compile
  local rows
  for rows in flash cudnn efficient; do
    step "attention_$rows" 40 env PIPER_GPU_ATTENTION="$rows" "$PIPER_PYTHON" tools/bench/kernel_times.py --program "$bin/piper-run" \
      --bench plans/bench --case "$first_name" --device "$device" --out "$out/attention_$rows.jsonl" --only attention
  done
}

check() {
  # shellcheck disable=SC2086
  train plans 230 $all_plans --sanitizer ""
  local sanitizer
  sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)"
  if [ -z "$sanitizer" ]; then
    echo "== memory and races: left out, there is no compute-sanitizer" | tee -a "$out/summary.txt"
    return
  fi
  step devices_memcheck 60 "$sanitizer" --tool memcheck --error-exitcode 99 "$bin/gpu_device_test"
  # shellcheck disable=SC2086
  train plans_memcheck 120 --only $first_plans --sanitizer "$sanitizer" --sanitizer-only
  under="$sanitizer --tool racecheck --error-exitcode 99" kernels_test own_kernels_racecheck 110 "*norm*,*cross_entropy*,*expert*,*softmax*"
}

nccl() {
  export NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$out/nccl.%h.%p.log"
  step one_gpu 90 "$bin/gpu_nccl_test" -d yes
  step one_gpu_unmixed 60 env NCCL_GRAPH_MIXING_SUPPORT=0 "$bin/gpu_nccl_test" -d yes "~a counted exchange*"
  step one_gpu_unordered 60 env NCCL_LAUNCH_ORDER_IMPLICIT=0 "$bin/gpu_nccl_test" -d yes
  unset NCCL_DEBUG NCCL_DEBUG_FILE
  [ "$count" -ge 2 ] || return 0
  train several_gpus 200 --sanitizer ""
  for case in gpt2:32:bf16:dp2 gpt2_untied:32:bf16:pp2_1f1b; do
    [ ! -d "plans/bench/bundles/${case//:/-}" ] || bench_case "${case//:/-}" 120 "$case" --steps 10
  done
}

run() {
  local asked=() stage
  results="$PWD/node-results"
  while [ $# -gt 0 ]; do
    case "$1" in
      --out) [ $# -ge 2 ] || fail "--out wants a folder"; results="$(realpath -m -- "$2")"; shift ;;
      smoke | bench | check | nccl) asked+=("$1") ;;
      *) echo "gpu_node: run: unknown argument: $1" >&2; usage 2 >&2 ;;
    esac
    shift
  done
  [ -d carried ] && [ -d plans ] || fail "this is no unpacked archive of gpu_node.sh pack"
  export PIPER_PYTHON="${PIPER_PYTHON:-python3}" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
  [ ${#asked[@]} -gt 0 ] || read -ra asked <<<"$stages"
  find_libraries
  device=cpu gpus="" threads=1 count=0
  if nvidia-smi -L >/dev/null 2>&1; then
    device=cuda threads=4 count="$(nvidia-smi -L | grep -c '^GPU ')"
  fi
  bench_device="--device $device" first_case="$small_case" first_variants="eager" second_case="" first_plans="1f1b expert_parallel" all_plans=""
  if [ -n "${PIPER_NODE_STANDIN:-}" ]; then
    device=cuda gpus="--gpus 1" first_plans="1f1b" all_plans="--only 1f1b" bench_device="--device cuda --torch-device cpu"
    export PIPER_STANDIN_DEVICES=1
  elif [ "$device" = cuda ]; then
    first_case="gpt2:32:bf16" first_variants="graphs compile" second_case="qwen3_1b:4:bf16"
  fi
  first_name="${first_case//:/-}" second_name="${second_case//:/-}"
  work="$(mktemp -d)"
  trap 'rm -rf "$work"; [ -z "${builder:-}" ] || kill "$builder" 2>/dev/null || true' EXIT
  for stage in "${asked[@]}"; do
    out="$results/$stage"
    rm -rf "$out"
    mkdir -p "$out"
    stage_end=$((SECONDS + ${PIPER_STAGE_S:-530}))
    printf '\n==== %s\n' "$stage" | tee "$out/summary.txt"
    step machine 40 bash -c "$([ "$stage" = smoke ] && echo "$describe_machine" || echo 'nvidia-smi || echo "no nvidia-smi"')"
    [ "$stage" != smoke ] || build_there
    choose_programs
    "$stage"
    if [ -n "${builder:-}" ]; then
      while kill -0 "$builder" 2>/dev/null && [ "$SECONDS" -lt "$stage_end" ]; do sleep 1; done
      if kill "$builder" 2>/dev/null; then echo "== build: ENDED with its stage" >>"$out/summary.txt" failed="$failed build"; fi
      wait "$builder" || failed="$failed build"
      builder=""
      tail -3 "$out/build.txt"
    fi
  done
  printf '\n'
  for stage in "${asked[@]}"; do cat "$results/$stage/summary.txt"; done
  [ "$device" = cuda ] && [ -z "${PIPER_NODE_STANDIN:-}" ] || echo "no GPU here: nothing of this ran on one" | tee -a "$out/summary.txt"
  [ -z "$failed" ]
}

case "${1:-}" in
  pack | run) "$@" ;;
  -h | --help) usage 0 ;;
  *) echo "gpu_node: unknown argument: ${1:-none}" >&2; usage 2 >&2 ;;
esac
