#!/usr/bin/env python3
"""The commands of docs/from-hugging-face.md, as the page has them (pages.py): from text and a folder of transformers to trained
weights there, with the same loss.

  from_hugging_face.py --bin BIN --work FOLDER
"""
import pages


def main():
    pages.main("from-hugging-face.md", __doc__, {"sh": 14, "text": 9, "python": 4, "yaml": 3})


if __name__ == "__main__":
    main()
