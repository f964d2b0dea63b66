#!/usr/bin/env python3
"""Plans are priced: piperc and piper-plan with a machine's file, piper-run with the kernels' times.

  pricing.py --bin build/release/bin --work DIR
"""
import argparse
import array
import json
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPU = ROOT / "strategies" / "targets" / "cpu_two_cores.yaml"
GPU = ROOT / "strategies" / "targets" / "h100_node8.yaml"
STRATEGY = """piper: 1
model: {batch: 8}
annotate: [{tag: PP, starts: ["h.0", "h.1"]}]
schedule: {family: 1f1b, microbatches: 4}
optimizer: {sgd: {lr: 0.1}}
"""


def report(args, ran, plans, data):
    """Every line of the strategy, predicted and as a run measured it: nothing is lost, nothing is counted twice."""
    profile, log = args.work / "profile.jsonl", args.work / "log.jsonl"
    ran("piper-run", plans, "--data", data, "--steps", 8, "--threads", 1, "--profile", profile, "--log", log)
    told = json.loads(ran("piper-plan", "report", plans, profile, "--target", CPU, "--log", log, "--json"))
    priced = json.loads(ran("piper-plan", "simulate", plans, "--target", CPU, "--json"))
    took = max(json.loads(line)["end_us"] for line in profile.read_text().splitlines())
    assert told["step"] == [priced["step_us"], took], told["step"]
    for rank, same in zip(told["ranks"], priced["ranks"], strict=True):
        assert [rank[key][0] for key in ("busy", "exposed_communication", "waiting")] == \
            [same[key] for key in ("busy_us", "exposed_communication_us", "waiting_us")], rank
        assert 0 < rank["peak_bytes"][1] <= rank["peak_bytes"][0], rank
    for side in (0, 1):
        def over(rows, *keys):
            return sum(row[key][side] for row in rows for key in keys)
        exposed, waiting = over(told["ranks"], "exposed_communication"), over(told["ranks"], "waiting")
        assert abs(over(told["lines"], "exposed") - exposed) < 1e-6 * took, told
        assert abs(over(told["lines"], "lost") + told["unexplained"][side] - exposed - waiting) < 1e-6 * took, told
        assert over(told["lines"], "on_path") <= told["step"][side] * (1 + 1e-9), told
    assert {row["line"] for row in told["lines"]} == {"s.yaml:4:11", "s.yaml:5:12"}, told["lines"]
    assert [row["lost"][1] for row in told["lines"]] == sorted((row["lost"][1] for row in told["lines"]), reverse=True)
    said = ran("piper-plan", "report", plans, profile)
    assert "step: predicted 15 units by unit costs (forward 1, backward 2); measured " in said, said
    assert "| s.yaml:4:11 place | measured |" in ran("piper-plan", "report", plans, profile, "--markdown")
    said = ran("piper-plan", "report", plans, args.work / "times.jsonl", status=1)
    assert "this is no line of a profile" in said, said


def tune(args, ran, model, strategy, plans, times):
    """A strategy that is tuned on measured kernels is one, and is not slower by them; `tests/e2e/tuning.py` has more."""
    tuned, again = args.work / "tuned.yaml", args.work / "again"
    said = ran("piper-plan", "tune", plans, "--model", model, "--strategy", strategy, "--target", CPU, "--kernel-times", times,
               "--limit", "100MB", "--candidates", 60, "-o", tuned)
    assert "at most 95.4 MiB a rank" in said and f"{tuned}: written, its plans are proved; " in said, said
    ran("piperc", model, "--strategy", tuned, "-o", again)
    before, after = (json.loads(ran("piper-plan", "simulate", bundle, "--target", CPU, "--kernel-times", times, "--json"))
                     for bundle in (plans, again))
    assert after["step_us"] <= before["step_us"], (before, after)
    number = float(f"{after['step_us'] / 1000:.4g}")
    assert f"tuned: {number:g} ms a step" in said, (after, said)
    said = ran("piper-plan", "tune", plans, "--model", model, "--strategy", strategy, "--target", CPU, "--limit", 1000,
               "-o", args.work / "none.yaml", status=1)
    assert "error[P0520]: nothing that was tried needs at most 1000 bytes a rank" in said, said
    assert not (args.work / "none.yaml").exists()
    said = ran("piperc", model, "--strategy", strategy, "--tune", tuned, status=2)
    assert "--tune requires --target" in said, said


def targets(args, ran, model, strategy, plans):
    """A target is of a device, and has so much memory."""
    gpu, small, page, trace = (args.work / name for name in ("target.plans", "small.yaml", "page.html", "step.trace"))
    ran("piperc", model, "--strategy", strategy, "--target", GPU, "-o", gpu)
    assert '"device":"cuda"' in (gpu / "manifest.json").read_text().replace(" ", "")
    for command in (("simulate",), ("report", args.work / "profile.jsonl"), ("show", "--html", page)):
        said = ran("piper-plan", command[0], plans, *command[1:], "--target", GPU, status=1)
        assert f"{GPU}:" in said and "error[P0250]: the target is of cuda, and the plans are of cpu" in said, said
    said = ran("piperc", model, "--strategy", strategy, "--target", CPU, "--device", "cuda", "-o", args.work / "none", status=1)
    assert "error[P0250]: the target is of cpu, and the plans are of cuda" in said and not (args.work / "none").exists(), said

    # The bundle is written, and says the peak that simulate says.
    small.write_text(CPU.read_text().replace("memory_bytes: 8.0e9", "memory_bytes: 1.0e4"))
    said = ran("piperc", model, "--strategy", strategy, "--target", small, "-o", gpu, status=3)
    peak = re.match(r"\S+: 2 ranks, at most (\S+ \S+) of memory \(rank \d\), idle \d+ % of a step, \S+ ms a step on .*, which has 9.8 KiB: does not fit\n", said)
    assert peak, said
    assert peak[1] in ran("piper-plan", "simulate", gpu, "--target", small) and peak[1] in ran("piper-plan", "show", gpu), peak[1]
    ran("piperc", model, "--strategy", strategy, "--target", small, "--memory-limit", "1GB", "-o", gpu)
    said = ran("piperc", model, "--strategy", strategy, "--target", CPU, "--memory-limit", "10KB", "-o", args.work / "none", status=1)
    assert "P0520" in said and not (args.work / "none").exists(), said

    # Pictures of the priced step.
    step_us = json.loads(ran("piper-plan", "simulate", plans, "--target", CPU, "--trace", trace, "--json"))["step_us"]
    ran("piper-plan", "show", plans, "--html", page, "--target", CPU)
    drawn = re.search(r'"unit": ?"us", ?"step": ?([\d.e+]+)', page.read_text())
    assert drawn and abs(float(drawn[1]) / step_us - 1) < 1e-3, (drawn and drawn[1], step_us)
    assert trace.stat().st_size > 1000
    said = ran("piper-plan", "simulate", plans, "--kernel-times", args.work / "times.jsonl", "--trace", trace, status=2)
    assert "a trace with --kernel-times needs --target" in said, said


def on_gpus(args, ran, model, strategy, data):
    """The same table of a GPU, here the stand-in for one, whose times are those of events around each call."""
    os.environ.update(PIPER_STANDIN_DEVICES="1", PIPER_STANDIN_KERNELS="cpu")
    plans, times = args.work / "gpu.plans", args.work / "gpu.jsonl"
    ran("piperc", model, "--strategy", strategy, "--device", "cuda", "-o", plans)
    ran("piper-run-standin", plans, "--data", data, "--device", "cuda", "--steps", 5, "--calibrate", times)
    rows = [json.loads(line) for line in times.read_text().splitlines()]
    assert rows and all(row["us"] > 0 and row["count"] % 2 == 0 for row in rows), rows[:3]
    priced = json.loads(ran("piper-plan", "simulate", plans, "--target", GPU, "--json", "--kernel-times", times))
    assert priced["measured_calls"] == priced["distinct_calls"] > 0, priced


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    strategy, plans, times, data = (args.work / name for name in ("s.yaml", "plans", "times.jsonl", "data.bin"))
    strategy.write_text(STRATEGY)
    # Tokens of the model's vocabulary of 19.
    data.write_bytes(array.array("H", (i * 7 % 19 for i in range(4096))).tobytes())

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
    # Each rank reports its own calls; of steps 4 to 6, four microbatches.
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
    assert measured["step_us_least"] < measured["step_us"] < measured["step_us_most"]

    report(args, ran, plans, data)
    tune(args, ran, model, strategy, plans, times)

    # Kernels that wait: no rank is faster than what the table says that its kernels take, and nothing is computed.
    log = args.work / "log.jsonl"
    said = ran("piper-run", plans, "--data", data, "--steps", 4, "--threads", 1, "--kernel-times", times, "--log", log)
    assert "kernels wait and compute nothing" in said, said
    steps = [row for row in map(json.loads, log.read_text().splitlines()) if "step_ms" in row]
    said = ran("piper-plan", "simulate", plans, "--kernel-times", times, "--latency-us", 100, "--bytes-per-second", 1e9)
    least = float(re.match(r"step: (\S+) us \(kernel times of \S+; links: 100 us, 1e\+09 bytes/s\)\nof a rank: ", said)[1]) / 1e3
    assert len(steps) == 4 and all(row["loss"] == 0 for row in steps), steps
    ran("piper-run", plans, "--data", data, "--steps", 4, "--threads", 1, "--kernel-times", times, "--link-delay", "100,1000000000", "--log", log)
    delayed = [row["step_ms"] for row in map(json.loads, log.read_text().splitlines()) if "step_ms" in row]
    assert all(step > 0.95 * least for step in delayed[1:]), (least, delayed)
    short = args.work / "short.jsonl"
    short.write_text("\n".join(line for line in times.read_text().splitlines() if json.loads(line)["call"] != rows[0]["call"]))
    said = ran("piper-run", plans, "--data", data, "--kernel-times", short, "--steps", 1, status=1)
    assert "R0408" in said and "has no time of the call" in said, said
    said = ran("piper-plan", "simulate", plans, "--kernel-times", short, status=1)
    assert "the table has no time of the call" in said, said
    said = ran("piper-plan", "simulate", plans, "--latency-us", 1, status=2)
    assert "links of a delay need times" in said, said
    ran("piper-run", plans, "--data", data, "--kernel-times", times, "--save", args.work / "w.safetensors", status=2)

    wrong = args.work / "wrong.yaml"
    wrong.write_text(CPU.read_text().replace("kernel_us", "kernel_time"))
    said = ran("piper-plan", "simulate", plans, "--target", wrong, status=1)
    assert "error[P0201]: unknown key 'kernel_time' in the machine" in said and "the machine needs 'kernel_us'" in said, said
    said = ran("piperc", model, "--strategy", strategy, "--target", wrong, "-o", args.work / "none", status=1)
    assert "P0201" in said and not (args.work / "none").exists(), said
    targets(args, ran, model, strategy, plans)
    on_gpus(args, ran, model, strategy, data)
    said = ran("piper-run", plans, "--data", data, "--device", "cuda", "--kernel-times", times, status=2)
    assert "--kernel-times waits on CPU ranks" in said, said
    print("piperc, piper-plan and piper-run agree on", measured["distinct_calls"], "calls")


if __name__ == "__main__":
    main()
