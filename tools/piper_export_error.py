"""How the exporter says that a model cannot be exported: its error, and the model's own line."""
from __future__ import annotations

import contextlib
import pathlib
import sys
import traceback


class ExportError(ValueError):
    """The model cannot be exported so that it would train as it does in PyTorch."""


@contextlib.contextmanager
def told(what):
    """What torch raises here for reasons of its own is an ExportError, with its first cause and the model's line."""
    try:
        yield
    except ExportError:
        raise
    except Exception as error:
        cause = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, ExportError):    # raised while a tracer ran forward
            raise cause from error
        raise ExportError(f"{what}: {first_line(cause)}{_line_of(cause)}") from error


def _line_of(error):
    """" (file.py, line 3)": the innermost line of an error's traceback that is neither torch's nor the exporter's, or nothing."""
    found = [f for f, _ in traceback.walk_tb(error.__traceback__)
             if f.f_globals.get("__name__", "").split(".")[0] not in ("torch", "contextlib") and not _is_the_exporter(f)]
    frames = [(pathlib.Path(f.f_code.co_filename).name, line) for f, line in traceback.walk_tb(error.__traceback__) if f in found]
    return f" ({frames[-1][0]}, line {frames[-1][1]})" if frames else ""


def _is_the_exporter(frame):
    return pathlib.Path(frame.f_code.co_filename).name.startswith("piper_export")


def place():
    """The innermost line of the model's own code that is running."""
    frame = sys._getframe(1)
    while frame.f_back and (frame.f_globals.get("__name__", "").split(".")[0] == "torch" or _is_the_exporter(frame)):
        frame = frame.f_back
    return f"{pathlib.Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"


def first_line(error):
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
