#!/usr/bin/env python3
"""DualPipeV (DeepSeek-V3, github.com/deepseek-ai/DualPipe): rank r has stages r and 2R-1-r, and in the middle of the step a
forward of one and a backward of the other share a slot. The family dualpipev; at least 2R microbatches."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from piper_strategy import BI, BW, AuthorError, B, F, main, overlap  # noqa: E402

DOWN, UP = 0, 1     # the two stages of a rank


def dualpipev(ranks, microbatches):
    if microbatches < 2 * ranks:
        raise AuthorError(f"dualpipev.py: {microbatches} microbatches are fewer than two a rank, of {ranks} ranks")
    return [row_of(ranks, microbatches, rank) for rank in range(ranks)]


def row_of(ranks, microbatches, rank):
    stage = (rank, 2 * ranks - 1 - rank)
    done = {F: [0, 0], B: [0, 0]}
    row, weights = [], []

    def take(make, way):                # the next forward or backward of a direction
        m = done[make][way]
        done[make][way] += 1
        return make(stage[way], m)

    def input_half(way):                # a backward of which the weight half waits
        whole = take(B, way)
        weights.append(BW(whole.stage, whole.microbatch))
        row.append(BI(whole.stage, whole.microbatch))

    after = ranks - 1 - rank            # ranks after this one
    row += [take(F, DOWN) for _ in range(2 * after)]
    row += [take(F, way) for _ in range(rank + 1) for way in (DOWN, UP)]
    for _ in range(after):
        input_half(UP)
        row += [weights.pop(0), take(F, UP)]
    for i in range(microbatches - 2 * ranks + rank + 1):
        first = (take(F, DOWN), take(B, UP))
        row += first if i == 0 and after == 0 else [overlap(*first)]     # on the last rank both wait for a neighbour here
        row.append(overlap(take(F, UP), take(B, DOWN)))
    for _ in range(after):
        row += [take(B, UP), overlap(take(F, UP), take(B, DOWN))]
    for k in range(2 * (rank + 1)):
        way = DOWN if k % 2 else UP
        if k < rank + 1:
            row.append(take(B, way))
        else:
            input_half(way)
    for _ in range(after):
        row.append(weights.pop(0))
        input_half(DOWN)
    return row + weights


if __name__ == "__main__":
    main(dualpipev, __doc__)
