#!/usr/bin/env python3
"""V-Half (Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362): half of 1F1B's activations. Rank r has
stages r and 2R-1-r.

Published (the paper, and the table of huggingface.co/spaces/sail/pipeline-parallelism-with-controllable-memory): activations of
(R+2)//2 microbatches of a rank, two stages each; idle time R/2 of (F+BI+BW) of a rank, against R for 1F1B."""
from building_block import from_block
from piper_strategy import main


def v_half(ranks, microbatches):
    """Forwards go down at two units a rank and up at one, backwards so, too: a rank's four passes fall into different units of
    the period of six where the turn waits three units for an even number of ranks."""
    turn = 3 * ranks - 1 + (3 if ranks % 2 == 0 else 0)
    return from_block([(2 * r, 3 * ranks - 2 - r, turn + 2 * r, turn + 3 * ranks - 1 - r) for r in range(ranks)], microbatches)


if __name__ == "__main__":
    main(v_half, __doc__)
