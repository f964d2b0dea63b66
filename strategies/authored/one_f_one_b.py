#!/usr/bin/env python3
"""One forward, one backward in turn (Narayanan et al., PipeDream-Flush, 2021): the family 1f1b, and with the backward split
into its halves the family zero_bubble (ZB-H1, Qi et al., arXiv 2401.10241)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from piper_strategy import BI, BW, B, F, main  # noqa: E402


def one_f_one_b(ranks, microbatches):
    rows = []
    for rank in range(ranks):
        warm_up = min(ranks - 1 - rank, microbatches)
        row = [F(rank, m) for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                row.append(F(rank, warm_up + m))
            row.append(B(rank, m))
        rows.append(row)
    return rows


def zero_bubble(ranks, microbatches):
    """The weight halves trail by as many microbatches as ranks are in front: they fill the time in which 1F1B waits."""
    rows = []
    for rank, row in enumerate(one_f_one_b(ranks, microbatches)):
        split = []
        for step in row:
            split.append(BI(rank, step.microbatch) if step.kind == "B" else step)
            if step.kind == "B" and step.microbatch >= rank:
                split.append(BW(rank, step.microbatch - rank))
        rows.append(split + [BW(rank, m) for m in range(max(microbatches - rank, 0), microbatches)])
    return rows


if __name__ == "__main__":
    main(one_f_one_b)
