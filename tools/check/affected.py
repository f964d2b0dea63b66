#!/usr/bin/env python3
"""Which tests a change can have broken: those whose programs, scripts or data are not what they were when the test last passed.

  affected.py select --build DIR     writes their numbers to DIR/affected.txt, as `ctest -I` reads them, and says how many there are
  affected.py record --build DIR     remembers which tests of DIR/tests.xml passed, and with what, in DIR/passed.json

A test reads what its command line names: its program, and the files of the sources and of the build. An end-to-end test also reads the
other scripts of its folder and all programs of piper, so any change of one of these affects it; `select` takes only the ones labelled
`smoke` of them, and never one labelled `slow`.
"""
import argparse
import functools
import hashlib
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.lru_cache(None)
def digest_of(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def labels(test: dict) -> list[str]:
    return next((item["value"] for item in test.get("properties", []) if item["name"] == "LABELS"), [])


def registered(build: pathlib.Path) -> list[dict]:
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)["tests"]


def digest(test: dict, build: pathlib.Path) -> str:
    """All that a test reads, as far as its command line shows."""
    words = [word for word in test.get("command", []) if not word.startswith(("--output=", "--format="))]
    files = {pathlib.Path(word) for word in words if word.startswith("/") and pathlib.Path(word).is_file()}
    scripts = {file.parent for file in files if file.suffix == ".py"}
    files |= {file for folder in scripts for file in folder.glob("*.py")}
    if str(build / "bin") in words:
        files |= {file for file in (build / "bin").iterdir() if file.is_file() and file.name.startswith("piper")}
    read = "".join(f"{file}={digest_of(file)}\n" for file in sorted(files) if file.is_relative_to(ROOT))
    return hashlib.sha256(("\n".join(words) + "\n" + read).encode()).hexdigest()


def passed(build: pathlib.Path) -> dict[str, str]:
    file = build / "passed.json"
    return json.loads(file.read_text()) if file.exists() else {}


def select(build: pathlib.Path):
    before, numbers, all_tests = passed(build), [], registered(build)
    for number, test in enumerate(all_tests, 1):
        of = labels(test)
        wanted = "slow" not in of and ("e2e" not in of or "smoke" in of) and "mutation" not in of
        if wanted and before.get(test["name"]) != digest(test, build):
            numbers.append(number)
    (build / "affected.txt").write_text("0,0,0," + ",".join(map(str, numbers)) if numbers else "")
    print(f"check: {len(numbers)} of {len(all_tests)} tests are affected")


def record(build: pathlib.Path):
    now = passed(build)
    tests = {test["name"]: test for test in registered(build)}
    for case in xml.etree.ElementTree.parse(build / "tests.xml").getroot().iter("testcase"):
        name = case.get("name")
        now.pop(name, None)
        if case.get("status") == "run" and name in tests:
            now[name] = digest(tests[name], build)
    (build / "passed.json").write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("select", "record"))
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    (select if arguments.verb == "select" else record)(arguments.build.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
