"""Models are exported once for all tests: a folder with a name that is the digest of what an export depends on, in PIPER_TEST_EXPORTS
(tools/check.sh: one for all checkouts) or in the build's.

That is the text of the modules that say what the model is, of those that they name, of the exporter and of this file, the versions
of the packages, and the arguments. Tests that run beside each other wait for the one that exports.
"""
from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import sys
import time
import types
from collections.abc import Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = (ROOT / "tests", ROOT / "tools")
PACKAGES = ("torch", "onnx", "onnxscript", "transformers")
UNUSED_S = 14 * 24 * 3600    # what nobody asked for so long goes when something new comes


def sources_of(modules: Iterable[types.ModuleType]) -> list[pathlib.Path]:
    """Files of these modules and of the project's own that they name, that those name, and so on."""
    found, left = set(), list(modules)
    while left:
        module = left.pop()
        path = pathlib.Path(getattr(module, "__file__", None) or "/").resolve()
        if path in found or not any(folder in path.parents for folder in OURS):
            continue
        found.add(path)
        for value in list(vars(module).values()):
            owner = value if isinstance(value, types.ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
            if owner is not None:
                left.append(owner)
    return sorted(found)


@functools.cache
def versions() -> dict[str, str]:
    found = {"python": sys.version}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = ""
    return found


@functools.cache
def digest_of_sources(modules: tuple[types.ModuleType, ...]) -> bytes:
    digest = hashlib.sha256()
    for path in sources_of([*modules, sys.modules[__name__]]):
        digest.update(f"\n{path.relative_to(ROOT)}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def digest_of(modules: Iterable[types.ModuleType], arguments: dict) -> str:
    digest = hashlib.sha256(json.dumps([versions(), arguments], sort_keys=True).encode())
    digest.update(digest_of_sources(tuple(modules)))
    return digest.hexdigest()[:32]


def shared_folder(programs: pathlib.Path) -> pathlib.Path:
    """Where tests of these programs keep what they exported."""
    return pathlib.Path(os.environ.get("PIPER_TEST_EXPORTS") or programs.resolve().parent / "exports")


def exported_once(folder: pathlib.Path, name: str, modules: Iterable[types.ModuleType], arguments: dict,
                  write: Callable[[pathlib.Path], object]) -> pathlib.Path:
    """The path of a file `name`, which `write(path)` has made once, perhaps for another test; it may put files beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    entry = folder / digest_of(modules, arguments | {"name": name})
    with open(entry.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not entry.exists():
            remove_unused(folder)
            making = entry.with_suffix(".making")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            write(making / name)
            making.rename(entry)
        os.utime(entry)
    return entry / name


def remove_unused(folder: pathlib.Path):
    """Their locks stay: who waits for one must find it again."""
    for entry in folder.iterdir():
        if not entry.suffix and entry.stat().st_mtime < time.time() - UNUSED_S:
            with open(entry.with_suffix(".lock"), "w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                shutil.rmtree(entry)
