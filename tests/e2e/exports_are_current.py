#!/usr/bin/env python3
"""An export that tests share is made once, and anew where something that it depends on has changed.

  exports_are_current.py --work DIR

Modules of a test's own stand for models; nothing is exported by PyTorch.
"""
import argparse
import importlib
import os
import pathlib
import shutil
import sys
import time

import exports
from checks import check, faults


class Models:
    """A module of a model, and one that it imports, in a folder that counts as the project's."""

    def __init__(self, work):
        self.work, self.cache, self.written = work, work / "exports", []
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        exports.ROOT, exports.OURS = work.resolve(), (work.resolve(),)
        sys.path.insert(0, str(work))
        self.edit("of_exports_part", "WIDTH = 3\n")
        self.edit("of_exports_model", "from of_exports_part import WIDTH as width\nimport of_exports_part\n")

    def edit(self, name, text):
        (self.work / f"{name}.py").write_text(text)
        exports.digest_of_sources.cache_clear()    # another process would read it

    def export(self, name="model.pt2", write=None, **arguments):
        def counted(path):
            self.written.append(name)
            path.write_text(str(len(self.written)))
        return exports.exported_once(self.cache, name, [importlib.import_module("of_exports_model")], arguments, write or counted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    models = Models(parser.parse_args().work)

    def count_is(what, count, *args, **arguments):
        path = models.export(*args, **arguments)
        check(what, len(models.written) == count and path.read_text() == str(count), f"{models.written}, {path.read_text()}")
        return path

    first = models.export(seed=1)
    check("the same one is not exported again", models.export(seed=1) == first and models.written == ["model.pt2"], models.written)
    count_is("another argument is another export", 2, seed=2)
    count_is("so is another name", 3, "model.onnx", seed=1)
    models.edit("of_exports_model", "import of_exports_part\nLAYERS = 2\n")
    count_is("a changed model is exported anew", 4, seed=1)
    models.edit("of_exports_part", "WIDTH = 4\n")
    count_is("so is one that imports what has changed", 5, seed=1)
    models.edit("of_exports_part", "WIDTH = 3\n")
    models.edit("of_exports_model", "from of_exports_part import WIDTH as width\nimport of_exports_part\n")
    check("changed back it is the first one", models.export(seed=1) == first and len(models.written) == 5, models.written)
    exports.versions()["torch"] = "another"
    count_is("another PyTorch exports anew", 6, seed=1)

    def fails(path):
        path.write_text("half")
        raise RuntimeError("not exported")
    try:
        models.export(write=fails, seed=7)
        check("a failure is told", False)
    except RuntimeError:
        pass
    count_is("what failed is tried again", 7, seed=7)

    def slowly(path):
        time.sleep(0.2)
        path.write_text(str(os.getpid()))

    def process_that_exports():
        process = os.fork()
        if process == 0:
            (models.work / f"read-{os.getpid()}").write_text(models.export(write=slowly, seed=8).read_text())
            os._exit(0)
        return process
    others = [process_that_exports() for _ in range(4)]
    ended = [os.waitpid(process, 0)[1] for process in others]
    read = {file.read_text() for file in models.work.glob("read-*")}
    check("of four at a time one exports", ended == [0] * 4 and len(read) == 1, f"{ended} {read}")
    check("there were four", len(list(models.work.glob("read-*"))) == 4)

    old = models.export(seed=8).parent
    os.utime(old, (0, 0))
    models.export(seed=9)
    check("what nobody asked for goes", not old.exists(), old)
    check("what was asked for stays", first.exists(), first)
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
