#!/usr/bin/env python3
"""Several stages a rank: rank r has r, r + R, ... (Narayanan et al., Megatron-LM, 2021). The families interleaved_1f1b and
interleaved_zero_bubble; microbatches are a multiple of the ranks."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from piper_strategy import BI, BW, AuthorError, B, F, main  # noqa: E402


def units(ranks, microbatches, rank, chunks):
    """(stage, microbatch) in groups of as many microbatches as ranks, within a group chunk after chunk."""
    return [(rank + chunk * ranks, m) for group in range(0, microbatches, ranks) for chunk in chunks
            for m in range(group, group + ranks)]


def interleaved(ranks, microbatches, stages_per_rank=2, split=False):
    if microbatches % ranks:
        raise AuthorError(f"interleaved.py: {microbatches} microbatches are no multiple of {ranks} ranks")
    rows = []
    for rank in range(ranks):
        down = units(ranks, microbatches, rank, range(stages_per_rank))
        up = units(ranks, microbatches, rank, range(stages_per_rank)[::-1])
        warm_up = min((1 if split else 2) * (ranks - 1 - rank) + (stages_per_rank - 1) * ranks, len(down))
        row = [F(*unit) for unit in down[:warm_up]]
        for k, unit in enumerate(up):
            row += [F(*forward) for forward in down[warm_up + k:warm_up + k + 1]]
            row += [BI(*unit)] + ([BW(*up[k - rank])] if k >= rank else []) if split else [B(*unit)]
        rows.append(row + ([BW(*unit) for unit in up[max(len(up) - rank, 0):]] if split else []))
    return rows


def interleaved_zero_bubble(ranks, microbatches):
    return interleaved(ranks, microbatches, split=True)


if __name__ == "__main__":
    main(interleaved, __doc__)
