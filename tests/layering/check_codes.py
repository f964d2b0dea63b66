#!/usr/bin/env python3
"""Every error code is given by something, explained by a page, and seen by a test.

  check_codes.py ROOT

P codes are the rows of compiler/diag/codes.def, whose pages the unit test of diag compares word by word; R codes, the
runtime's, and L codes, the launcher's, are those that have a page in docs/errors. A source gives a code as a quoted word, or as error[CODE] in a text,
outside of comments. A test names it: a golden file in an expect-error, a C++ test outside of comments, a script or what
a script expects anywhere. The test of the diagnostics themselves gives codes that mean nothing there.
"""
import pathlib
import re
import sys

SOURCES = ("compiler", "schemas", "runtime", "launcher", "tools")
ROW = re.compile(r"^PIPER_CODE\((P\d{4}),", re.MULTILINE)
GIVEN = re.compile(r'(?:"|error\[)([LPR]0\d{3})["\]]')
WORD = re.compile(r"\b([LPR]0\d{3})\b")
NO_CASE = {"tests/unit/diag_test.cc"}
EXPECTED = re.compile(r"expect-error(?:@\+\d+)? (P0\d{3}):")
COMMENT = re.compile(r'//[^\n]*|("(?:[^"\\\n]|\\.)*")')


def without_comments(text: str) -> str:
    return COMMENT.sub(lambda found: found[1] or "", text)


def given(root: pathlib.Path) -> dict[str, str]:
    """Code -> a file that gives it."""
    files = [file for top in SOURCES for file in sorted((root / top).rglob("*")) if file.suffix in (".cc", ".h", ".def")]
    return {code: file.relative_to(root).as_posix() for file in files
            for code in GIVEN.findall(without_comments(file.read_text()))}


def named_by(file: pathlib.Path) -> list[str]:
    text = file.read_text()
    if file.suffix in (".pir", ".yaml"):
        return EXPECTED.findall(text)
    return WORD.findall(without_comments(text) if file.suffix in (".cc", ".h") else text)


def tested(root: pathlib.Path) -> set[str]:
    kinds = (".cc", ".h", ".py", ".sh", ".txt", ".pir", ".yaml")
    return {code for file in sorted((root / "tests").rglob("*"))
            if file.suffix in kinds and file.relative_to(root).as_posix() not in NO_CASE for code in named_by(file)}


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    rows = ROW.findall((root / "compiler/diag/codes.def").read_text())
    pages = {page.stem for page in (root / "docs/errors").glob("[LPR][0-9]*.md")}
    codes = sorted({*rows, *(page for page in pages if page.startswith(("L", "R")))})
    sources, tests = given(root), tested(root)
    faults = [f"{code}: nothing in {', '.join(SOURCES)} gives it" for code in codes if code not in sources]
    faults += [f"{code}: has no page in docs/errors" for code in codes if code not in pages]
    faults += [f"{code}: no test names it" for code in codes if code not in tests]
    faults += [f"{code}: {file} gives it, but it is no row of codes.def and has no page"
               for code, file in sorted(sources.items()) if code not in codes]
    faults += [f"{page}: docs/errors has a page of it, but it is no row of codes.def"
               for page in sorted(pages) if page not in codes]
    for line in faults:
        print(line)
    print(f"{len(codes)} codes, {len(faults)} faults")
    sys.exit(1 if faults or not codes else 0)


if __name__ == "__main__":
    main()
