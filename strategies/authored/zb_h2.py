#!/usr/bin/env python3
"""ZB-H2 (Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.2): more forwards in front than 1F1B, and
weight halves that trail by two microbatches per rank in front, so that no rank is idle between its first and its last pass.

The paper's table 2: idle time of a rank's span (R-1)(F + BI - 2 BW), 0 where all three take the same; activations at the peak
2R-1 microbatches. At least 2R-1 microbatches."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from piper_strategy import BI, BW, F, main  # noqa: E402


def zb_h2(ranks, microbatches):
    rows = []
    for rank in range(ranks):
        warm_up, trail = 2 * (ranks - rank) - 1, 2 * rank
        row = [F(rank, m) for m in range(min(warm_up, microbatches))]
        for m in range(microbatches):
            row.append(BI(rank, m))
            if m >= trail:
                row.append(BW(rank, m - trail))
            if warm_up + m < microbatches:
                row.append(F(rank, warm_up + m))
        rows.append(row + [BW(rank, m) for m in range(max(microbatches - trail, 0), microbatches)])
    return rows


if __name__ == "__main__":
    main(zb_h2, __doc__)
