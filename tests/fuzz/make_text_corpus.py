#!/usr/bin/env python3
"""Writes seeds of fuzz_plan and fuzz_pir: a compiled plan's files, and Modules of the golden tests.

  make_text_corpus.py --bin BIN [folder]        default: corpus beside this file
"""
import argparse
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# The first byte of an input of fuzz_plan, and which file of a bundle follows it.
KINDS = {"rank": ("0", "ranks/rank-00000.json"), "like": ("0", "ranks/rank-00001.json"),
         "manifest": ("2", "manifest.json"), "provenance": ("3", "provenance.json"),
         "reference": ("4", "reference.json")}
STRATEGY = """piper: 1
model: {batch: 8}
directives:
  - {op: replicate, filter: {}, devices: [0, 1], bucket_size: 0.001}
  - {op: split, num_microbatches: 2}
clip_grad_norm: 1.0
optimizer: {adamw: {lr: 0.001, weight_decay: 0.1, no_decay: ["*.bias"]}}
"""
LARGEST = 6000  # bytes: a fuzzer learns more from small seeds


def plans(programs: pathlib.Path, folder: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        strategy = pathlib.Path(work) / "s.yaml"
        strategy.write_text(STRATEGY)
        bundle = pathlib.Path(work) / "plans"
        subprocess.run([programs / "piperc", HERE.parent / "models/tiny_mlp.onnx", "--strategy", strategy, "-o", bundle], check=True,
                       stdout=subprocess.DEVNULL)
        for name, (byte, path) in KINDS.items():
            (folder / f"compiled_{name}").write_text(byte + (bundle / path).read_text())
        for program in sorted((bundle / "programs").glob("*.json")):
            (folder / f"compiled_{program.stem}").write_text("1" + program.read_text())


def modules(folder: pathlib.Path) -> None:
    for pass_folder in sorted((HERE.parent / "golden").iterdir()):
        texts = [path for path in sorted(pass_folder.glob("*.pir")) if path.stat().st_size < LARGEST] if pass_folder.is_dir() else []
        for path in texts[:1]:
            lines = [line for line in path.read_text().splitlines() if not line.startswith("//")]
            (folder / f"{pass_folder.name}.pir").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=HERE / "corpus")
    args = parser.parse_args()
    for kind in ("plan", "pir"):
        (args.folder / kind).mkdir(parents=True, exist_ok=True)
    plans(args.bin, args.folder / "plan")
    modules(args.folder / "pir")


if __name__ == "__main__":
    main()
