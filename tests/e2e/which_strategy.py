#!/usr/bin/env python3
"""The commands of docs/which-strategy.md, as the page has them (pages.py).

  which_strategy.py --bin BIN --work FOLDER
"""
import pages


def written(work):
    faults = [f"{name} is missing" for name in ("found/01.yaml", "found/01.tuned.yaml", "found/table.md", "found/rejected.md", "found/tradeoff.html",
                                                "plans/manifest.json") if not (work / name).is_file()]
    narrow = (work / "narrow" / "01.yaml").read_text()
    return faults + ([] if "pp: 2" in narrow and "tp" not in narrow.split("mesh")[1] else ["--fix was not kept"])


if __name__ == "__main__":
    pages.main("which-strategy.md", __doc__, {"sh": 6, "yaml": 1, "python": 1}, ("strategies",), written)
