#!/usr/bin/env python3
"""Looped breadth-first pipelines (Lamy-Poirier, "Breadth-First Pipeline Parallelism", arXiv 2211.05953): rank r has stages
r, r + R, ..., and every microbatch passes a stage before the rank's next one begins. So sharded parameters of a stage are
gathered once a direction, and reductions of a stage hide behind the next.

The paper's section 3: idle time (R-1)(F+B) of one stage, which is 1/v of that of one deep stage a rank; activations of all
microbatches of all v stages. At least R microbatches."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from piper_strategy import B, F, main  # noqa: E402


def looped_breadth_first(ranks, microbatches, stages_per_rank=2):
    rows = []
    for rank in range(ranks):
        stages = range(rank, ranks * stages_per_rank, ranks)
        rows.append([F(stage, m) for stage in stages for m in range(microbatches)]
                    + [B(stage, m) for stage in reversed(stages) for m in range(microbatches)])
    return rows


if __name__ == "__main__":
    main(looped_breadth_first, __doc__)
