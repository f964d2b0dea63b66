#!/usr/bin/env python3
"""A run whose first attempt is killed before its first step is started again as it was: it takes up the checkpoint that was asked for,
or refuses what is there, and never goes on from the checkpoints of another run.

  restarts.py --bin BIN --work DIR
"""
import pathlib
import shutil
import sys

import torch
from checks import check, faults
from safetensors.torch import save_file

import harness

MODEL = pathlib.Path(__file__).resolve().parents[1] / "models/tiny_mlp.onnx"
# A program of a launcher whose first attempt ends before it is there.
FIRST_IS_KILLED = ("sh", "-c", '[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && kill -9 $$; exec "$@"', "x")


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    work = bench.work
    torch.manual_seed(0)
    save_file({"x": torch.randn(32, 6), "target": torch.randn(32, 3)}, work / "data.safetensors")
    (work / "s.yaml").write_text("piper: 1\nmodel: {batch: 4}\noptimizer: {sgd: {lr: 0.01}}\n")
    bench.call([bench.bin / "piperc", MODEL, "--strategy", work / "s.yaml", "-o", work / "plans"])

    def trained(folder, *flags, steps, launcher=()):
        command = [*launcher, bench.bin / "piper-run", work / "plans", "--data", work / "data.safetensors", "--threads", 1, "--every", 2, "--keep", 9,
                   "--steps", steps, "--checkpoint", folder, *flags]
        return bench.end_of(command)

    earlier = work / "earlier"
    code, said = trained(earlier, steps=6)
    check("an earlier run has checkpoints of steps 2, 4 and 6", code == 0 and len(list(earlier.glob("step-*"))) == 3, said)
    launcher = (bench.bin / "piper-launch", "-n", 1, "--restarts", 1, *FIRST_IS_KILLED)
    for start, status, words, last in (("--resume=exact:2", 0, "continues after step 2", 4), (None, 1, "R0704", 6),
                                       ("--resume", 0, "continues after step 6", 8)):
        folder = work / f"run{start}"
        shutil.copytree(earlier, folder)
        code, said = trained(folder, *([start] if start else []), steps=last, launcher=launcher)
        check(f"{start}: the restart does the same", code == status and words in said and "with the same arguments as before" in said, f"{code} {said}")
    folder = work / "new"
    code, said = trained(folder, steps=4, launcher=launcher)
    check("a folder without checkpoints", code == 0 and "newest valid checkpoint" in said and len(list(folder.glob("step-*"))) == 2, said)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
