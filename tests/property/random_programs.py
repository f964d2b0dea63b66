"""Seeded random programs over the small models: coherent ones, which must compile, and damaged ones, which may be refused.

A coherent program places stages on groups that nest, replicates or shards what has several devices, and orders each device
by a random linear extension of what data require; so there is no reason to refuse it. `damage` changes one to three things
of such a program anywhere in its text. The same seed gives the same program on every machine.
"""
from __future__ import annotations

import copy
import dataclasses
import random

BATCH = 16
STARTS = ("h.0", "h.1", "quiet", "h.2", "h.3")
EXPERT_BLOCKS = {"experts": (1, 3), "gathered": (1, 3), "slots": (0, 2)}
FAMILIES = ("gpipe", "1f1b", "zero_bubble", "interleaved_1f1b", "interleaved_zero_bubble", "zb_v", "dualpipev", "dualpipe")


@dataclasses.dataclass
class Program:
    seed: int
    model: str
    text: dict
    coherent: bool
    orders: dict          # tuple of devices -> [[(stage, microbatch, pass), ...], ...] as the file says
    has_slots: bool = False
    stages: int = 1


class Maker:
    def __init__(self, seed: int):
        self.seed, self.random = seed, random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def program(self) -> Program:
        r = self.random
        self.model = r.choice(("dense", "losses", "plain", "shared", "experts", "gathered", "slots"))
        self.microbatches = r.choice((1, 2, 2, 4))
        self.orders, self.has_slots = {}, False
        self.text = {"model": {"batch": BATCH}, "annotate": [], "directives": []}
        if self.chance(0.3):
            self._scheduled()
        elif self.chance(0.2):
            self._placed_by_microbatch()
        else:
            self._placed()
        self._experts()
        self._others()
        r.shuffle(self.text["directives"])
        self._cut_weights()
        for key in ("annotate", "directives"):
            if not self.text[key]:
                del self.text[key]
        return Program(self.seed, self.model, self.text, True, self.orders, self.has_slots, len(self.groups))

    # ---------------------------------------------------------------- where and when
    def _stages(self, count: int):
        self.starts = sorted(self.random.sample(range(len(STARTS)), count))
        if count > 1 or self.chance(0.5):
            self.text["annotate"].append({"tag": "PP", "starts": [STARTS[i] for i in self.starts]})
            self.tagged = True
        else:
            self.tagged = False

    def _chosen(self, stage: int) -> dict:
        return {"PP": stage} if self.tagged else {}

    def _replicate(self, stages, devices):
        fields = {"op": "replicate", "filter": {"PP": stages} if self.tagged else {}, "devices": list(devices)}
        if self.chance(0.8):
            fields["bucket_size"] = self.random.choice((0, 0.01, 0.03, 25))
        fields |= self.random.choice(({}, {}, {"shard_optimizer": True}, {"shard_grads": True}, {"shard_params": True}, {"shard_params": True}))
        if "shard_params" in fields:
            fields["residency"], fields["prefetch"] = self.random.choice(("use", "microbatch", "step")), self.random.choice((0, 1, 1, 2, 5))
        if self.chance(0.4) and ("shard_params" in fields or "shard_grads" in fields):
            fields["whole_below"] = self.random.choice((0, 0.0002, 25))
        if len(devices) == 4 and any(key.startswith("shard_") for key in fields) and self.chance(0.6):
            members = self.random.sample(list(devices), 4)
            fields["parts_over"] = [members[:2], members[2:]]
        if self.chance(0.2):
            fields["reduce_stream"] = self.random.choice(("dp", "pp", "reduce"))
        self.text["directives"].append(fields)

    def _scheduled(self):
        r = self.random
        family = r.choice(FAMILIES)
        ranks = r.choice((2, 2, 3)) if family in ("gpipe", "1f1b", "zero_bubble") else 2
        two = family in ("interleaved_1f1b", "interleaved_zero_bubble", "zb_v", "dualpipev")
        stages = 2 * ranks if two else ranks
        self.microbatches = 4 if family in ("dualpipev", "dualpipe") else r.choice((2, 4))
        size = r.choice((1, 1, 2))
        self._stages(stages)
        pool = list(range(ranks * size))
        r.shuffle(pool)
        groups = [tuple(pool[i * size:(i + 1) * size]) for i in range(ranks)]
        v = family in ("zb_v", "dualpipev")
        self.groups = [groups[s if s < ranks else (2 * ranks - 1 - s if v else s % ranks)] for s in range(stages)]
        if family == "dualpipe":
            self.groups = [tuple(pool)] * stages      # for _experts: no group to share
        self.text["schedule"] = {"family": family, "microbatches": self.microbatches, "ranks": [list(g) for g in groups]}
        if family == "dualpipe" and self.chance(0.7):
            half = self.microbatches // 2
            for stage in range(stages):
                self._spread(stage, [(groups[stage], range(half)), (groups[ranks - 1 - stage], range(half, 2 * half))])
        elif family != "dualpipe" and size > 1 and self.chance(0.7):
            for stage, group in enumerate(self.groups):
                self._replicate(stage, group)
        self.two_way = family == "dualpipe"

    def _spread(self, stage, parts):
        """One stage on several groups: [(devices, microbatches)]."""
        for devices, microbatches in parts:
            self.text["directives"].append({"op": "place", "filter": self._chosen(stage) | {"MB": list(microbatches)}, "devices": list(devices)})
        if all(len(devices) == 1 for devices, _ in parts) and self.chance(0.3):
            return
        self._replicate(stage, parts[0][0])
        for devices, _ in parts[1:]:
            self.text["directives"].append(self.text["directives"][-1] | {"devices": list(devices)})

    def _placed_by_microbatch(self):
        """Every stage on one or two of the groups, which microbatch where by chance."""
        r = self.random
        self.two_way, self.microbatches = True, r.choice((2, 4))
        self._stages(r.randint(1, 4))
        stages, device, pool = len(self.starts), 0, []
        for size in r.choice(((1, 1), (1, 2), (2, 2), (1, 1, 1), (1, 1, 2))):
            pool.append(tuple(range(device, device + size)))
            device += size
        owners = [[r.choice(pool) for _ in range(self.microbatches)] for _ in range(stages)]
        for group in pool:             # every device must have work
            if not any(group in row for row in owners):
                owners[r.randrange(stages)][r.randrange(self.microbatches)] = group
        used = {d for row in owners for g in row for d in g}
        numbers = {d: i for i, d in enumerate(sorted(used))}
        for stage, row in enumerate(owners):
            row = [tuple(numbers[d] for d in g) for g in row]
            self._spread(stage, [(g, [m for m in range(self.microbatches) if row[m] == g]) for g in sorted(set(row))])
        self.groups = [tuple(sorted(numbers.values()))] * stages     # for _experts: no group to share
        self.text["directives"].append({"op": "split", "num_microbatches": self.microbatches})

    def _placed(self):
        r = self.random
        self.two_way = False
        self._stages(r.randint(1, 5))
        stages = len(self.starts)
        pool, device = [], 0
        for size in r.choice(((1,), (1, 1), (2,), (1, 1, 1), (2, 2), (1, 2), (4,), (1, 1, 2), (2, 4), (1, 1, 1, 1))):
            pool.append(tuple(r.sample(range(device, device + size), size)))
            device += size
        while len(pool) > stages:      # every device must have work
            pool.pop()
        order = list(range(len(pool))) + [r.randrange(len(pool)) for _ in range(stages - len(pool))]
        if self.chance(0.5):
            order.sort()
        else:
            r.shuffle(order)
        self.groups = [pool[i] for i in order]
        numbers = {d: i for i, d in enumerate(sorted({d for g in self.groups for d in g}))}
        self.groups = [tuple(numbers[d] for d in g) for g in self.groups]
        for group in sorted(set(self.groups)):
            members = [s for s, g in enumerate(self.groups) if g == group]
            if len(group) == 1:
                self.text["directives"].append({"op": "place", "filter": {"PP": members} if self.tagged else {}, "devices": list(group)})
                continue
            if self.chance(0.7):
                self.text["directives"].append({"op": "place", "filter": {"PP": members} if self.tagged else {}, "devices": list(group)})
            if len(members) > 1 and self.chance(0.5):
                for stage in members:
                    self._replicate(stage, group)
            else:
                self._replicate(members, group)
        if self.microbatches > 1 or self.chance(0.3):
            self.text["directives"].append({"op": "split", "num_microbatches": self.microbatches} | ({"filter": {}} if self.chance(0.3) else {}))
            if self.chance(0.7):
                self._orders()

    def _orders(self):
        """One order per device group: its part of a random linear extension, sometimes thinned out, sometimes with slots."""
        r, stages = self.random, len(self.groups)
        halves = [self.chance(0.4) for _ in range(stages)]
        nodes, needs = [], {}
        for m in range(self.microbatches):
            for s in range(stages):
                forward, backward = (s, m, "F"), (s, m, "BI" if halves[s] else "B")
                needs[forward] = [(s - 1, m, "F")] if s else []
                needs[backward] = [forward] + ([(s + 1, m, "BI" if halves[s + 1] else "B")] if s + 1 < stages else [])
                nodes += [forward, backward]
                if halves[s]:
                    needs[s, m, "BW"] = [backward]
                    nodes.append((s, m, "BW"))
        done, sequence, eager = set(), [], self.chance(0.5)
        while len(sequence) < len(nodes):
            ready = [n for n in nodes if n not in done and all(d in done for d in needs[n])]
            node = r.choice([n for n in ready if n[2] != "F"] or ready) if eager else r.choice(ready)
            done.add(node)
            sequence.append(node)
        dropped = {n for n in nodes if n[2] in ("F", "B") and self.chance(0.25)} if self.chance(0.3) else set()
        for group in sorted(set(self.groups)):
            own = [[n] for n in sequence if self.groups[n[0]] == group and n not in dropped]
            if self.chance(0.3) and len(own) > 2:
                at = r.randrange(len(own) - 1)
                a, b = own[at][0], own[at + 1][0]
                if not self._leads(needs, sequence, a, b):
                    own[at:at + 2] = [[a, b]]
                    self.has_slots = True
            if len(own) < 2:
                continue
            self.orders[group] = own
            self.text["directives"].append({"op": "order", "filters": [
                [({"PP": n[0]} if self.tagged else {}) | {"MB": n[1], "PASS": n[2]} for n in slot] for slot in own]})

    def _leads(self, needs, sequence, a, b) -> bool:
        """Whether b must wait for a, by data or by another device's part of the sequence."""
        reached = {a}
        for i, n in enumerate(sequence):
            if n in reached:
                continue
            before = next((p for p in reversed(sequence[:i]) if self.groups[p[0]] == self.groups[n[0]]), None)
            if any(d in reached for d in needs[n]) or (before in reached and not (before == a and n == b)):
                reached.add(n)
        return b in reached

    # ---------------------------------------------------------------- what else
    def _experts(self):
        if self.model not in EXPERT_BLOCKS or self.two_way or self.chance(0.25):
            return
        self.text["annotate"].append({"tag": "EP", "modules": ["*.mlp.experts"] if self.chance(0.6) else [f"h.{b}.mlp" for b in EXPERT_BLOCKS[self.model]]})
        for region, block in enumerate(EXPERT_BLOCKS[self.model]):
            stage = max((i for i, s in enumerate(self.starts) if self._block(s) <= block), default=0)
            group = list(self.groups[stage] if self.tagged else self.groups[0])
            if len(group) not in (2, 4) or self.chance(0.2):
                continue
            self.random.shuffle(group)
            devices = [group[:2], group[2:]] if len(group) == 4 and self.chance(0.5) else group
            self.text["directives"].append({"op": "shard", "filter": {"EP": region}, "devices": devices})

    @staticmethod
    def _block(start: int) -> float:
        return {"h.0": 0, "h.1": 1, "quiet": 1.5, "h.2": 2, "h.3": 3}[STARTS[start]]

    def _others(self):
        r, stages = self.random, len(self.groups)
        if self.chance(0.3):
            some = {"MB": sorted(r.sample(range(self.microbatches), r.randint(1, self.microbatches)))} if self.microbatches > 1 and self.chance(0.5) else {}
            self.text["directives"].append({"op": "recompute", "filter": ({"PP": r.choice(("*", r.randrange(stages)))} if self.tagged else {}) | some})
        if self.chance(0.3):
            what = {"PASS": r.choice(("F", "B"))} if self.chance(0.5) else {"PP": r.randrange(stages)} if self.tagged else {}
            self.text["directives"].append({"op": "stream", "filter": what, "name": r.choice(("second", "pp", "x"))})
        if self.chance(0.3):
            self.text["clip_grad_norm"] = 0.5
        if self.chance(0.2):
            self.text["lr_schedule"] = {"warmup": 2, "linear": {"until": 6, "to": 0.2}}
        if self.chance(0.15):
            self.text["model"]["freeze"] = [r.choice(("wte", "h.1", "h.3", "ln_f"))]
        self.text["optimizer"] = r.choice(({"sgd": {"lr": 0.1, "momentum": 0.9}}, {"adamw": {"lr": 2e-3}}))

    def _cut_weights(self):
        """Every device becomes two that share its samples and cut weights, which leaves a coherent program coherent."""
        chance = random.Random(f"cut {self.seed}")    # of its own: programs without cuts are as they were
        ranks = sorted({d for g in self.groups for d in g} | {0})
        if chance.random() > 0.3 or len(ranks) > 4 or any(d["op"] == "shard" for d in self.text["directives"]):
            return
        pairs = {r: (2 * i, 2 * i + 1) for i, r in enumerate(ranks)}

        def doubled(devices):
            return [rank for d in devices for rank in pairs[d]]
        for directive in self.text["directives"]:
            if "devices" in directive:
                directive["devices"] = doubled(directive["devices"])
            if "parts_over" in directive:
                directive["parts_over"] = [doubled(group) for group in directive["parts_over"]]
        if "ranks" in self.text.get("schedule", {}):
            self.text["schedule"]["ranks"] = [doubled(group) for group in self.text["schedule"]["ranks"]]
        self.orders = {tuple(doubled(group)): slots for group, slots in self.orders.items()}
        over = [list(pair) if chance.random() < 0.7 else list(reversed(pair)) for pair in pairs.values()]
        cut = {"op": "shard", "filter": {}, "dim": "column", "over": over}
        if chance.random() < 0.3:
            cut["weights"] = chance.choice((["*.mlp.up"], ["*.attn.*"], ["*"]))
            if cut["weights"] == ["*"]:
                del cut["weights"]
        self.text["directives"].insert(chance.randrange(len(self.text["directives"]) + 1), cut)
        for dim in ("sequence", "vocabulary"):
            chance = random.Random(f"{dim} {self.seed}")    # likewise
            if chance.random() < 0.5:
                more = {"op": "shard", "filter": {}, "dim": dim, "over": over}
                self.text["directives"].insert(chance.randrange(len(self.text["directives"]) + 1), more)

    # ---------------------------------------------------------------- damage
    def damaged(self, program: Program) -> Program:
        text = copy.deepcopy(program.text)
        for _ in range(self.random.randint(1, 3)):
            self._damage(text)
        return dataclasses.replace(program, text=text, coherent=False, orders={})

    def _damage(self, text):
        r = self.random
        directives = text.setdefault("directives", [])
        if not isinstance(directives, list) or not all(isinstance(d, dict) for d in directives) or not isinstance(text["model"], dict):
            return                         # an earlier change took the list away
        kind = r.randrange(12)
        if kind == 0 and directives:
            directives.pop(r.randrange(len(directives)))
        elif kind == 1 and directives:
            directives.append(copy.deepcopy(r.choice(directives)))
        elif kind in (2, 3) and directives:
            chosen = r.choice(directives)
            chosen["devices"] = r.choice(([], [0], [1], [0, 1], [1, 0], [0, 1, 2], [2, 3], [0, 0], [-1], [7], [0, 1000000], ["a"], 3, [[0], [1]],
                                          [[0, 1], [1, 2]], [[0, 1], [2]], list(range(16)), None, [2**40]))
        elif kind in (4, 5) and directives:
            chosen = r.choice(directives)
            chosen["filter"] = r.choice(({}, {"PP": 0}, {"PP": 7}, {"PP": "*"}, {"PP": "0..9"}, {"PP": [0, 1]}, {"EP": 0}, {"EP": "*"}, {"QQ": 1},
                                         {"MB": 0}, {"PASS": "F"}, {"PASS": "X"}, {"PP": 0, "MB": 1, "PASS": "BW"}, {"PP": -1}, [], "PP", {"PP": {}}))
        elif kind == 6 and directives:
            orders = [d for d in directives if d.get("op") == "order"]
            if orders:
                filters = r.choice(orders)["filters"]
                if not filters:
                    return
                a, b = r.randrange(len(filters)), r.randrange(len(filters))
                if self.chance(0.3):
                    filters.pop(a)
                elif self.chance(0.3):
                    filters[a] = filters[a] + filters[b]
                else:
                    filters[a], filters[b] = filters[b], filters[a]
            else:
                directives.append({"op": "order", "filters": [[{"PASS": r.choice(("F", "B", "BI"))}], [{"PASS": r.choice(("B", "BW", "F"))}]]})
        elif kind == 7:
            for d in directives:
                if d.get("op") == "split":
                    d["num_microbatches"] = r.choice((0, -1, 1, 3, 5, 8, 16, 1000000, 2**62, "two", 2.5))
            if "schedule" in text:
                text["schedule"]["microbatches"] = r.choice((0, 1, 3, 5, 8, 1000000, 2**62, "two"))
        elif kind == 8:
            if isinstance(text.get("schedule"), dict):
                text["schedule"][r.choice(("family", "ranks", "virtual", "stages"))] = r.choice(
                    (r.choice(FAMILIES), "zb", 2, 0, [[0], [1]], [[0, 1]], [[1], [0], [2]], "EP", "PP", [], 2**40))
            elif self.chance(0.4):
                text["schedule"] = {"family": r.choice(FAMILIES), "microbatches": r.choice((1, 2, 3, 4))}
        elif kind == 9 and directives:
            chosen = r.choice(directives)
            key = r.choice([*chosen, "bucket_size", "shard_params", "whole_below", "parts_over", "stream", "capacity", "extra"])
            chosen[key] = r.choice(("place", "shard", "order", 0, -1, 1e30, "x", True, None, [], {}, "step", 0.5, {"factor": 1.25, "overflow": "drop"}))
        elif kind == 10:
            path = r.choice((("model", "batch"), ("model", "loss"), ("model", "freeze"), ("optimizer",), ("clip_grad_norm",), ("lr_schedule",),
                             ("per_microbatch",), ("annotate",), ("directives",), ("piper",), ("streams",), ("nonsense",)))
            at = text
            for key in path[:-1]:
                at = at.setdefault(key, {})
            at[path[-1]] = r.choice((0, 7, 12, -4, "x", [], {}, ["*"], None, 2, {"sgd": {}}, {"sgd": {"lr": "a"}}, [{"tag": "PP", "starts": ["h.2", "h.0"]}],
                                     [{"tag": "PP", "stages": 9, "balance": "flops"}], [{"tag": "PP", "modules": ["*"]}], [{"tag": "MB", "starts": ["h.0"]}]))
        elif text.get("annotate") and isinstance(text["annotate"], list):
            chosen = r.choice(text["annotate"])
            if isinstance(chosen, dict) and isinstance(chosen.get("starts"), list):
                chosen["starts"] = r.choice((chosen["starts"][::-1], chosen["starts"] * 2, ["h.9"], chosen["starts"][1:] or ["*"], ["h.0.attn", "h.0.mlp", "h.3"],
                                             ["wte", "h.2", "head"], ["h.*"], []))


def make(seed: int) -> Program:
    """The program of a seed; every other one is damaged."""
    maker = Maker(seed)
    program = maker.program()
    return maker.damaged(program) if seed % 2 else program
