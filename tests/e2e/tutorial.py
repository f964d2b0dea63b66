#!/usr/bin/env python3
"""The commands of docs/tutorial-schedule.md, as the page has them (pages.py).

  tutorial.py --bin BIN --work FOLDER
"""
import pages


def main():
    pages.main("tutorial-schedule.md", __doc__, {"sh": 6, "text": 4})


if __name__ == "__main__":
    main()
