"""Suites of models that nobody here wrote: each is exported, compiled and trained in several forms, and the ends are counted.

A suite has items by number, so that a share of them (--first, --count, --every) is another share than the next. Ends of items are
in a file of lines of JSON; what is there is not run again. An item that was begun and has no end has ended the process.
"""
from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib.util
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
sys.path.append(str(pathlib.Path(sys.prefix) / "suites"))    # where tools/setup.sh slow puts them
import compared_training  # noqa: E402
from compared_training import BENT, UNBOUNDED, End, Programs, Reference, Subject  # noqa: E402, F401

BATCH, STEPS, LR = 8, 2, 0.01


@dataclasses.dataclass(frozen=True)
class Form:
    """A model and the cuts of its batch: names, and numbers of pieces."""
    subject: Subject
    cuts: dict[str, int]
    known: Reference | None = dataclasses.field(default=None, kw_only=True)

    def reference(self):
        return self.known or Reference(self.subject)

    def write(self, programs, container):
        """An End where there is none."""
        return programs.exported(self.subject, container)


def strategy(pieces, lr):
    cut = f"directives:\n  - {{op: split, num_microbatches: {pieces}}}\n" if pieces > 1 else ""
    return f"piper: 1\nmodel: {{batch: {BATCH}}}\n{cut}optimizer: {{sgd: {{lr: {lr:.9f}}}}}\n"


def ends_of(programs, form, containers):
    """{"container, cut": End}; nothing where the other has no such model, and the reason."""
    reference, found = form.reference(), {}
    if reference.unfit.startswith(("PyTorch", "onnx")):
        return {}, reference.unfit
    programs.save_data(form.subject)
    for container in containers:
        end = form.write(programs, container)
        for cut, pieces in form.cuts.items():
            found[f"{container}, {cut}"] = end or trained(programs, container, strategy(pieces, form.subject.lr), reference)
    return found, ""


def trained(programs, container, text, reference):
    end = programs.run(container, text, reference)
    if end.kind == "refused" and end.text.startswith("P0421") and reference.trains_nothing():
        return End("left out", "its gradients are 0 in PyTorch, too: there is nothing to train")
    return end


def require(*modules):
    """Ends the script where tools/setup.sh slow has not installed them."""
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        print(f"[SKIP] no {', '.join(missing)}; run tools/setup.sh slow")
        sys.exit(0)


def arguments(text):
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--first", type=int, default=0, help="number of the first item")
    parser.add_argument("--count", type=int, default=1 << 30, help="how many items at most")
    parser.add_argument("--every", type=int, default=1, help="of these the first of every N")
    parser.add_argument("--only", default="", help="items whose name has this in it")
    parser.add_argument("--containers", default="pt2,onnx")
    parser.add_argument("--forms", default="", help="forms with one of these words, all by default")
    parser.add_argument("--results", type=pathlib.Path, help="lines of JSON, an item each; items in it are left out")
    parser.add_argument("--page", type=pathlib.Path, help="writes the table of all that is in the results to this file, and runs nothing")
    return parser


def read(results):
    """{name: row}, the last of each name."""
    rows = {}
    for line in results.read_text().splitlines() if results and results.exists() else ():
        row = json.loads(line)
        rows[row["name"]] = row
    return rows


def run(args, names, forms_of):
    """names: of all items. forms_of(name): its forms, or why it has none. Returns the rows of the share."""
    compared_training.quiet()
    programs, known = Programs(args.bin, args.work), read(args.results)
    args.all_items = len(names)
    if args.page:
        return {name: known[name] for name in names if name in known and "began" not in known[name]}
    chosen = [n for n in names[args.first:args.first + args.count:args.every] if args.only in n]
    for name in chosen:
        if name in known:
            if "began" in known[name]:
                known[name] = write(args, {"name": name, "ends": {"all": ["ended the process", ""]}})
            continue
        write(args, {"name": name, "began": True})
        known[name] = write(args, {"name": name, **row_of(programs, forms_of, name, args)})
        for where, (kind, text) in known[name].get("ends", {}).items():
            if End(kind).fails:
                print(f"FAILED {name}, {where}: {kind}: {text[:600]}", flush=True)
    return {name: known[name] for name in chosen}


def write(args, row):
    if args.results:
        with args.results.open("a") as results:
            results.write(json.dumps(row) + "\n")
    return row


def row_of(programs, forms_of, name, args):
    forms = forms_of(name)
    if isinstance(forms, str):
        return {"left out": forms}
    ends, left_out = {}, []
    for form in forms:
        form = dataclasses.replace(form, cuts={cut: pieces for cut, pieces in form.cuts.items() if not args.forms or cut in args.forms.split(",")})
        if not form.cuts:
            continue
        found, why = ends_of(programs, form, args.containers.split(","))
        ends.update({where: [end.kind, end.text[:300]] for where, end in found.items()})
        left_out += [why] if why else []
    return {"ends": ends, **({"left out": "; ".join(left_out)} if left_out else {})}


def code_of(kind, text):
    """By what the end is counted."""
    if kind != "refused":
        return kind
    return text[:5] if re.match(r"P\d{4}", text) else "the exporter"


def reason(kind, text):
    """One line, the same for all items that end so."""
    code = code_of(kind, text)
    text = re.sub(r"^P\d+\]: |^ExportError, ", "", text.split("\nhelp:")[0].split(" help: ")[0])
    text = re.sub(r"(model\.(pt2|onnx): |cannot import )?(tensor|initializer|node) '[^']*'( \([^)]*\))?( uses|:)? ?", "", text)
    text = re.sub(r"( of)? at [\w.]+:\d+|[,;:]? ?[<(].*", "", text)
    text = re.sub(r"(the operator )?'?aten\.[\w.]+'?", "the operator", text)
    text = re.sub(r"\s+", " ", re.sub(r"[-+]?\b\d[\d.e-]*\b", "N", text)).replace("|", "/").strip()[:110]
    return (code if kind == "refused" else kind) + (f": {text}" if text else "")


def counted(rows):
    """{where: Counter of ends}, and how many are wrong or have crashed."""
    counts, failing = collections.defaultdict(collections.Counter), 0
    for row in rows.values():
        for where, (kind, text) in row.get("ends", {}).items():
            counts[where][code_of(kind, text)] += 1
            failing += End(kind).fails
    return counts, failing


def report(args, rows, group_of):
    """Prints the counts, and writes them to the page; 1 where something is wrong or has crashed. group_of(name): what the page lists."""
    counts, failing = counted(rows)
    for where, found in sorted(counts.items()):
        print(f"{where}: {sum(found.values())}: " + ", ".join(f"{n} {kind}" for kind, n in found.most_common()))
    left = collections.Counter(re.sub(r"[\d.]+", "N", row["left out"])[:100] for row in rows.values() if not row.get("ends"))
    for why, count in left.most_common(12):
        print(f"{count:5} left out: {why}")
    print(f"{len(rows)} items, {failing} failures")
    if args.page:
        write_page(args.page, rows, args.all_items, counts, group_of)
    return 1 if failing or not counts else 0


def write_page(page, rows, all_items, counts, group_of):
    """The part of the page between the marks of this suite."""
    script = pathlib.Path(sys.argv[0]).name
    begin, end = f"<!-- {script}: written by tests/suites/{script} --page -->\n", f"<!-- /{script} -->\n"
    wheres = sorted(counts)
    kinds = sorted({kind for found in counts.values() for kind in found}, key=lambda k: (not k.startswith("right"), k))
    left_out = sum(not row.get("ends") for row in rows.values())
    lines = [f"{len(rows)} of the {all_items} items have run. For {left_out} of them, PyTorch or the suite has no such model. The table counts the results by container and form:", "",
             f"| result | {' | '.join(wheres)} |", "|---" * (len(wheres) + 1) + "|"]
    lines += [f"| {'refused: ' * bool(re.match('P[0-9]|the exp', kind))}{kind} | {' | '.join(str(counts[w][kind]) for w in wheres)} |" for kind in kinds]
    lines += [f"| all | {' | '.join(str(sum(counts[w].values())) for w in wheres)} |", ""]
    ends = collections.defaultdict(list)
    for name, row in rows.items():
        for kind, text in row.get("ends", {}).values():
            if kind != "left out":    # there is no such model
                ends[group_of(name)].append("right" if kind == "right" else reason(kind, text))
    right = sorted(group for group, found in ends.items() if set(found) == {"right"})
    lines += [f"Right in all forms ({len(right)} of {len(ends)}): {', '.join(f'`{g}`' for g in right)}.", "",
              "The others, by the reason that most of their runs give; in brackets how many runs are not right, of how many:", "",
              "| end | items |", "|---|---|"]
    others = collections.defaultdict(list)
    for group, found in sorted(ends.items()):
        bad = collections.Counter(why for why in found if why != "right")
        if bad:
            others[bad.most_common(1)[0][0]].append(f"`{group}` ({bad.total()} of {len(found)})")
    lines += [f"| {why} | {', '.join(groups)} |" for why, groups in sorted(others.items(), key=lambda entry: (-len(entry[1]), entry[0]))] + [""]
    text = page.read_text()
    before, _, rest = text.partition(begin)
    if not rest:
        raise SystemExit(f"{page} has no line {begin}")
    page.write_text(before + begin + "\n" + "\n".join(lines) + end + rest.partition(end)[2])
