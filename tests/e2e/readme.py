#!/usr/bin/env python3
"""The commands of README.md, as it has them (pages.py), and its picture, which is what they draw.

  readme.py --bin BIN --work FOLDER      PIPER_UPDATE_GENERATED=1 writes the picture anew
"""
import os
import shutil

import pages

PICTURE = "docs/pictures/schedule.svg"


def picture(work):
    drawn = work / PICTURE
    if os.environ.get("PIPER_UPDATE_GENERATED"):
        shutil.copy(drawn, pages.ROOT / PICTURE)
    same = drawn.read_bytes() == (pages.ROOT / PICTURE).read_bytes()
    return [] if same else [f"{PICTURE} is not what the last command draws; PIPER_UPDATE_GENERATED=1 writes it"]


def main():
    pages.main("../README.md", __doc__, {"sh": 5, "text": 3}, ("README.md", "tools", "strategies", "docs/pictures/", "build/release/bin"), picture)


if __name__ == "__main__":
    main()
