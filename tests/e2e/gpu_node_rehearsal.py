#!/usr/bin/env python3
"""The first half hour on a GPU, rehearsed: tools/bench/gpu_node.sh packs an archive, which is unpacked elsewhere and runs all of its stages
on the stand-ins for CUDA and NCCL; what hangs, fails or does not start is ended and said, and a build takes its place.

  gpu_node_rehearsal.py --bin BIN --work DIR

PyTorch is on the CPU, kernels are the CPU's (their own test is a sample of the shim's), and a driver, a compiler and a sanitizer are
scripts that say yes: what they would find is not rehearsed, only that they are called as they should.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAGES = {"smoke": ["machine", "devices", "first_steps", "first_plans", "kernels", "build"], "bench": ["machine", "tied-4-f32", "kernel_times", "attention_flash", "attention_cudnn", "attention_efficient"],
          "check": ["machine", "plans", "devices_memcheck", "plans_memcheck", "own_kernels_racecheck"],
          "nccl": ["machine", "one_gpu", "one_gpu_unmixed", "one_gpu_unordered"]}
# By the name that a GPU's build has: the program here, and the cases of it that take no longer than a rehearsal may.
PROGRAMS = {"piper-run": ("piper-run-standin", ""), "gpu_device_test": ("cuda_device_test", '"a GPU conforms*"'),
            "gpu_kernels_test": ("cuda_kernels_test", '"softmax*"'), "gpu_nccl_test": ("standin_gpu_nccl_test", '"$@"'),
            "write_plans": ("write_plans", '"$@"')}
# Skips its own options, and runs the program.
SANITIZER = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift 2; done
exec "$@"
"""
# A build: the programs that another build would have made.
BUILDS = """#!/bin/sh
case "$*" in *--build*) mkdir -p build/node && cp -r "$REHEARSED_PROGRAMS" build/node/bin ;; esac
"""


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def programs(folder, bin_dir):
    for name, (program, cases) in PROGRAMS.items():
        script(folder / name, f'#!/bin/sh\nexec "{bin_dir / program}" {cases or chr(34) + "$@" + chr(34)}\n')


def fakes(folder):
    """A PATH of what the machine with a GPU would have; a toolkit that setup_cuda.sh finds."""
    script(folder / "bin" / "nvidia-smi", "#!/bin/sh\necho 'GPU 0: the stand-in'\n")
    script(folder / "bin" / "compute-sanitizer", SANITIZER)
    script(folder / "bin" / "cmake", BUILDS)
    script(folder / "cuda" / "bin" / "nvcc", "#!/bin/sh\n")
    for file in ("cuda/include/cuda_runtime_api.h", "nccl/include/nccl.h", "torch/lib/libtorch_cuda.so"):
        script(folder / file, "")
    return {"PIPER_CUDA_DIR": str(folder / "cuda"), "PIPER_NCCL_DIR": str(folder / "nccl"), "PIPER_TORCH_DIR": str(folder / "torch"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


class Node:
    """An unpacked archive, and what was wrong with its stages so far."""

    def __init__(self, folder, environment):
        self.folder, self.environment, self.faults = folder, environment, []

    def run(self, *stages, **environment):
        """Exit status, summary lines by step, seconds."""
        out = self.folder.parent / "results"
        began = time.monotonic()
        done = subprocess.run([self.folder / "tools/bench/gpu_node.sh", "run", *stages, "--out", out], env=self.environment | environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        took = time.monotonic() - began
        lines = [line for stage in stages for line in (out / stage / "summary.txt").read_text().splitlines()]
        said = {line[3:].split(":")[0]: line.split(": ", 1)[1] for line in lines if line.startswith("== ")}
        print(f"{' '.join(stages)}: exit {done.returncode}, {took:.1f} s: {said}", flush=True)
        self.said, self.out = done.stdout, out
        return done.returncode, said, lines

    def want(self, what, good, seen):
        if not good:
            self.faults.append(what)
            print(f"FAILED {what}: {seen}\n{self.said[-3000:]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    args = parser.parse_args()
    if subprocess.run(["git", "-C", ROOT, "rev-parse"], capture_output=True).returncode != 0:
        print("left out: an archive of the sources packs no other one")
        return
    work, bin_dir = args.work.resolve(), args.bin.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    programs(work / "programs", bin_dir)
    ours = os.environ | {"PIPER_PYTHON": sys.executable, "PIPER_BIN": str(bin_dir)}
    began = time.monotonic()
    subprocess.run([ROOT / "tools/bench/gpu_node.sh", "pack", "--prebuilt", "-o", work / "node.tar.gz"], check=True,
                   env=ours | {"PIPER_GPU_CASES": "", "PIPER_NODE_PLANS": "1f1b", "PIPER_NODE_STAGE": str(work / "stage"),
                               "PIPER_NODE_PREBUILT": str(work / "programs")})
    print(f"packed in {time.monotonic() - began:.1f} s", flush=True)
    subprocess.run(["tar", "-xzf", work / "node.tar.gz", "-C", work], check=True)
    node = Node(work / "piper", ours | fakes(work / "fakes") | {
        "PIPER_NODE_STANDIN": "1", "PIPER_STANDIN_KERNELS": "cpu", "REHEARSED_PROGRAMS": str(work / "programs")})

    for stage, steps in STAGES.items():
        status, said, lines = node.run(stage)
        node.want(f"{stage}: every step is done", status == 0 and sorted(said) == sorted(steps) and all("done" in text for text in said.values()), (status, lines))
        node.want(f"{stage}: each step's words are in its file", all((node.out / stage / f"{step}.txt").exists() for step in steps), steps)
    smoke, bench = node.out / "smoke", node.out / "bench"
    rows = json.loads((smoke / "first_steps.json").read_text())["cases"][0]["rows"]
    node.want("smoke: the first figures", [row["variant"] for row in rows] == ["piper", "piper, CUDA graphs"] and all("median_ms" in row for row in rows), rows)
    rows = json.loads((bench / "tied-4-f32.json").read_text())["cases"][0]["rows"]
    node.want("bench: ratios to PyTorch", len(rows) == 3 and "to_piper" in rows[-1], rows)
    table = [json.loads(line) for line in (bench / "kernel_times.jsonl").read_text().splitlines()]
    node.want("bench: a table of kernel times", table and all(row["us"] > 0 for row in table), table[:3])
    node.want("nccl: graphs were replayed", "by a graph, submission 3" in (node.out / "nccl" / "one_gpu.txt").read_text(), "one_gpu.txt")

    # What hangs is ended at the stage's end, what there is no time for is reported, and what came before stays.
    script(node.folder / "prebuilt" / "gpu_nccl_test", "#!/bin/sh\necho first words\nsleep 600\n")
    status, said, lines = node.run("nccl", PIPER_STAGE_S="20")
    node.want("a step that hangs is ended", status == 1 and "ENDED at its limit" in said.get("one_gpu", ""), lines)
    node.want("steps without time are left out", "left out" in said.get("one_gpu_unmixed", ""), lines)
    node.want("its first words are kept", "first words" in (node.out / "nccl" / "one_gpu.txt").read_text(), lines)
    # Programs that do not start are replaced by a build there.
    script(node.folder / "prebuilt" / "piper-run", "#!/bin/sh\nexit 127\n")
    status, said, lines = node.run("nccl")
    node.want("a build stands in for programs that do not start", status == 0 and "done" in said.get("one_gpu", "") and "do not start here" in "".join(lines),
              (status, lines))
    # A step that fails keeps none from running.
    script(node.folder / "build" / "node" / "bin" / "gpu_nccl_test", '#!/bin/sh\n[ -n "$NCCL_LAUNCH_ORDER_IMPLICIT" ] || exit 3\n')
    status, said, lines = node.run("nccl")
    node.want("a failure is told and the next step runs",
              status == 1 and "FAILED (3)" in said.get("one_gpu", "") and "done" in said.get("one_gpu_unordered", ""), (status, lines))
    sys.exit(1 if node.faults else 0)


if __name__ == "__main__":
    main()
