#!/usr/bin/env python3
"""What the built programs load, read off their direct NEEDED entries.

  check_programs.py BIN

piperc needs no torch, no MPI and no python; piper-run no python, and nothing of CUDA or NCCL: it opens a library that
does; piper-launch and piperd nothing of what their ranks need. A program that was not built is left out.
"""
import pathlib
import re
import subprocess
import sys

FORBIDDEN = {
    "piperc": r"torch|c10|libmpi|open-rte|open-pal|cuda|nccl|python",
    "piper-plan": r"torch|c10|libmpi|open-rte|open-pal|cuda|nccl|python|onnx|yaml",
    "piper-opt": r"torch|c10|libmpi|open-rte|open-pal|cuda|nccl|python",
    "piper-run": r"python|onnx|yaml|libcuda|torch_cuda|c10_cuda|nccl|cublas|cudnn|piper_cuda",
    "piper-launch": r"torch|c10|libmpi|open-rte|open-pal|libuc[mpst]|cuda|nccl|python|onnx|yaml",
    "piperd": r"torch|c10|libmpi|open-rte|open-pal|libuc[mpst]|cuda|nccl|python|onnx|yaml",
    "piper-torchscript": r"libmpi|open-rte|open-pal|cuda|nccl|python|onnx|yaml",
}


def needed(program: pathlib.Path) -> list[str]:
    text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", text)


def main():
    folder, checked, faults = pathlib.Path(sys.argv[1]), 0, 0
    for name, pattern in FORBIDDEN.items():
        if not (folder / name).exists():
            continue
        checked += 1
        for library in needed(folder / name):
            if re.search(pattern, library):
                print(f"{name} needs {library}")
                faults += 1
    print(f"{checked} programs, {faults} faults")
    sys.exit(1 if faults or not checked else 0)


if __name__ == "__main__":
    main()
