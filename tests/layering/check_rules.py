#!/usr/bin/env python3
"""The rules of the proof have one table.

  check_rules.py ROOT

docs/proof.md has a row with the number, code and title of each rule of schemas/verify/rules.def, in order; some source of the
proof refutes by each; and no other source of it spells a rule's number or code in a text.
"""
import pathlib
import re
import sys

RULE = re.compile(r'^PIPER_RULE\((\d+), (k\w+), "(P\d{4})", "([^"]+)"\)$', re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \| (P06\d\d) \| ([^|]+) \| ", re.MULTILINE)
SPELLED = re.compile(r'"(?:rules? \d|P063|P0641)[^"\n]*"')
COMMENT = re.compile(r"//[^\n]*")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    folder = root / "schemas/verify"
    rules = RULE.findall((folder / "rules.def").read_text())
    sources = {file.relative_to(root).as_posix(): COMMENT.sub("", file.read_text())
               for file in sorted(folder.rglob("*")) if file.suffix in (".cc", ".h")}
    faults = [f"{name}: {text} stands in rules.def" for name, source in sources.items() for text in SPELLED.findall(source)]
    faults += [f"rule {number}: nothing in schemas/verify refutes by Rule::{name}" for number, name, _, _ in rules
               if not any(re.search(rf"(violates|refuted|follow)\([^;]*Rule::{name}\b", source) for source in sources.values())]
    told = ROW.findall((root / "docs/proof.md").read_text())
    faults += [f"docs/proof.md: no row says `{number} | {code} | {title}`" for number, _, code, title in rules
               if (number, code, title) not in told]
    if [int(number) for number, _, _ in told] != sorted(int(number) for number, _, _ in told) or len(told) != len(rules):
        faults.append(f"docs/proof.md: {len(told)} rows for {len(rules)} rules, or out of order")
    for line in faults:
        print(line)
    print(f"{len(rules)} rules, {len(faults)} faults")
    sys.exit(1 if faults or not rules else 0)


if __name__ == "__main__":
    main()
