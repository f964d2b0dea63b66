#!/usr/bin/env python3
"""A strategy of a real size that does not fit is tuned: the result is at most 1.03 times as slow as one that was made to fit by hand.

  tuned_by_hand.py --bin BIN --work DIR

The strategy by hand is a file of tests/e2e/by_hand; the start is the same without its recomputation, which needs more memory than an H100 has.
"""
import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bench"))
import harness  # noqa: E402
import real_sizes  # noqa: E402

BY_HAND = pathlib.Path(__file__).resolve().parent / "by_hand" / "llama_8b_zero3.yaml"
TARGET = ROOT / "strategies" / "targets" / "h100_node8.yaml"
MOST = 1.03


def costs(bench, model, strategy):
    """Step in microseconds, and the largest peak."""
    plans = bench.work / f"{strategy.stem}.plans"
    bench.call([bench.bin / "piperc", model, "--strategy", strategy, "--target", TARGET, "--weights", "none", "-o", plans])
    told = json.loads(bench.call([bench.bin / "piper-plan", "simulate", plans, "--target", TARGET, "--json"]))
    return told["step_us"], max(rank["peak_bytes"] for rank in told["ranks"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    bench = harness.Bench(args.bin, args.work)
    model, shape = bench.work / "llama_8b.pt2", real_sizes.MODELS["llama_8b"]
    if not model.exists():
        real_sizes.export(shape, real_sizes.config_of(shape, 8192, 0), 8192, model)
    start, out = bench.work / "start.yaml", bench.work / "tuned.yaml"
    start.write_text("".join(line for line in BY_HAND.read_text().splitlines(True) if "op: recompute" not in line))
    print(bench.call([bench.bin / "piperc", model, "--strategy", start, "--target", TARGET, "--weights", "none", "--tune", out]))
    (by_hand, hand_peak), (tuned, peak) = costs(bench, model, BY_HAND), costs(bench, model, out)
    print(f"by hand {by_hand / 1e3:.1f} ms, {hand_peak} bytes; tuned {tuned / 1e3:.1f} ms, {peak} bytes: {tuned / by_hand:.3f} times as long")
    if tuned > MOST * by_hand:
        sys.exit(f"tuned takes more than {MOST} times as long")


if __name__ == "__main__":
    main()
