#!/usr/bin/env python3
"""tools/check/lint.py does not read again what passed, whichever checkout it lies in, and reads all that differs.

  lint_remembers.py WORK COMPILER
"""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "check"))
import lint  # noqa: E402


def checkout(root: pathlib.Path) -> pathlib.Path:
    (root / "compiler").mkdir(parents=True)
    (root / "build" / "lint").mkdir(parents=True)
    (root / "compiler" / "part.h").write_text("int part();\n")
    (root / "compiler" / "part.cc").write_text('#include "compiler/part.h"\nint part() { return 1; }\n')
    return root


def main():
    work, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    shutil.rmtree(work, ignore_errors=True)
    first, second, passed = checkout(work / "first"), checkout(work / "second"), work / "passed"
    lint.forget_unused(passed)
    faults = []

    def asks(what, root, wanted, *flags, tool="alone", says=""):
        """Whether the tool is asked what it says of the source."""
        lint.ROOT, lint.COMMANDS = root, root / "build" / "lint" / "compile_commands.json"
        lint.digest_of.cache_clear()
        asked = []
        command = [compiler, f"-I{root}", *flags, "-o", "part.o", "-c", str(root / "compiler" / "part.cc")]
        said = lint.unless_passed(passed, tool, command, lambda: asked.append(what) or says)
        if bool(asked) != wanted or said != (says if asked else ""):
            faults.append(what)
            print(f"{what}: it is {'asked' if asked else 'not asked'}, and says {said!r}")

    asks("the first time", first, True)
    asks("the same again", first, False)
    asks("the same in another checkout", second, False)
    asks("another tool", first, True, tool="tidy")
    asks("another flag", first, True, "-DLARGE")
    (second / "compiler" / "part.h").write_text("int part();  // NOLINT\n")
    asks("a comment of a header", second, True, says="a fault")
    asks("what failed", second, True, says="a fault")
    (second / "compiler" / "part.h").unlink()
    asks("a header that is not there", second, True, says="no header")
    asks("the header that is not there, again", second, True)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
