#!/usr/bin/env python3
"""Strategies before and after `piper-plan tune`, simulated and run with kernels that wait.

  tuned.py --bin build/release/bin --work DIR [--link 500,100000000] [--slower 20] [--rounds 3] [--steps 8] [--only NAME]...

Every file in strategies/, and 1F1B with experts, on the tests' models. `piper-run --calibrate` measures the kernels of both bundles;
the table, --slower times as long so that the executor's own time is small beside it, prices the tuning and the simulation, and is
what the ranks wait for (`piper-run --kernel-times`): so that more ranks than cores run as if each had a device. Every rank has
one port out and one in of what --link says, when it runs and in the simulation. Steps are the least of the rounds' medians, the two strategies run in turn.
"""
import argparse
import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import harness  # noqa: E402
import programs  # noqa: E402
import tuning  # noqa: E402


def machine(ranks, link):
    """A device and a port a rank. Rates of kernels do not matter: every call has a measured time."""
    latency, rate = link.split(",")
    level = f"{{latency_us: {latency}, bytes_per_second: {float(rate):.1f}, ports_per_node: {ranks}}}"
    return (f"name: ranks that wait, links of {link}\ndevice: cpu\nranks_per_node: {ranks}\nflops: {{f32: 1.0e9}}\nmemory_bytes: 1.0e9\n"
            "memory_bytes_per_second: 1.0e9\nefficiency: {product: 1, grouped_product: 1, attention: 1, memory: 1}\n"
            f"kernel_us: 0\nhost_us: 0\ninside_node: {level}\nbetween_nodes: {level}\ncollectives: direct\n")


def run(bench, plans, model, args, *flags):
    """The median step in milliseconds."""
    log = bench.work / "log.jsonl"
    bench.call([bench.bin / "piper-run", plans, "--data", bench.work / f"{model}.safetensors", "--steps", args.steps, "--threads", 1,
                "--log", log, *flags])
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return statistics.median(row["step_ms"] for row in rows[3:] if "step_ms" in row)


def calibrated(bench, plans, model, args):
    """Lines of a table: the kernels' times, so many times slower."""
    table = bench.work / "kernels.jsonl"
    run(bench, plans, model, args, "--calibrate", table)
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    return [json.dumps(row | {"us": row["us"] * args.slower}, separators=(",", ":")) for row in rows]


def compare(bench, strategy, args):
    """Measured and simulated steps in milliseconds, before and after."""
    model = tuning.model_of(strategy)
    plans = tuning.compiled(bench, model, strategy)
    world = json.loads((plans / "manifest.json").read_text())["world_size"]
    target, table = bench.work / "waiting.yaml", bench.work / "waiting.jsonl"
    target.write_text(machine(world, args.link))
    lines = calibrated(bench, plans, model, args)
    table.write_text("\n".join(lines) + "\n")
    out, _ = tuning.tuned(bench, model, plans, strategy, target, "--kernel-times", table)
    both = [plans, tuning.compiled(bench, model, out)]
    # Calls that only the tuned plans have; of those that both have, each is as it was when it was tuned.
    known = {json.loads(line)["call"] for line in lines}
    lines += [line for line in calibrated(bench, both[1], model, args) if json.loads(line)["call"] not in known]
    table.write_text("\n".join(lines) + "\n")
    told = [json.loads(bench.call([bench.bin / "piper-plan", "simulate", one, "--target", target, "--kernel-times", table, "--json"]))
            for one in both]
    rounds = [[run(bench, one, model, args, "--kernel-times", table, "--link-delay", args.link) for one in both]
              for _ in range(args.rounds)]
    return world, [min(column) for column in zip(*rounds)], [one["step_us"] / 1e3 for one in told]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--link", default="500,100000000", help="microseconds of every message, and bytes per second")
    parser.add_argument("--slower", type=float, default=20, help="times the kernels' own time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", action="append", help="a file's name without .yaml; experts: 1F1B with experts")
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    experts = bench.work / "experts.yaml"
    experts.write_text(tuning.EXPERTS)
    paths = [*sorted((ROOT / "strategies").glob("*.yaml")), experts]
    print(programs.load(), flush=True)
    print("| strategy | ranks | measured, ms: before, tuned | | simulated, ms: before, tuned | |\n|---|---|---|---|---|---|", flush=True)
    for path in paths:
        if args.only and path.stem not in args.only:
            continue
        world, real, told = compare(bench, path, args)
        print(f"| {path.stem} | {world} | {real[0]:.1f}, {real[1]:.1f} | {100 * (real[1] / real[0] - 1):+.1f} % | "
              f"{told[0]:.1f}, {told[1]:.1f} | {100 * (told[1] / told[0] - 1):+.1f} % |", flush=True)
    print(programs.load())


if __name__ == "__main__":
    main()
