#!/usr/bin/env python3
"""`piperc --search` as a user calls it: what it writes compiles, is proved, is priced as it says and trains to PyTorch's losses.

  search.py --bin BIN --work DIR

A GPT, a Llama with fewer heads of keys than of queries and a mixture of experts on four ranks in two nodes. Of each search every file is compiled
and priced by the programs that did not search; the first one, and the tuned one, train. So does one with stages and groups of experts. Two searches write the same bytes. A search that is
interrupted writes what it has. Logits that are whole for few samples and in blocks for many are no reason to leave out the many. `piper-plan fits` says in one line whether a model fits.
"""
import json
import signal
import subprocess
import sys
import time

import torch

import harness
import zoo

MACHINE = """name: nodes of two slow ranks
device: cpu
ranks_per_node: 2
flops: {f32: 2.0e9}
memory_bytes: 8.0e9
memory_bytes_per_second: 8.0e9
efficiency: {product: 0.8, grouped_product: 0.8, attention: 0.5, memory: 0.9}
kernel_us: 1
host_us: 0
inside_node: {latency_us: 2, bytes_per_second: 1.0e9}
between_nodes: {latency_us: 10, bytes_per_second: 2.0e8, ports_per_node: 2}
"""


def base_of(bench, model):
    text = f"piper: 1\nmodel: {{batch: {harness.BATCH}}}\noptimizer: {{sgd: {json.dumps(harness.values_of(model, 'sgd'))}}}\n"
    if per_microbatch := zoo.MODELS[model].per_microbatch:
        text += f"per_microbatch: {json.dumps(list(per_microbatch))}\n"
    path = bench.work / f"{model}.base.yaml"
    path.write_text(text)
    return path


def search_command(bench, model, target, out, *flags):
    return [bench.bin / "piperc", bench.exported(model), "--strategy", base_of(bench, model), "--search", out, "--target", target, "--nodes", 2,
            *flags]


def priced(bench, model, file, target):
    plans = file.with_suffix(".plans")
    bench.call([bench.bin / "piperc", bench.exported(model), "--strategy", file, "-o", plans])
    bench.call([bench.bin / "piper-plan", "verify", plans])
    told = json.loads(bench.call([bench.bin / "piper-plan", "simulate", plans, "--target", target, "--json"]))
    return plans, told["step_us"], max(rank["peak_bytes"] for rank in told["ranks"])


def trains(bench, agreement, model, plans, label):
    losses, gradients, _ = harness.torch_training(model, "sgd")
    result = bench.run(plans, model, 4)
    faults = harness.loss_faults(result.losses, losses, 1e-5) + harness.gradient_faults(result.gradients, gradients)
    agreement.add(f"{model:12s} {label:14s}", result.losses, losses, faults)


def searched(bench, agreement, model, target):
    faults = []
    out = bench.work / f"{model}.found"
    told = json.loads(bench.call(search_command(bench, model, target, out, "--keep", 3, "--candidates", 20, "--json")))
    print(f"{model}: {told['points']} points, {told['priced']} compiled whole, {told['compiled']} compilations; "
          f"{told['strategies'][0]['strategy']}", flush=True)
    if not told["complete"] or told["least_us"] > told["strategies"][0]["step_us"]:
        faults.append(f"{model}: the search did not come to its end")
    for row in told["strategies"]:
        plans, step_us, peak_bytes = priced(bench, model, out / row["file"], target)
        if abs(step_us / row["step_us"] - 1) > 1e-9 or peak_bytes != row["peak_bytes"]:
            faults.append(f"{model} {row['file']}: {step_us} us, {peak_bytes} bytes, the table has {row}")
        if row["file"] == "01.yaml":
            trains(bench, agreement, model, plans, row["file"])
    plans, step_us, _ = priced(bench, model, out / "01.tuned.yaml", target)
    if step_us > told["strategies"][0]["step_us"] * (1 + 1e-9):
        faults.append(f"{model}: tuning made the first slower")
    trains(bench, agreement, model, plans, "01.tuned.yaml")
    again = bench.work / f"{model}.again"
    bench.call(search_command(bench, model, target, again, "--keep", 3, "--candidates", 20))
    for name in ("01.yaml", "02.yaml", "03.yaml", "01.tuned.yaml", "table.md", "rejected.md", "tradeoff.html"):
        if (out / name).read_bytes().replace(bytes(out), b"") != (again / name).read_bytes().replace(bytes(again), b""):
            faults.append(f"{model}: {name} is another one in a second search")
    return faults


def stages_of_experts(bench, agreement, target):
    """Stages and groups of experts in one strategy."""
    out = bench.work / "stages_of_experts"
    bench.call(search_command(bench, "moe_stacked", target, out, "--keep", 1, "--candidates", 1, "--fix", "pp=2", "--fix", "ep=2"))
    plans, _, _ = priced(bench, "moe_stacked", out / "01.yaml", target)
    trains(bench, agreement, "moe_stacked", plans, "pp=2 ep=2")


def interrupted(bench, target):
    """SIGINT as soon as it has begun, and a budget that is over at once: the best so far, or the error that says there is none."""
    out = bench.work / "interrupted"
    words = [str(word) for word in search_command(bench, "llama", target, out, "--candidates", 1, "--within", 0)]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(1.5)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=300)
    if run.returncode == 0 and (out / "01.yaml").exists():
        return []
    return [] if run.returncode == 1 and "P0271" in said else [f"an interrupted search ended with {run.returncode}: {said}"]


class Words(torch.nn.Module):
    """Logits of one sample are 196 MiB, of three they are made in blocks."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 50257, bias=False)

    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.last(torch.tanh(self.first(x))).flatten(0, 1), labels.flatten())


def blocks_fit(bench):
    model, base, target, plans, out = (bench.work / f"words{end}" for end in (".pt2", ".yaml", ".target.yaml", ".plans", ".found"))
    samples, tokens = 6, 1024
    batch = torch.zeros(samples, tokens, 8), torch.zeros(samples, tokens, dtype=torch.int64)
    torch.export.save(torch.export.export(Words(), batch, dynamic_shapes=({0: torch.export.Dim("B")},) * 2), model)
    base.write_text(f"piper: 1\nmodel: {{batch: {samples}}}\noptimizer: {{sgd: {{lr: 0.1}}}}\n")
    target.write_text(MACHINE.replace("ranks_per_node: 2", "ranks_per_node: 1").replace(", ports_per_node: 2", ""))
    bench.call([bench.bin / "piperc", model, "--strategy", base, "-o", plans])
    peak = json.loads((plans / "manifest.json").read_text())["ranks"][0]["peak_bytes"]
    if peak > 4 * samples * tokens * 50257:
        return [f"the peak of {peak} bytes holds all logits: no blocks were made"]
    code, said = bench.end_of([bench.bin / "piperc", model, "--strategy", base, "--search", out, "--target", target, "--nodes", 1,
                               "--memory-limit", peak, "--fix", "microbatches=1", "--candidates", 1])
    return [] if code == 0 and (out / "01.yaml").exists() else [f"a strategy that fits in {peak} bytes is not found: {said}"]


def fits(bench, target):
    faults = []
    path = bench.exported("llama")
    said = bench.call([bench.bin / "piper-plan", "fits", path, "--target", target, "--ranks", 4])
    print(said, end="")
    if not said.startswith("fits on 4 ranks: ") or said.count("\n") != 1:
        faults.append(f"fits says: {said}")
    code, said = bench.end_of([bench.bin / "piper-plan", "fits", path, "--target", target, "--ranks", 2, "--memory-limit", "40KB"])
    if code != 1 or "P0271" not in said or " more than the limit: " not in said:
        faults.append(f"a model that does not fit: {code}, {said}")
    return faults


def main():
    bench = harness.bench_in_empty_folder(__doc__)
    target = bench.work / "target.yaml"
    target.write_text(MACHINE)
    agreement = harness.Agreement()
    faults = [fault for model in ("gpt", "llama", "moe_stacked") for fault in searched(bench, agreement, model, target)]
    stages_of_experts(bench, agreement, target)
    faults += interrupted(bench, target) + blocks_fit(bench) + fits(bench, target)
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(1)
    agreement.exit()


if __name__ == "__main__":
    main()
