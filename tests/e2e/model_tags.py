#!/usr/bin/env python3
"""A model that was annotated in Python needs no `annotate`: its stages are those of the annotations.

  model_tags.py --bin BIN --work DIR

Compiles the tagged GPT from ONNX (by ATen calls and by ONNX operators) and from `.pt2`, places its two stages on two
ranks, and compares losses with PyTorch. Then a strategy's own `annotate` of the tag goes before the model's, and a
tag that the model does not have is refused. Exit status 0: all as expected.
"""
import argparse
import subprocess
import sys

import harness
import zoo

MODEL = "gpt_tagged"
STRATEGY = """piper: 1
model: {batch: 8}
directives:
  - {op: place, filter: {TAG: 0}, devices: [0]}
  - {op: place, filter: {TAG: 1}, devices: [1]}
schedule: {family: 1f1b, microbatches: 4, stages: TAG}
optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    expected, _, _ = harness.torch_training(MODEL, "sgd")
    failed = []
    text = STRATEGY.replace("TAG", "PP")
    for container, route in (("onnx", "auto"), ("onnx", "onnx"), ("pt2", "auto")):
        bench = harness.Bench(args.bin, args.work, container)
        plans = bench.compile(MODEL, text, f"{container}-{route}", "--route", route)
        result = bench.run(plans, MODEL, 2)
        faults = harness.loss_faults(result.losses, expected, zoo.MODELS[MODEL].tolerance)
        if len(list((plans / "ranks").glob("*.json"))) != 2:
            faults.append("not two ranks")
        print(f"{container} by route {route}: {faults[0] if faults else 'agrees with PyTorch'}")
        failed += faults
    bench = harness.Bench(args.bin, args.work, "pt2")

    def piperc(text, *flags):
        strategy = bench.work / "own.yaml"
        strategy.write_text(text)
        done = subprocess.run([str(bench.bin / "piperc"), str(bench.exported(MODEL)), "--strategy", str(strategy), "-o",
                               str(bench.work / "own.plans"), *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        return done.returncode, done.stdout

    code, said = piperc(text.replace("directives:", 'annotate: [{tag: PP, starts: ["h.0", "h.1"]}]\ndirectives:'), "--verbose")
    if code != 0 or "the model's own annotations of it are not used" not in said:
        failed.append(f"an annotate of its own: exit {code}\n{said}")
    code, said = piperc(STRATEGY.replace("TAG", "PQ"))
    if code != 1 or "P02" not in said or "PP" not in said:
        failed.append(f"a tag that is not there: exit {code}\n{said}")
    print("\n".join(failed) if failed else "all as expected")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
