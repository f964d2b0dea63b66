#!/usr/bin/env python3
"""How long each kernel call of a bundle takes here, and where a step goes: piper-run --calibrate, and its table.

  kernel_times.py --program PIPER_RUN --bench DIR --case NAME --out FILE [--device cuda|cpu] [--steps 4] [--rows 30] [--only WORD]
  kernel_times.py --table FILE [--rows 30] [--only WORD]

--bench, --case: a bundle of against_torch.py (DIR/bundles/NAME) and the tokens that it has drawn for it. FILE is what
`piper-plan simulate --target .. --kernel-times FILE` prices by.
"""
import argparse
import json
import pathlib
import subprocess
import sys

WARM_UP = 3


def table(file, steps, rows, only):
    """Calls by their part of a step, in microseconds."""
    calls = [json.loads(line) for line in file.read_text().splitlines()]
    total = sum(call["us"] * call["count"] for call in calls) / steps
    print(f"{len(calls)} distinct calls, {sum(call['count'] for call in calls) // steps} in a step, {total / 1e3:.2f} ms together")
    print("| part | us a step | us a call | calls a step | call |\n|---|---|---|---|---|")
    for call in sorted((call for call in calls if only in call["call"]), key=lambda call: -call["us"] * call["count"])[:rows]:
        took = call["us"] * call["count"] / steps
        print(f"| {took / total:.1%} | {took:.0f} | {call['us']:.1f} | {call['count'] / steps:g} | {call['call'][:150]} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--program")
    parser.add_argument("--bench", type=pathlib.Path)
    parser.add_argument("--case")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--only", default="", help="calls with this word alone")
    args = parser.parse_args()
    if args.table:
        return table(args.table, args.steps, args.rows, args.only)
    tokens = [path for end in ("u32.bin", "u8.bin") if (path := args.bench / f"{args.case}.{end}").exists()]
    if not tokens:
        raise SystemExit(f"against_torch.py has drawn no tokens for {args.case} in {args.bench}")
    subprocess.run([args.program, args.bench / "bundles" / args.case, "--data", tokens[0], "--sampling", "sequential", "--init", "normal:0.02",
                    "--device", args.device, "--steps", str(WARM_UP + args.steps), "--calibrate", args.out], check=True)
    table(args.out, args.steps, args.rows, args.only)


if __name__ == "__main__":
    sys.exit(main())
