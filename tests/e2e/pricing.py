#!/usr/bin/env python3
"""Plans are priced: piperc and piper-plan with a machine's file, piper-run with the kernels' times.

  pricing.py --bin build/release/bin --work DIR
"""
import argparse
import json
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPU = ROOT / "strategies" / "targets" / "cpu_two_cores.yaml"
STRATEGY = """piper: 1
model: {batch: 8}
annotate: [{tag: PP, starts: ["h.0", "h.1"]}]
schedule: {family: 1f1b, microbatches: 4}
optimizer: {sgd: {lr: 0.1}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    strategy, plans, times, data = (args.work / name for name in ("s.yaml", "plans", "times.jsonl", "data.txt"))
    strategy.write_text(STRATEGY)
    # Tokens of the model's vocabulary of 19.
    data.write_bytes(bytes(i * 7 % 19 for i in range(4096)))

    def ran(program, *words, status=0):
        done = subprocess.run([str(args.bin / program), *map(str, words)], capture_output=True, text=True)
        assert done.returncode == status, f"{program}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    model = ROOT / "tests" / "models" / "tiny_gpt.onnx"
    said = ran("piperc", model, "--strategy", strategy, "--target", CPU, "-o", plans)
    assert " ms a step on two cores" in said, said
    ran("piper-run", plans, "--data", data, "--steps", 6, "--threads", 1, "--calibrate", times)
    rows = [json.loads(line) for line in times.read_text().splitlines()]
    assert rows and all(row["us"] > 0 and row["count"] > 0 for row in rows), rows[:3]
    # Each rank tells its own calls; of steps 4 to 6, four microbatches.
    assert all(row["count"] % 3 == 0 for row in rows)

    roofline, measured = (json.loads(ran("piper-plan", "simulate", plans, "--target", CPU, "--json", *flags))
                          for flags in ([], ["--kernel-times", times]))
    assert roofline["measured_calls"] == 0 and measured["measured_calls"] == measured["distinct_calls"] > 0, measured
    for rank in measured["ranks"]:
        whole = rank["busy_us"] + rank["exposed_communication_us"] + rank["waiting_us"]
        assert abs(whole / measured["step_us"] - 1) < 1e-9, rank
        assert rank["fits"] == "ok"
    # Nothing is issued by a host here: the critical path is the step.
    assert abs(sum(line["us"] for line in measured["critical_path"]) / measured["step_us"] - 1) < 1e-9, measured
    assert measured["step_us_efficient"] < measured["step_us"] < measured["step_us_inefficient"]

    wrong = args.work / "wrong.yaml"
    wrong.write_text(CPU.read_text().replace("kernel_us", "kernel_time"))
    said = ran("piper-plan", "simulate", plans, "--target", wrong, status=1)
    assert "error[P0201]: unknown key 'kernel_time' in the machine" in said and "the machine needs 'kernel_us'" in said, said
    said = ran("piperc", model, "--strategy", strategy, "--target", wrong, "-o", args.work / "none", status=1)
    assert "P0201" in said and not (args.work / "none").exists(), said
    said = ran("piper-run", plans, "--data", data, "--device", "cuda", "--calibrate", times, status=2)
    assert "--calibrate measures the kernels of CPU ranks" in said, said
    print("piperc, piper-plan and piper-run agree on", measured["distinct_calls"], "calls")


if __name__ == "__main__":
    main()
