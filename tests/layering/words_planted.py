#!/usr/bin/env python3
"""check_words.py finds each of its patterns wherever people read, and nothing in sound prose.

  words_planted.py WORK

A small tree has a README, a page, an error text, a `--help` text and comments. As it is it passes; with the sample of a pattern
planted in any one of them it fails, and names the file and the line.
"""
import pathlib
import shutil
import subprocess
import sys

import check_words

COMMENTED = check_words.COMMENTS[0]    # a folder whose comments are read
# Words that look like a pattern's and are not: names, code, the words' other meanings.
SOUND = {
    "README.md": "# A tree\n\nNames are told apart by fields, and a number tells two runs apart.\n\n    piper-run stands behind\n\n"
                 "- an item\n\n        behind: code of an item\n\n```\nit tells all\n```\nIt stands for `behind()`. Nothing is left behind.\n",
    "docs/page.md": "A stand-in for CUDA. Communication hides behind compute. They are all the same.\n",
    "compiler/diag/codes.def": 'PIPER_CODE(P0001, "a key appears twice", "Of two values one is kept.", "Delete one.")\n',
    "tools/main.cc": 'int behind = told("stands");\n'
                     'app.add_option("--told", flags.told, "the step after which "\n               "a run ends")->check(in_front_of);\n',
    "tools/flags.py": 'import argparse\ntold = f"a {told[0]} of {tells}"\n',
    f"{COMMENTED}/one.yaml": "# Bubbles are small.\nbehind: 1\n",
    f"{COMMENTED}/two.py": '"""A schedule."""\nbehind = 1    # microbatches\n',
    f"{COMMENTED}/three.h": "// A schedule, of course.\nint behind(int stands);\n",
}
# Where a sample is planted: the kind of prose, the file, and how it looks there.
PLACES = (
    ("page", "README.md", lambda words: f"\nBefore it: {words}\n"),
    ("page", "docs/page.md", lambda words: f"\n| what | {words} |\n"),
    ("page", "docs/page.md", lambda words: f"\n    key: 1   # {words}\n"),
    ("text", "compiler/diag/codes.def", lambda words: f'PIPER_CODE(P0002, "a code", "Because {words}.", "Change it.")\n'),
    ("text", "tools/main.cc", lambda words: f'app.add_option("--step", flags.step, "so that {words}");\n'),
    ("text", "tools/main.cc", lambda words: 'app.add_option("--step", flags.step, "so that {} "\n    "{}");\n'.format(*words.rsplit(" ", 1))),
    ("text", "tools/flags.py", lambda words: f'parser.add_argument("--step", help="so that {words}")\n'),
    ("comment", f"{COMMENTED}/one.yaml", lambda words: f"#\n# {words}\n"),
    ("comment", f"{COMMENTED}/two.py", lambda words: f"\n\n# {words}\n"),
    ("comment", f"{COMMENTED}/two.py", lambda words: f'\n\ndef planted():\n    """{words}"""\n'),
    ("comment", f"{COMMENTED}/three.h", lambda words: f"\n// {words}\n"),
    ("comment", f"{COMMENTED}/three.h", lambda words: "int x;  // {}\n        // {}\n".format(*words.rsplit(" ", 1))),
)


def write(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for place in check_words.COMMENTS:    # of these the check asks that they exist
        if not (root / place).exists():
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_text("")


def checked(root: pathlib.Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, check_words.__file__, root], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(root, ignore_errors=True)
    write(root, SOUND)
    code, said = checked(root)
    faults = [f"the sound tree: {said}"] if code else []
    planted = 0
    for pattern in check_words.PATTERNS:
        for kind, name, of in PLACES:
            if pattern.of not in ("any", kind):
                continue
            planted += 1
            begin = SOUND[name].count("\n") + 1
            text = SOUND[name] + of(pattern.sample)
            write(root, {name: text})
            # In process: starting Python for each would take a minute.
            found = check_words.faults_of(root, name)
            if not found or not all(begin <= int(fault.split(":")[1]) <= text.count("\n") + 1 and pattern.better in fault for fault in found):
                faults.append(f"{name}: {of(pattern.sample)!r} gives {found}")
            write(root, {name: SOUND[name]})
    write(root, {"README.md": SOUND["README.md"] + "\nIt is seldom so.\n"})
    code, said = checked(root)
    if code != 1 or "README.md:" not in said:
        faults.append(f"the program, with a word planted in README.md: status {code}, {said}")
    for fault in faults:
        print(fault)
    print(f"{planted} words planted, {len(faults)} faults")
    return 1 if faults or not planted else 0


if __name__ == "__main__":
    sys.exit(main())
