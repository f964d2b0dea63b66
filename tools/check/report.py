#!/usr/bin/env python3
"""Says where the time of a check went, and which group of tests takes more than its share.

  report.py --phases FILE --build DIR --calibration SECONDS
  report.py --calibrate

--phases: lines "NAME SECONDS", what tools/check.sh did, in order. --build: the folder of the tests that ran: tests.xml is ctest's
JUnit file, test_times.txt has the processor seconds of each test (cmake/PiperTests.cmake). --calibration: the processor seconds that
--calibrate printed on this machine in the same run; 0: no budget. The last line counts what passed, failed and was skipped.

tests/budget.txt gives each group of tests a share: processor seconds on a machine on which the calibration loop takes one second. A
group above its share is named; one above twice its share fails the check (exit status 1), for then the check outgrows its limit unseen.
"""
import argparse
import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOWEST = 10


def calibrate() -> float:
    """Processor seconds of a fixed piece of work: the interpreter, and memory that a cache does not hold."""
    begin = time.process_time()
    total = 0
    for number in range(12_000_000):
        total += number * number % 7
    hashlib.sha256(bytes(512 << 20)).hexdigest()
    return time.process_time() - begin if total else 0.0


def shares() -> dict[str, float]:
    lines = (ROOT / "tests" / "budget.txt").read_text().splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line.strip() and not line.startswith("#")}


def groups_of(build: pathlib.Path) -> dict[str, str]:
    """The group of each test: its label "group:NAME"."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    found = {}
    for test in json.loads(shown.stdout)["tests"]:
        labels = next((item["value"] for item in test.get("properties", []) if item["name"] == "LABELS"), [])
        found[test["name"]] = next((label.removeprefix("group:") for label in labels if label.startswith("group:")), "none")
    return found


def tests_of(build: pathlib.Path, ends: collections.Counter) -> list[tuple[str, str, float, float]]:
    """For each test that ran: its group, its name, processor seconds, seconds on the wall. Counts in `ends` how tests ended."""
    measured = {}
    times = build / "test_times.txt"
    for line in times.read_text().splitlines() if times.exists() else []:
        name, user, system, _ = line.rsplit(" ", 3)
        measured[name] = float(user) + float(system)
    found = []
    groups = groups_of(build)
    for case in xml.etree.ElementTree.parse(build / "tests.xml").getroot().iter("testcase"):
        group = groups.get(case.get("name"), "none")
        end = {"run": "passed", "fail": "failed"}.get(case.get("status"), "skipped")
        ends[end] += 1
        if end != "skipped":
            wall = float(case.get("time", 0))
            found.append((group, case.get("name"), measured.get(case.get("name"), wall), wall))
    return found


def print_phases(file: pathlib.Path):
    print("\nWhere the time went")
    for line in file.read_text().splitlines():
        name, seconds = line.rsplit(" ", 1)
        print(f"  {name:<12} {int(seconds) // 60:3d} min {int(seconds) % 60:2d} s")


def print_groups(tests: list[tuple[str, str, float, float]], calibration: float) -> list[str]:
    """The table of groups. Returns those that take more than twice their share."""
    spent, counted = collections.Counter(), collections.Counter()
    for group, _, processor, _ in tests:
        spent[group] += processor
        counted[group] += 1
    budget, failed = shares(), []
    print(f"\nGroups of tests, processor seconds (the calibration loop takes {calibration:.2f} s)")
    for group, seconds in spent.most_common():
        share = budget.get(group, 0.0) * calibration
        word = "" if seconds <= share else "above its share" if seconds <= 2 * share else "MORE THAN TWICE ITS SHARE"
        failed += [group] if seconds > 2 * share else []
        print(f"  {group:<12} {counted[group]:4d} tests {seconds:7.0f} of {share:5.0f}  {word}".rstrip())
    print(f"  {'all':<12} {len(tests):4d} tests {sum(spent.values()):7.0f} of {sum(budget.values()) * calibration:5.0f}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phases", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--calibration", type=float)
    parser.add_argument("--calibrate", action="store_true")
    arguments = parser.parse_args()
    if arguments.calibrate:
        print(f"{calibrate():.3f}")
        return 0
    ends = collections.Counter()
    tests = tests_of(arguments.build, ends)
    print_phases(arguments.phases)
    print(f"\nThe {SLOWEST} slowest tests, seconds on the wall (processor)")
    for _, name, processor, wall in sorted(tests, key=lambda test: -test[3])[:SLOWEST]:
        print(f"  {wall:6.1f} ({processor:6.1f})  {name}")
    failed = print_groups(tests, arguments.calibration) if arguments.calibration else []
    for group in failed:
        print(f"check: group {group} takes more than twice its share: make its tests cheaper, or give it more of tests/budget.txt", file=sys.stderr)
    print(f"\n{ends['passed']} passed, {ends['failed']} failed, {ends['skipped']} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
