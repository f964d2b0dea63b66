"""Checks of a script that goes on after one that fails, prints each in a line, and ends with what failed."""
faults = []


def check(what, fine, why=""):
    """`what`: as a fact. Whether it holds; where not, `why` is said after it."""
    print(f"{'ok    ' if fine else 'FAILED'} {what}" + ("" if fine else f": {why}"), flush=True)
    if not fine:
        faults.append(what)
    return fine
