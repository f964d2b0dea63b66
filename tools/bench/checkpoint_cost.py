#!/usr/bin/env python3
"""What checkpoints cost: how long a snapshot keeps the training waiting, next to a memcpy of as many bytes, and how much slower
steps are while one is written.

  checkpoint_cost.py --bin build/release/bin --work DIR [--model wide] [--batch 16] [--every 12] [--saves 8] [--rounds 3]

One rank, one thread. Both are read from the ring of the run (schemas/live/ring_layout.h): the time from where the host begins to
save until it goes on, without its wait for a checkpoint before; the steps between the beginning and the end of the writer's work
against the steps in which it does nothing, of the same run. The memcpy is the C library's, between buffers of the checkpoint's
size whose pages are there, in turn with the runs.
"""
import argparse
import ctypes
import json
import shutil
import statistics
import struct
import subprocess
import time

import programs
from programs import Programs, load, spread

# schemas/live/ring_layout.h
TRACKS, CAPACITY, HEADER, TRACK, EVENT = 8, 9, 64, 8, 3
HOST, WRITER = 1, 3
STEP, REPORT, SAVE, IDLE = 4, 5, 7, 14
WARM_UP = 4


def events_of(path, kind):
    """(seconds, step, EventKind) of the track of that kind, oldest first."""
    data = path.read_bytes()
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    tracks, capacity = words[TRACKS], words[CAPACITY]
    track = next(t for t in range(tracks) if words[HEADER + t * TRACK + 1] == kind)
    written = words[HEADER + track * TRACK]
    events = []
    for number in range(max(0, written - capacity), written):
        at = HEADER + tracks * TRACK + (track * capacity + number % capacity) * EVENT
        events.append((words[at] / 1e9, words[at + 1], words[at + 2] & 0xff))
    return events


def memcpy_seconds(size, count):
    libc = ctypes.CDLL(None)
    libc.memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    times = []
    for _ in range(count + 1):
        ctypes.memset(source, len(times) + 1, size)     # as a step leaves it: written not long ago
        begin = time.perf_counter()
        libc.memcpy(target, source, size)
        times.append(time.perf_counter() - begin)
    return times[1:]


def measure(own, plans, every, saves):
    """Seconds of snapshots; of steps during the writing, and of the others; bytes of a checkpoint."""
    folder, rings = own.work / "checkpoints", own.work / "rings"
    for old in (folder, rings):
        shutil.rmtree(old, ignore_errors=True)
    subprocess.run([own.bin / "piper-run", plans, "--data", own.data, "--threads", "1", "--steps", str(every * saves), "--checkpoint", folder,
                    "--every", str(every), "--keep", "1", "--rings", rings], check=True, capture_output=True)
    host, writer = (events_of(rings / "rank-00000.ring", kind) for kind in (HOST, WRITER))
    writing = []    # from the first event of a checkpoint to the writer's rest
    for at, step, kind in writer:
        if not writing or step != writing[-1][0]:
            writing.append([step, at, at])
        writing[-1][2] = at
    ended = {step: end for step, _, end in writing}
    snapshots, during, alone = [], [], []
    for (begin, step, kind), (end, _, _) in zip(host, host[1:]):
        if kind == SAVE and step > every and ended.get(step - every, 0) < begin:
            snapshots.append(end - begin)
        if kind == STEP and step > WARM_UP:
            if any(a <= begin and end <= b for _, a, b in writing):
                during.append(end - begin)
            elif all(end <= a or b <= begin for _, a, b in writing):
                alone.append(end - begin)
    size = sum(path.stat().st_size for path in folder.glob("step-*/shard-*"))
    return snapshots, during, alone, size, [b - a for _, a, b in writing]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--model", default="wide")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--saves", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    own = Programs(args.bin, args.work)
    plans = own.compile(args.model, f"piper: 1\nmodel: {{batch: {args.batch}}}\n" + programs.OPTIMIZER, "checkpoint_cost")
    print(load())
    print("| checkpoint, MB | snapshot, ms | memcpy, ms | snapshot / memcpy | written in, ms | step alone, ms | step during a write, ms | during / alone |")
    print("|---|---|---|---|---|---|---|---|")
    for _ in range(args.rounds):
        snapshots, during, alone, size, writes = measure(own, plans, args.every, args.saves)
        if not snapshots or not during or not alone:
            raise SystemExit(f"too few events: {len(snapshots)} snapshots, {len(during)} steps during writes, {len(alone)} others; see --every")
        copies = memcpy_seconds(size, len(snapshots))
        one, other = statistics.median(snapshots), statistics.median(copies)
        slow, quick = statistics.median(during), statistics.median(alone)
        print(f"| {size / 1e6:.0f} | {spread([1e3 * s for s in snapshots], '{:.1f}')} | {spread([1e3 * s for s in copies], '{:.1f}')} | {one / other:.2f} "
              f"| {1e3 * statistics.median(writes):.0f} | {spread([1e3 * s for s in alone], '{:.0f}')} | {spread([1e3 * s for s in during], '{:.0f}')} "
              f"| {slow / quick:.3f} |", flush=True)
    print(load())


if __name__ == "__main__":
    main()
