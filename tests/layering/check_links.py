#!/usr/bin/env python3
"""Every relative link of a page leads to a file of the tree, and every anchor to a heading.

  check_links.py ROOT
"""
import functools
import pathlib
import re
import sys

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
PLACES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "schemas", "strategies", "tests", "tools", "compiler", "runtime", "launcher")


@functools.lru_cache(None)
def anchors(page: pathlib.Path) -> frozenset[str]:
    """The anchors of its headings, as a reader of Markdown makes them: lower case, no punctuation, spaces as dashes, a number where one repeats."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+\s+(.*?)\s*$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return frozenset(found)


def pages(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(page for place in PLACES for page in ([root / place] if (root / place).is_file() else (root / place).rglob("*.md")))


def faults_of(root: pathlib.Path, page: pathlib.Path) -> list[str]:
    faults = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        name = page.relative_to(root)
        if not target.exists():
            faults.append(f"{name}: leads to {link}, which does not exist")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            faults.append(f"{name}: leads to {link}, which has no such heading")
    return faults


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    found = pages(root)
    faults = [fault for page in found for fault in faults_of(root, page)]
    for fault in faults:
        print(fault)
    print(f"{len(found)} pages, {len(faults)} faults")
    return 1 if faults or not found else 0


if __name__ == "__main__":
    sys.exit(main())
