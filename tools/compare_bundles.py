#!/usr/bin/env python3
"""What two builds of piperc make of the same inputs: whether a change of the compiler changed a byte of any plan.

  compare_bundles.py --before DIR --after DIR [--only REGEX] [--jobs 2] [--keep DIR] [--strict] [--work DIR]
                     [--models DIR --strategies DIR] [--ignore KEY,KEY]

DIRs hold a piperc each. Both compile the files of strategies/ as their test does, every golden file with a COMPILE line, and every row
of the matrix of compositions. With --models and --strategies also what a user has: STRATEGIES/NAME/*.yaml with every .onnx and .pt2
file below MODELS/NAME, files right in STRATEGIES with every file below MODELS.

Compared are the exit status, every file of the bundle with its weights, what --emit=graph, dag, plan and --expand=yaml, csv print, and
the diagnostics of --verbose. Exit status: 1 where a bundle or an exit status differs, with --strict also where a printed text or a
diagnostic does; else 0. --keep keeps both sides of what differs. The tests' models are exported once, below --work
(build/compare_bundles), by PIPER_PYTHON or the python that tools/find_python.sh finds. --ignore leaves members of these names out of
the bundles' texts, and with them the texts' digests: whether two formats say the same except for new fields.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import difflib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
E2E, GOLDEN = ROOT / "tests" / "e2e", ROOT / "tests" / "golden"
LIMIT_S = 300            # a compile that takes longer hangs
DIFF_LINES, WIDTH, WINDOW = 12, 180, 100    # of what a diff shows, and of lines it looks at from the first change on


@dataclasses.dataclass(frozen=True)
class Pair:
    name: str
    model: str
    strategy: str
    sets: tuple[str, ...] = ()
    stop: str = ""               # the phase up to which texts are asked for even where the whole compile fails


# ------------------------------------------------------------------ what is compiled
def make_test_pairs(work):
    """Exports the models of the tests and lists what the tests compile with them; needs torch."""
    sys.path.insert(0, str(E2E))
    import compositions
    import compositions_table as table
    import harness
    import strategies_train
    pairs, bench = [], harness.Bench(".", work / "zoo")
    for path in sorted((ROOT / "strategies").glob("*.yaml")):
        for sgd in (False, True):
            pairs.append(Pair(f"strategies/{path.stem}{'-sgd' if sgd else ''}", str(bench.exported(strategies_train.model_of(path))), str(path),
                              tuple(strategies_train.with_optimizer([], sgd))))
    bench = compositions.Matrix(".", work / "compositions", "pt2")
    for row in table.ROWS.values():
        for optimizer in table.OPTIMIZERS:
            path = bench.work / f"{row.name}-{optimizer}.json"
            path.write_text(json.dumps(table.strategy(row, optimizer), indent=1))
            pairs.append(Pair(f"compositions/{path.stem}", str(bench.exported(row.model)), str(path)))
    (work / "pairs.json").write_text(json.dumps([dataclasses.asdict(pair) for pair in pairs]))


def test_pairs(work):
    """make_test_pairs, in a process of its own, where its list is older than what says what is in it."""
    made, makers = work / "pairs.json", [*E2E.glob("*.py"), *(ROOT / "strategies").glob("*.yaml"), *(ROOT / "tools").glob("piper_export*.py"), pathlib.Path(__file__)]
    if not made.exists() or made.stat().st_mtime <= max(maker.stat().st_mtime for maker in makers):
        python = os.environ.get("PIPER_PYTHON") or subprocess.run([ROOT / "tools" / "find_python.sh"], stdout=subprocess.PIPE, text=True).stdout.strip()
        if not python:
            raise SystemExit("the tests' models cannot be exported: set PIPER_PYTHON")
        print(f"exporting the tests' models to {work}", flush=True)
        work.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([python, __file__, "--export-to", work], capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
    return [Pair(**row | {"sets": tuple(row["sets"])}) for row in json.loads(made.read_text())]


def golden_pairs():
    for path in sorted(GOLDEN.rglob("*")):
        if path.suffix not in (".yaml", ".json"):
            continue
        said = collections.defaultdict(list)
        for key, value in re.findall(r"(?:#|//) +(COMPILE|SET|PARAMS): *(.*?) *$", path.read_text(), re.M):
            said[key].append(value)
        if said["COMPILE"]:
            stop = re.search(r"stop=(\w+)", " ".join(said["PARAMS"]))
            yield Pair(f"golden/{path.relative_to(GOLDEN).with_suffix('')}", str((path.parent / said["COMPILE"][0]).resolve()), str(path),
                       tuple(said["SET"]), stop[1] if stop else "")


def given_pairs(models, strategies):
    files = sorted(p.resolve() for p in models.rglob("*") if p.suffix in (".onnx", ".pt2"))
    for path in sorted(p.resolve() for p in strategies.rglob("*") if p.suffix in (".yaml", ".json")):
        folder = path.parent.relative_to(strategies.resolve())
        mine = [file for file in files if file.is_relative_to(models.resolve() / folder)]
        if not mine:
            raise SystemExit(f"no model below {models / folder} for {path}")
        for file in mine:
            yield Pair(f"given/{file.relative_to(models.resolve()).with_suffix('')}/{path.stem}", str(file), str(path))


# ------------------------------------------------------------------ what a piperc makes of it
@dataclasses.dataclass
class Made:
    statuses: list[int]
    files: dict[str, bytes]
    texts: dict[str, str]            # by the flags that print them
    diagnostics: str


def piperc(programs, pair, folder, flags):
    command = [str(programs / "piperc"), pair.model, "--strategy", pair.strategy, *(word for s in pair.sets for word in ("--set", s)), *flags]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return 124, "", f"took longer than {LIMIT_S} s\n"
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def without(ignored, name, content):
    """A file of a bundle without some members: of texts, and of the manifest's lines about these."""
    if not ignored or not name.endswith(".json"):
        return content
    def kept(value):
        if isinstance(value, dict):
            return {key: kept(member) for key, member in value.items() if key not in ignored}
        return [kept(item) for item in value] if isinstance(value, list) else value
    value = kept(json.loads(content))
    for file in value.get("files", []):
        if file["file"].endswith(".json"):
            del file["sha256"], file["bytes"]
    return json.dumps(value, indent=0).encode()


def make(programs, pair, folder, ignored=()):
    """Three processes where the compile succeeds, one where it fails. The bundle is `plans` in a folder per side: no text names the side."""
    folder.mkdir()
    status, text, diagnostics = piperc(programs, pair, folder, ("-o", "plans", "--weights", "copy", "--verbose", "--expand=yaml", "--emit=plan"))
    made = Made([status], {}, {"--expand=yaml --emit=plan": text}, diagnostics)
    plans = folder / "plans"
    made.files = {str(p.relative_to(plans)): without(ignored, p.name, p.read_bytes()) for p in sorted(plans.rglob("*")) if p.is_file()}
    for flags, stop in ((("--expand=csv", "--emit=dag"), "order"), (("--emit=graph",), "differentiate")):
        if status == 0 or pair.stop:
            code, text, _ = piperc(programs, pair, folder, (*flags, f"--stop-after={pair.stop or stop}"))
            made.statuses.append(code)
            made.texts[" ".join(flags)] = text
    return made


# ------------------------------------------------------------------ what differs
@dataclasses.dataclass
class Verdict:
    pair: Pair
    compiled: bool = True
    plans: str = ""                                       # how bundles or exit statuses differ; "": they do not
    texts: dict[str, str] = dataclasses.field(default_factory=dict)   # "diagnostics" or flags -> unified diff


def diff(before, after):
    """Some lines from the first change on: plans of a thousand lines are not worth a whole one."""
    a, b = before.splitlines(), after.splitlines()
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    begin = max(0, at - 1)
    lines = list(difflib.unified_diff(a[begin:at + WINDOW], b[begin:at + WINDOW], lineterm="", n=1))[2:]
    shown = [f"@@ line {at + 1}", *(line for line in lines if not line.startswith("@@"))]
    shown = [line if len(line) <= WIDTH else line[:WIDTH] + " ..." for line in shown]
    return "\n".join("    " + line for line in shown[:DIFF_LINES] + ["..."] * (len(shown) > DIFF_LINES))


def plans_differ(before, after):
    if before.statuses != after.statuses:
        return f"    exit status {before.statuses} before, {after.statuses} after\n" + diff(before.diagnostics, after.diagnostics)
    # The manifest last: it differs where anything does.
    names = sorted((n for n in before.files.keys() | after.files.keys() if before.files.get(n) != after.files.get(n)),
                   key=lambda n: (n == "manifest.json", n))
    if not names:
        return ""
    text = f"    {len(names)} of {len(before.files)} files: {' '.join(names[:6])}{' ...' if len(names) > 6 else ''}"
    for name in names:
        old, new = before.files.get(name), after.files.get(name)
        if old is None or new is None:
            text += f"\n    {name}: only {'after' if old is None else 'before'}"
        elif name.endswith(".json"):
            return f"{text}\n    {name}:\n{diff(old.decode(errors='replace'), new.decode(errors='replace'))}"
    return text


def compare(args, pair):
    with tempfile.TemporaryDirectory(prefix="compare_bundles.") as scratch:
        sides = {side: make(getattr(args, side), pair, pathlib.Path(scratch) / side, args.ignore) for side in ("before", "after")}
        before, after = sides["before"], sides["after"]
        verdict = Verdict(pair, before.statuses[0] == 0, plans_differ(before, after))
        for flags in sorted(before.texts.keys() | after.texts.keys()):
            if before.texts.get(flags, "") != after.texts.get(flags, ""):
                verdict.texts[flags] = diff(before.texts.get(flags, ""), after.texts.get(flags, ""))
        if before.diagnostics != after.diagnostics:
            verdict.texts["diagnostics"] = diff(before.diagnostics, after.diagnostics)
        if args.keep and (verdict.plans or verdict.texts):
            for side, made in sides.items():
                for flags, text in [*made.texts.items(), ("diagnostics", made.diagnostics)]:
                    (pathlib.Path(scratch) / side / f"{flags.replace(' ', '').strip('-')}.txt").write_text(text)
            shutil.copytree(scratch, args.keep / pair.name, dirs_exist_ok=True)
    return verdict


def tell(verdicts, seconds):
    """Bundles first, then what changed in texts, alike changes once. Returns how many pairs differ in bundles, and in texts."""
    differ, worded = [v for v in verdicts if v.plans], [v for v in verdicts if v.texts]
    for v in differ[:20]:
        print(f"DIFFERENT {v.pair.name}\n{v.plans}")
    if len(differ) > 20:
        print(f"DIFFERENT {len(differ) - 20} pairs more: {' '.join(v.pair.name for v in differ[20:])}")
    alike = collections.defaultdict(list)
    for v in worded:
        for what, text in v.texts.items():
            if what == "diagnostics" or not v.plans:    # what a changed plan prints follows from it
                alike[what, text.replace(v.pair.strategy, "FILE").replace(pathlib.Path(v.pair.strategy).name, "FILE")].append((v.pair.name, text))
    for (what, _), found in sorted(alike.items(), key=lambda item: item[0][0] != "diagnostics"):
        print(f"CHANGED {what}: {found[0][0]}" + (f" and {len(found) - 1} more, alike" if len(found) > 1 else "") + f"\n{found[0][1]}")
    kinds = collections.Counter(what for v in worded for what in v.texts)
    compiled = [v for v in verdicts if v.compiled]
    same, refused = sum(not v.plans for v in compiled), sum(not v.compiled and not v.plans for v in verdicts)
    print(f"{len(verdicts)} pairs: {same} of {len(compiled)} bundles identical, {refused} of {len(verdicts) - len(compiled)} refused alike, "
          f"{len(differ)} different; texts or diagnostics changed in {len(worded)}"
          + "".join(f", {what} in {count}" for what, count in sorted(kinds.items())) + f"; {seconds:.0f} s")
    return len(differ), len(worded)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, help="a folder of programs")
    parser.add_argument("--after", type=pathlib.Path, help="another")
    parser.add_argument("--models", type=pathlib.Path, help="further models, MODELS/NAME/*.onnx")
    parser.add_argument("--strategies", type=pathlib.Path, help="and what they are compiled with, STRATEGIES/NAME/*.yaml")
    parser.add_argument("--only", default="", help="pairs whose name (strategies/..., golden/..., compositions/..., given/...) this finds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path, help="where both sides of what differs are kept")
    parser.add_argument("--ignore", type=lambda text: set(text.split(",")), default=set(), help="members of texts that are not compared")
    parser.add_argument("--strict", action="store_true", help="changed texts and diagnostics are errors, too")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "compare_bundles")
    parser.add_argument("--export-to", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.export_to:
        make_test_pairs(args.export_to.resolve())
        return
    if not args.before or not args.after or bool(args.models) != bool(args.strategies):
        parser.error("--before and --after are needed; --models and --strategies go together")
    args.before, args.after = args.before.resolve(), args.after.resolve()
    for programs in (args.before, args.after):
        if not os.access(programs / "piperc", os.X_OK):
            parser.error(f"no piperc in {programs}")
    pairs = [*test_pairs(args.work.resolve()), *golden_pairs()]
    if args.models:
        pairs += given_pairs(args.models, args.strategies)
    pairs = [pair for pair in pairs if re.search(args.only, pair.name)]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        verdicts = list(pool.map(lambda pair: compare(args, pair), pairs))
    different, worded = tell(verdicts, time.monotonic() - began)
    sys.exit(1 if different or not pairs or (args.strict and worded) else 0)


if __name__ == "__main__":
    main()
