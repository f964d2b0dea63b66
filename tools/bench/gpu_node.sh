#!/usr/bin/env bash
# All that is asked of a machine with GPUs, as one archive and one command. The machine needs CUDA's compiler, CMake, ninja, g++, and
# a python3 with torch built for CUDA and NCCL's package; nothing is downloaded there.
#
#   tools/bench/gpu_node.sh pack [-o FILE]    here: sources, plans compiled for GPUs, and the libraries that the runtime is built
#                                             from, as one archive of at most 64 MiB (build/piper-node.tar.gz)
#   tools/bench/gpu_node.sh run [--out DIR]   there, in the unpacked archive: builds piper-run, passes the tests of tests/gpu, trains in
#                                             turn with PyTorch (against_torch.py); writes what it saw to DIR (node-results)
#
#   PIPER_BIN      piperc's folder, for `pack` (build/release/bin)
#   PIPER_PYTHON   python with torch
#
# Without a GPU `run` does the same as far as that goes: tests of the host's side, and the benchmark of a small model on the CPU.
set -euo pipefail
cd "$(dirname "$0")/../.."
most_bytes=$((64 << 20))
gpu_cases="gpt2:32:bf16 qwen3_1b:4:bf16 gpt2:32:f32 gpt2:32:bf16:dp2 gpt2:32:bf16:zero3_2 gpt2_untied:32:bf16:pp2_1f1b"
cpu_cases="tied:16:f32 tied:16:bf16 tied:16:f32:dp2"

fail() {
  printf 'gpu_node: %s\n' "$*" >&2
  exit 1
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

pack() {
  local file="$PWD/build/piper-node.tar.gz" bin="${PIPER_BIN:-build/release/bin}" python stage bytes
  [ "${1:-}" != -o ] || file="$(realpath -m -- "$2")"
  [ -x "$bin/piperc" ] || fail "there is no $bin/piperc; PIPER_BIN names its folder"
  python="${PIPER_PYTHON:-$(tools/find_python.sh)}"
  stage=build/node
  rm -rf "$stage/piper"
  mkdir -p "$stage/piper/plans"
  git ls-files -z | tar -c --null -T - | tar -x -C "$stage/piper"
  carry_libraries "$stage/piper/carried"
  "$python" tests/gpu/train_on_gpu.py --bin "$bin" --strategies strategies --plans "$stage/gpu"
  # shellcheck disable=SC2086
  "$python" tools/bench/against_torch.py --bin "$bin" --work "$stage/bench" --device cuda --cases $cpu_cases ${PIPER_GPU_CASES-$gpu_cases} --compile
  cp -r "$stage/gpu" "$stage/piper/plans/gpu"
  mkdir "$stage/piper/plans/bench"
  cp -r "$stage/bench/bundles" "$stage/piper/plans/bench/bundles"
  mkdir -p "$(dirname "$file")"
  tar -czf "$file" -C "$stage" piper
  bytes="$(stat -c %s "$file")"
  [ "$bytes" -le "$most_bytes" ] || fail "$file has $bytes bytes, more than $most_bytes"
  printf 'gpu_node: %s, %d bytes; there: tar -xzf %s && piper/tools/bench/gpu_node.sh run\n' "$file" "$bytes" "$(basename "$file")"
}

# step NAME COMMAND...: what it says goes to OUT/NAME.txt and here; the next one runs whatever came of it.
failed=""
step() {
  local name="$1" status=0 began="$SECONDS"
  shift
  printf '\n== %s\n' "$name"
  "$@" > >(tee "$out/$name.txt") 2>&1 || status=$?
  printf '== %s: %s, %d s\n' "$name" "$([ "$status" = 0 ] && echo done || echo "FAILED ($status)")" "$((SECONDS - began))" | tee -a "$out/summary.txt"
  [ "$status" = 0 ] || failed="$failed $name"
}

describe_machine() {
  nvidia-smi || echo "no nvidia-smi"
  "$PIPER_CUDA_DIR/bin/nvcc" --version
  cmake --version | head -1
  "$python" -c 'import sys, torch; print("python", sys.version.split()[0], "torch", torch.__version__, "GPUs", torch.cuda.device_count())'
}

build() {
  cmake --preset node -DPIPER_GPU_PLANS="$PWD/plans/gpu" && cmake --build --preset node --target gpu_tests
}

run() {
  out="$PWD/node-results"
  [ "${1:-}" != --out ] || out="$(realpath -m -- "$2")"
  [ -d carried ] && [ -d plans ] || fail "this is no unpacked archive of gpu_node.sh pack"
  rm -rf "$out"
  mkdir -p "$out"
  python="${PIPER_PYTHON:-python3}"
  local found device=cpu cases="$cpu_cases" options="--rounds 1 --steps 3"
  found="$(PIPER_CUDA_FROM=machine tools/setup_cuda.sh)" || fail "CUDA's compiler is not here"
  eval "$found"
  if nvidia-smi -L >/dev/null 2>&1; then
    device=cuda cases="${PIPER_GPU_CASES-$gpu_cases}" options="--rounds 3 --steps 20 --threads 4"
  fi
  step machine describe_machine
  step build build
  case "$failed" in *build*) ;; *)
    step tests ctest --test-dir build/node -L gpu --output-on-failure --no-tests=error
    # shellcheck disable=SC2086
    step bench "$python" tools/bench/against_torch.py --bin build/node/bin --work plans/bench --device "$device" --cases $cases $options --json "$out/bench.json" ;;
  esac
  printf '\n'
  cat "$out/summary.txt"
  [ "$device" = cuda ] || echo "no GPU here: nothing of this ran on one" | tee -a "$out/summary.txt"
  [ -z "$failed" ]
}

case "${1:-}" in
  pack | run) "$@" ;;
  *) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
