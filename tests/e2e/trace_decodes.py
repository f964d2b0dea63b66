#!/usr/bin/env python3
"""Perfetto's own message types decode the traces of `piper-plan simulate --trace`, simulated and of a run, and of `piper-run
--trace`: slices of a track nest, every flow goes on where it began, tracks belong to ranks.

  trace_decodes.py --bin BIN --work DIR --models tests/models

Needs the package perfetto of PyPI; without it it says [SKIP].
"""
import argparse
import array
import collections
import pathlib
import subprocess
import sys

from checks import check, faults

try:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
except ImportError:
    print("[SKIP] no python with perfetto; tools/setup.sh installs it")
    sys.exit(0)

STRATEGY = """piper: 1
model: {batch: 8}
annotate:
  - {tag: PP, starts: ["h.0", "h.1"]}
directives:
  - {op: place, filter: {PP: 0}, devices: [0, 1]}
  - {op: place, filter: {PP: 1}, devices: [2, 3]}
  - {op: replicate, filter: {PP: 0}, devices: [0, 1]}
  - {op: replicate, filter: {PP: 1}, devices: [2, 3]}
schedule: {family: 1f1b, microbatches: 2}
optimizer: {sgd: {lr: 0.1}}
"""


def call(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}")


def look(label, path, processes, each=1):
    """`each`: how often every transfer of the step is in it."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    tracks = {packet.track_descriptor.uuid: packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")}
    named = sorted(track.process.process_name for track in tracks.values() if track.HasField("process"))
    check(f"{label}: a process for each rank", named == processes, f"{named}")
    check(f"{label}: every stream belongs to one", all(tracks[t.parent_uuid].HasField("process") for t in tracks.values() if not t.HasField("process")))
    depth, at, flows, unnested = collections.Counter(), collections.Counter(), collections.defaultdict(list), []
    slices = 0
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        begins = event.type == TrackEvent.TYPE_SLICE_BEGIN
        slices += begins
        depth[event.track_uuid] += 1 if begins else -1
        if depth[event.track_uuid] not in (0, 1) or packet.timestamp < at[event.track_uuid] or event.track_uuid not in tracks:
            unnested.append(packet)
        at[event.track_uuid] = packet.timestamp
        for flow in event.flow_ids:
            flows[flow].append((event.name, event.track_uuid, False))
        for flow in event.terminating_flow_ids:
            flows[flow].append((event.name, event.track_uuid, True))
    check(f"{label}: slices follow one another on their tracks", slices > 50 and not unnested and not any(depth.values()), f"{slices} {unnested[:2]}")
    alone = {flow: ends for flow, ends in flows.items() if len(ends) < 2 or sum(last for *_, last in ends) != 1}
    check(f"{label}: every flow has its ends, and one last one", flows and not alone, f"{dict(list(alone.items())[:2])}")
    of_kind = collections.Counter(min(name.split()[0] for name, *_ in ends) for ends in flows.values())
    check(f"{label}: {each} of every transfer of the step", all(count % each == 0 for count in of_kind.values()), f"{of_kind}")
    kinds = {tuple(sorted({name.split()[0] for name, *_ in ends})) for ends in flows.values()}
    check(f"{label}: flows join sends with receives, and members of sums", kinds <= {("recv", "send"), ("all_reduce",)} and len(kinds) == 2, f"{kinds}")


def host_and_lines(label, path):
    """How many slices of each name there are."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    names, lines, steps, times = collections.Counter(), set(), set(), []
    for packet in trace.packet:
        if packet.track_event.type != TrackEvent.TYPE_SLICE_BEGIN:
            continue
        notes = {note.name: note.string_value or note.int_value for note in packet.track_event.debug_annotations}
        names[packet.track_event.name] += 1
        lines |= {notes["strategy"]} if "strategy" in notes else set()
        steps |= {notes["step"]} if "step" in notes else set()
        times.append(packet.timestamp)
    check(f"{label}: what the host does is told", all(names[f"step {step}"] == 4 and names[f"waits for samples {step}"] == 4 for step in (3, 4, 5)), f"{names}")
    check(f"{label}: slices know their step and the line of the strategy", steps == {3, 4, 5} and any("s.yaml:6:" in line for line in lines), f"{steps} {lines}")
    check(f"{label}: ranks count from one moment", max(times) - min(times) < 60e9, f"{min(times)} {max(times)}")
    return names


def refused(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    return done.stderr if done.returncode == 1 else f"exit {done.returncode}"


def main():
    parser = argparse.ArgumentParser()
    for name in ("--bin", "--work", "--models"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    (args.work / "s.yaml").write_text(STRATEGY)
    plans, tokens, profile, trace = (args.work / name for name in ("plans", "tokens.bin", "profile", "trace"))
    call(args.bin / "piperc", args.models / "tiny_gpt.onnx", "--strategy", args.work / "s.yaml", "-o", plans)
    call(args.bin / "piper-plan", "simulate", plans, "--trace", trace)
    ranks = [f"rank {rank}" for rank in range(4)]
    look("unit costs", trace, ranks)
    tokens.write_bytes(array.array("H", (k * k % 7 for k in range(2000))).tobytes())
    call(args.bin / "piper-run", plans, "--data", tokens, "--steps", 6, "--threads", 1, "--profile", profile)
    call(args.bin / "piper-plan", "simulate", plans, "--profile", profile, "--trace", trace)
    look("a run", trace, sorted(ranks + [f"{rank}, measured" for rank in ranks]))
    numbers = []
    for launcher in ((), ("piper-launch",)):
        label = "steps of " + (launcher[0] if launcher else "one process")
        command = [*(args.bin / name for name in launcher), args.bin / "piper-run", plans, "--data", tokens, "--steps", 6, "--threads", 1]
        call(*command, "--trace", trace, "--trace-steps", "3..5")
        look(label, trace, ranks, each=3)
        numbers.append(host_and_lines(label, trace))
    check("one process and one a rank write the same slices", numbers[0] == numbers[1], f"{numbers}")
    text = refused(args.bin / "piper-run", plans, "--data", tokens, "--steps", 6, "--trace", args.work / "no" / "trace")
    check("a trace that cannot be written is refused before the first step", "error[R0601]" in text and "no/trace" in text, text)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
