"""Where the time of a measured step went, in the terms of `piper-plan simulate`: kernels, transfers that nothing hides, waiting."""
import collections
import json

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


def instructions_of(plans, world):
    """[rank] -> (its plan as JSON, its instructions), also of ranks that only say whose plan they have."""
    read = [json.loads((plans / "ranks" / f"rank-{rank:05}.json").read_text()) for rank in range(world)]
    return [(plan, read[plan.get("like", rank)]["instructions"]) for rank, plan in enumerate(read)]


def transfers(plans, world):
    """Lists of (rank, instruction): the two ends of each message, the members of each collective."""
    found = collections.defaultdict(list)
    for rank, (plan, instructions) in enumerate(instructions_of(plans, world)):
        channels = {channel["channel"]: channel for channel in plan["channels"]}
        teams = {team["communicator"]: tuple(team["ranks"]) for team in plan["communicators"]}
        count = collections.Counter()
        for index, instruction in enumerate(instructions):
            kind = next(iter(instruction))
            if kind in ("send", "recv"):
                channel = channels[instruction["channel"]]
                ends = (rank, channel["peer"]) if kind == "send" else (channel["peer"], rank)
                key = (*ends, channel["id"])
                number = (kind, key)
            elif kind in COLLECTIVES:
                key = (instruction["communicator"], teams[instruction["communicator"]])
                number = key
            else:
                continue
            found[key, count[number]].append((rank, index))
            count[number] += 1
    return found.values()


def union(intervals):
    """Length of what the intervals cover."""
    total, end = 0.0, float("-inf")
    for begin, stop in sorted(intervals):
        total += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return total


def measured(plans, profile):
    """(kernels, exposed transfers, waiting) in microseconds, the mean over ranks, of a file of `piper-run --profile`. As in
    the simulation a transfer goes on, for all of its ends, from when the last of them has come to when the last goes on; what ranks
    do before the last one comes to the step is the end of the step before it."""
    rows = [json.loads(line) for line in profile.read_text().splitlines()]
    world = 1 + max(row["rank"] for row in rows)
    times = {(row["rank"], row["instruction"]): (row["begin_us"], row["end_us"]) for row in rows}
    step = max(end for _, end in times.values())
    busy = [[] for _ in range(world)]
    for row in rows:
        if row["what"].startswith(("run", "update")):
            busy[row["rank"]].append((row["begin_us"], row["end_us"]))
    moving = [list(intervals) for intervals in busy]
    for ends in transfers(plans, world):
        begin, end = max(times[one][0] for one in ends), max(times[one][1] for one in ends)
        for one in ends:
            moving[one[0]].append((begin, end))
    kernels = sum(union(intervals) for intervals in busy) / world
    covered = sum(union(intervals) for intervals in moving) / world
    return kernels, covered - kernels, step - covered
