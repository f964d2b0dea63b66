#!/usr/bin/env python3
"""V-Min (Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362): a third of 1F1B's activations. Rank r has
stages r and 2R-1-r.

Published (the paper, and the table of huggingface.co/spaces/sail/pipeline-parallelism-with-controllable-memory): activations of
(R+4)//3 microbatches of a rank, two stages each; idle time 2R/3 of (F+BI+BW) of a rank, against R for 1F1B. Both
where F, BI and BW take the same: with other times a rank waits in every period."""
from building_block import from_block
from piper_strategy import main


def v_min(ranks, microbatches):
    """Forwards and backwards pass a rank a unit: the shortest life that a microbatch can have. Where the number of ranks is a
    multiple of three the turn waits two units, or passes of one rank would fall into the same unit of the period."""
    turn = 2 * ranks + (2 if ranks % 3 == 0 else 0)
    return from_block([(r, 2 * ranks - 1 - r, turn + r, turn + 2 * ranks - 1 - r) for r in range(ranks)], microbatches)


if __name__ == "__main__":
    main(v_min, __doc__)
