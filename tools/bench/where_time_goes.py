#!/usr/bin/env python3
"""Sums up a profile of piper-run: where the steps of each rank went.

  where_time_goes.py FILE [--runs 12]

Per rank and stream: time in runs (of it not on a processor: the machine gave it to others), in updates, in waits for events,
in communication, and between instructions (the executor's own time). Then the programs that compute longest, over all ranks.
"""
import argparse
import collections
import json
import re

KINDS = ("runs", "off processor", "updates", "waits", "communication", "between")


def kind_of(what):
    word = what.split(" ", 1)[0]
    return {"run": "runs", "update": "updates", "wait": "waits", "record": "between"}.get(word, "communication")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("--runs", type=int, default=12, help="programs to list")
    args = parser.parse_args()
    rows = [json.loads(line) for line in open(args.profile, encoding="utf-8")]
    sums = collections.defaultdict(lambda: dict.fromkeys(KINDS, 0.0))
    last, programs = collections.defaultdict(float), collections.Counter()
    for row in rows:
        key = (row["rank"], row["stream"])
        took = row["end_us"] - row["begin_us"]
        kind = kind_of(row["what"])
        sums[key][kind] += took
        if kind == "runs":
            sums[key]["off processor"] += max(0.0, took - row["cpu_us"])
            programs[re.match(r"run (\S+)", row["what"])[1]] += row["cpu_us"]
        # The first instruction begins when the step does: what comes before it is the step's start.
        sums[key]["between"] += row["begin_us"] - last[key]
        last[key] = row["end_us"]
    print(f"{'rank':>4} {'stream':24} {'end, ms':>8} " + " ".join(f"{k:>13}" for k in KINDS))
    for (rank, stream), times in sorted(sums.items()):
        print(f"{rank:>4} {stream:24} {last[rank, stream] / 1e3:8.2f} " + " ".join(f"{times[k] / 1e3:13.2f}" for k in KINDS))
    total = sum(programs.values())
    for name, us in programs.most_common(args.runs):
        print(f"{us / 1e3:10.2f} ms {100 * us / total:5.1f} %  {name}")


if __name__ == "__main__":
    main()
