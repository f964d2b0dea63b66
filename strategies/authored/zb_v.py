#!/usr/bin/env python3
"""ZB-V: rank r has stages r and 2R-1-r (Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241): the family zb_v."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from piper_strategy import BI, BW, F, main  # noqa: E402


def zb_v(ranks, microbatches):
    rows = []
    enough = max(2 * ranks - 1, microbatches)       # microbatches for which the rule is written
    for rank in range(ranks):
        row = []
        down, up = rank, 2 * ranks - 1 - rank
        done = {(make, stage): 0 for make in (F, BI, BW) for stage in (down, up)}

        def put(*steps):                # the next microbatch of each; those beyond the last are left out
            for make, stage in steps:
                m = done[make, stage]
                done[make, stage] += 1
                if m < microbatches:
                    row.append(make(stage, m))

        for _ in range(2 * (ranks - rank) - 1):
            put((F, down))
        for _ in range(rank):
            put((F, up), (F, down))
        for _ in range(ranks - rank):
            put((F, up), (BI, up), (BW, up))
        while done[F, up] < max(done[F, down], enough):
            if done[F, down] < enough:
                put((F, down))
            put((BI, down), (BW, down), (F, up), (BI, up), (BW, up))
        for _ in range(rank):
            put((BI, down), (BI, up))
        for _ in range(ranks - rank):
            put((BI, down), (BW, down))
        for stage in (up, down):
            while done[BW, stage] < done[BI, stage]:
                put((BW, stage))
        rows.append(row)
    return rows


if __name__ == "__main__":
    main(zb_v, __doc__)
