#!/usr/bin/env python3
"""Every page of docs/ is found: within two clicks of docs/README.md, and by its own title in the list of its folder.

  check_index.py ROOT      PIPER_UPDATE_GENERATED=1 writes the lists of docs/errors and docs/decisions anew

Between their markers the README of these two folders lists all pages of the folder, with the titles that the pages have.
"""
import os
import pathlib
import re
import sys

from check_links import CODE, LINK

MOST_CLICKS = 2
BETWEEN = re.compile(r"(<!-- pages -->\n).*?(<!-- /pages -->)", re.DOTALL)
# Pages of a folder by their names, and the heading of each part of the list: a prefix of the name.
LISTED = {
    "errors": (r"[LPR]\d{4}", {"P01": "Files and syntax", "P02": "Strategies", "P03": "Models", "P04": "The compiler's own rules, and gradients", "P05": "Making plans",
                               "P06": "Plan bundles, weights, and the proof", "R01": "Starting ranks", "R02": "Data", "R03": "Messages between ranks",
                               "R04": "Kernels, memory, devices", "R05": "Loading weights", "R06": "Logs", "R07": "Checkpoints", "R08": "Losses that are not numbers, replicas, digests",
                               "R09": "Rings", "L01": "piper-launch and piperd"}),
    "decisions": (r"\d{4}-[\w-]+", {"": ""}),
}


def title(page: pathlib.Path) -> str:
    first = page.read_text().splitlines()[0]
    return re.sub(r"^# (?:[LPR]?\d+[:.]? )?", "", first)


def listing(folder: pathlib.Path) -> str:
    names, parts = LISTED[folder.name]
    pages = [page for page in sorted(folder.glob("*.md")) if re.fullmatch(names, page.stem)]
    text = ""
    for prefix, heading in parts.items():
        text += f"## {heading}\n\n" if heading else ""
        text += "| code | what is wrong |\n|---|---|\n" if heading else "| | |\n|---|---|\n"
        text += "".join(f"| [{page.stem if heading else page.stem[:4]}]({page.name}) | {title(page)} |\n" for page in pages if page.stem.startswith(prefix)) + "\n"
    left = [page.stem for page in pages if not page.stem.startswith(tuple(parts))]
    return text.rstrip() + "\n" + "".join(f"no part for {name}\n" for name in left)


def stale(folder: pathlib.Path) -> list[str]:
    index = folder / "README.md"
    text = index.read_text()
    fresh = BETWEEN.sub(lambda found: found[1] + listing(folder) + found[2], text)
    if os.environ.get("PIPER_UPDATE_GENERATED"):
        index.write_text(fresh)
    elif fresh != text or not BETWEEN.search(text):
        return [f"{folder.name}/README.md: is not the list of its pages; PIPER_UPDATE_GENERATED=1 writes it"]
    return []


def clicks(docs: pathlib.Path) -> dict[pathlib.Path, int]:
    found, at = {docs / "README.md": 0}, [docs / "README.md"]
    for page in at:
        for link in LINK.findall(CODE.sub("", page.read_text())):
            target = (page.parent / link.partition("#")[0]).resolve()
            if not re.match(r"[a-z]+:", link) and target.suffix == ".md" and target.is_file() and target not in found:
                found[target] = found[page] + 1
                at.append(target)
    return found


def main() -> int:
    docs = pathlib.Path(sys.argv[1]).resolve() / "docs"
    faults = [fault for name in LISTED for fault in stale(docs / name)]
    ways, pages = clicks(docs), sorted(docs.rglob("*.md"))
    for page in pages:
        name = page.relative_to(docs)
        if page not in ways:
            faults.append(f"docs/{name}: no page leads to it from docs/README.md")
        elif ways[page] > MOST_CLICKS:
            faults.append(f"docs/{name}: is {ways[page]} clicks from docs/README.md, more than {MOST_CLICKS}")
    for fault in faults:
        print(fault)
    print(f"{len(pages)} pages, {len(faults)} faults")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
