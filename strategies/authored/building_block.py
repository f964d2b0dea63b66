"""Schedules from the passes of one microbatch, repeated (Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv
2405.15362): what v_half and v_min share.

A block says when each rank runs one microbatch, in units of a pass, with F = BI = BW; the next microbatch follows a period
later. How long a pass of the block is alive decides how much memory the schedule takes. The order of forwards and input halves
is that of the repeated blocks; each rank runs the next of them as soon as it can, and a weight half where it cannot, within the
memory that the repeated blocks take ("squeezing" in the paper).
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from piper_strategy import BI, BW, F, needs_of, play  # noqa: E402

PERIOD = 6      # two stages a rank, three passes each


def repeated(block, microbatches):
    """[rank] -> {time: pass}, forwards and input halves alone. block[rank]: times of F of stage r, F and BI of stage 2R-1-r,
    BI of stage r."""
    ranks = len(block)
    timed = []
    for rank, starts in enumerate(block):
        down, up = rank, 2 * ranks - 1 - rank
        makers = ((F, down), (F, up), (BI, up), (BI, down))
        timed.append({start + PERIOD * m: make(stage, m)
                      for m in range(microbatches) for start, (make, stage) in zip(starts, makers)})
    return timed


def with_weights_in_gaps(timed):
    """The repeated blocks as they are, a weight half in each free unit of time."""
    rows = []
    for passes in timed:
        row, weights = [], []
        for time in range(max(passes) + 1):
            if time in passes:
                row.append(passes[time])
                weights += [BW(p.stage, p.microbatch) for p in row[-1:] if p.kind == "BI"]
            elif weights:
                row.append(weights.pop(0))
        rows.append(row + weights)
    return rows


def from_block(block, microbatches):
    timed = repeated(block, microbatches)
    limit = max(play(with_weights_in_gaps(timed)).peak)         # stages' activations a rank
    queues = [[passes[time] for time in sorted(passes)] for passes in timed]
    ranks, total = len(block), 3 * 2 * microbatches
    rows, weights, alive, ended = [[] for _ in block], [[] for _ in block], [0] * ranks, set()
    while any(len(row) < total for row in rows):                # a unit of time
        begun = []
        for rank, queue in enumerate(queues):
            step = queue[0] if queue else None
            ready = step and all(need in ended for need in needs_of(step, 2 * ranks - 1))
            if ready and (step.kind == "BI" or alive[rank] < limit):
                begun.append((rank, queue.pop(0)))
            elif weights[rank]:
                begun.append((rank, weights[rank].pop(0)))
        for rank, step in begun:
            rows[rank].append(step)
            alive[rank] += {"F": 1, "BI": 0, "BW": -1}[step.kind]
            if step.kind == "BI":
                weights[rank].append(BW(step.stage, step.microbatch))
            ended.add((step.stage, step.microbatch, {"F": "F", "BI": "I", "BW": "W"}[step.kind]))
    return rows
