#!/usr/bin/env python3
"""Architectures that piper has never seen, unedited: exported, compiled and trained whole and cut, against PyTorch.

  architectures.py --bin BIN --work DIR [--family NAME] [--only NAME,NAME] [--containers pt2,onnx,tensor] [--update] [--keep]

Each model of architectures_table.py is exported as `.pt2` and as ONNX and trains 5 steps by SGD on one device, and cut in
two stages with two microbatches; `tensor` is the `.pt2` file on two devices that share samples, with columns, the sequence
and the vocabulary cut. Losses agree with PyTorch's to 1e-4, and so does the change of all weights together. A
model whose rounding grows so fast that PyTorch's own losses in f32 and f64 are further apart than that cannot be compared:
what then is asked is that ours are no further from f64 than twice PyTorch's. What cannot be exported, is refused or is not
comparable is reported with its reason. docs/models.md holds the table; a result that is
another one than the page says fails the test, --update writes it to the page. Exit status 0: all is as the page says.
"""
import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import traceback
import warnings

import torch

import architectures_table as table
import harness
import piper_export

BATCH, STEPS, TOLERANCE = 8, 5, 1e-4
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "models.md"
BEGIN, END = "<!-- architectures: written by tests/e2e/architectures.py --update -->\n", "<!-- /architectures -->\n"
TRAINS = "trains"
COLUMNS = {"pt2": "`.pt2`", "onnx": "ONNX", "tensor": "tensor parallel"}
DIMS = ("column", "vocabulary", "sequence")    # the last one is left out where no value has a sequence
NO_SEQUENCE, NOTHING_CUT = "; no sequence", "nothing to divide"
APART = "runs; not comparable: PyTorch's own losses in f32 and f64 are further apart than 1e-4"


def torch_training(model, data, pieces, rate):
    """Losses, and the change of all parameters, of PyTorch's own loop on a copy of the model."""
    model = copy.deepcopy(model).train()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    rule, losses = torch.optim.SGD(model.parameters(), lr=rate, foreach=False), []
    for step in range(STEPS):
        rule.zero_grad()
        total = 0.0
        for piece in range(pieces):
            first, rows = step * BATCH + piece * BATCH // pieces, BATCH // pieces
            made = model(**{k: v[first:first + rows] for k, v in data.items()})
            loss = (made if isinstance(made, torch.Tensor) else made.loss) / pieces
            loss.backward()
            total += loss.item()
        losses.append(total)
        rule.step()
    return losses, {name: p.detach() - before[name] for name, p in model.named_parameters()}, before


def distance(losses, expected):
    return max((abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True)), default=float("inf"))


def reason(error):
    """The first line of what an exporter or piperc says, without folders, addresses and lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if re.search(r"error\[", line)), lines[0] if lines else type(error).__name__)
    told = re.sub(r"^.*?error\[(\w+)\]: ", r"\1: ", told)
    told = re.sub(r"\S*/(?=[\w.-]+)", "", told)
    told = re.sub(r"0x[0-9a-f]+", "0x...", told)
    told = re.sub(r"(\.py):\d+", r"\1", told)
    return told[:260].replace("|", "\\|").replace("<", "&lt;")


def strategy_text(architecture, cut, dims=()):
    lines = ["piper: 1", f"model: {{batch: {BATCH}}}"]
    if dims:
        lines += ["directives:", *[f"  - {{op: shard, filter: {{}}, dim: {dim}, over: [[0, 1]]}}" for dim in dims]]
    elif cut:
        lines += ["annotate: [{tag: PP, stages: 2, balance: flops}]", "directives:",
                  "  - {op: place, filter: {PP: 0}, devices: [0]}", "  - {op: place, filter: {PP: 1}, devices: [1]}",
                  "schedule: {family: 1f1b, microbatches: 2}"]
        if architecture.statistics:
            lines.append('per_microbatch: ["*"]')
    return "\n".join([*lines, f"optimizer: {{sgd: {{lr: {architecture.rate}}}}}"]) + "\n"


class Trial:
    def __init__(self, bench, architecture):
        from safetensors.torch import save_file
        self.bench, self.architecture = bench, architecture
        self.slug = re.sub(r"\W+", "_", architecture.name.lower())
        torch.manual_seed(7)
        self.model = architecture.build().train()
        self.data = architecture.draw(BATCH * STEPS)
        self.trained = {pieces: torch_training(self.model, self.data, pieces, architecture.rate) for pieces in ((1, 2) if architecture.statistics else (1,))}
        save_file({k: v.contiguous() for k, v in self.data.items()}, bench.work / f"{self.slug}.safetensors")

    def exact_losses(self, pieces):
        data = {k: v.double() if v.is_floating_point() else v for k, v in self.data.items()}
        return torch_training(copy.deepcopy(self.model).double(), data, pieces, self.architecture.rate)[0]

    def outcome(self, container, keep):
        """TRAINS, or what is in the way."""
        path = self.bench.work / f"{self.slug}.{'onnx' if container == 'onnx' else 'pt2'}"
        try:
            piper_export.export(copy.deepcopy(self.model), {k: v[:BATCH] for k, v in self.data.items()}, path)
        except Exception as error:   # whatever an exporter raises is its answer
            return "not exported: " + reason(error.__cause__ or error)
        try:
            if container == "tensor":
                return self.over_places(path)
            for cut in (False, True):
                if fault := self.fault(path, cut):
                    return fault
            return TRAINS
        finally:
            if not keep:
                path.unlink()

    def over_places(self, path):
        """TRAINS and how many parameters are cut, or what is in the way."""
        dims, without = DIMS, ""
        fault = self.fault(path, False, dims)
        if fault.startswith("P0260"):
            dims, without = DIMS[:-1], NO_SEQUENCE
            fault = self.fault(path, False, dims)
        if fault:
            return fault
        manifest = json.loads((self.files(path, False, dims)[1] / "manifest.json").read_text())
        cut = sum("cut" in tensor for tensor in manifest["tensors"])
        return f"{TRAINS}: {cut} of {len(manifest['tensors'])}{without}" if cut else NOTHING_CUT + without

    def files(self, path, cut, dims=()):
        stem = self.bench.work / f"{path.stem}_{path.suffix[1:]}_{'places' if dims else 'cut' if cut else 'whole'}"
        return [stem.with_suffix(s) for s in (".yaml", ".plans", ".jsonl", ".safetensors")]

    def fault(self, path, cut, dims=()):
        from safetensors.torch import load_file
        where = "cut: " if cut else ""
        strategy, plans, log, weights = self.files(path, cut, dims)
        strategy.write_text(strategy_text(self.architecture, cut, dims))
        try:
            self.bench.call([self.bench.bin / "piperc", path, "--strategy", strategy, "-o", plans])
            self.bench.call([self.bench.bin / "piper-run", plans, "--data", self.bench.work / f"{self.slug}.safetensors", "--steps", STEPS,
                             "--log", log, "--save", weights, "--threads", 1])
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return where + reason(str(error).split("\n", 1)[-1])
        losses = [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]
        expected, changes, before = self.trained[2 if cut and self.architecture.statistics else 1]
        if not (worst := distance(losses, expected)) <= TOLERANCE:
            exact = self.exact_losses(2 if cut and self.architecture.statistics else 1)
            apart = distance(expected, exact)
            if apart > TOLERANCE and distance(losses, exact) <= 2 * apart:
                return APART
            return f"{where}FAILED: losses differ by {worst:.1e}, PyTorch's f32 and f64 by {apart:.1e}"
        found = load_file(weights)
        if path.suffix == ".onnx":    # the exporter leaves out what the loss does not depend on, and says so
            changes = {name: change for name, change in changes.items() if name in found or change.any()}
        missing = [name for name in changes if name not in found]
        if missing:
            return f"{where}FAILED: no weight '{missing[0]}'"
        off = sum((found[name] - before[name] - change).double().pow(2).sum() for name, change in changes.items()).sqrt()
        size = sum(change.double().pow(2).sum() for change in changes.values()).sqrt()
        if not off <= TOLERANCE * size:
            return f"{where}FAILED: the weights' change differs by {(off / size).item():.1e}"
        return ""


# ------------------------------------------------------------------ the page
def read_page():
    """{(architecture, container): outcome}."""
    rows = {}
    text = PAGE.read_text()
    for line in text[text.index(BEGIN):text.index(END)].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 1 + len(COLUMNS) and cells[0] != "architecture" and not set(cells[0]) <= {"-"}:
            rows |= {(cells[0], container): cell for container, cell in zip(COLUMNS, cells[1:], strict=True)}
    return rows


def write_page(outcomes):
    lines = []
    for family in dict.fromkeys(a.family for a in table.ALL):
        shown = [a.name for a in table.ALL if a.family == family and (a.name, "pt2") in outcomes]
        if not shown:
            continue
        lines += ["", f"### {family}", "", f"| architecture | {' | '.join(COLUMNS.values())} |", "|---" * (1 + len(COLUMNS)) + "|"]
        lines += [f"| {name} | {' | '.join(outcomes.get((name, container), '') for container in COLUMNS)} |" for name in shown]
    whole = sum(outcomes.get((a.name, "pt2")) == TRAINS for a in table.ALL)
    both = sum(outcomes.get((a.name, "pt2")) == outcomes.get((a.name, "onnx")) == TRAINS for a in table.ALL)
    places = [cell for (_, container), cell in outcomes.items() if container == "tensor" and cell.startswith(TRAINS)]
    head = ["", f"Of {len({name for name, _ in outcomes})} architectures {whole} train from `.pt2`, {both} from both files; {len(places)} under tensor "
            f"parallelism, of which {sum(NO_SEQUENCE not in cell for cell in places)} also divide the sequence."]
    text = PAGE.read_text()
    PAGE.write_text(text[:text.index(BEGIN)] + BEGIN + "\n".join(head + lines) + "\n" + text[text.index(END):])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--family")
    parser.add_argument("--only")
    parser.add_argument("--containers", default=",".join(COLUMNS))
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave exported models in the work folder")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    bench = harness.Bench(args.bin, args.work)
    chosen = [a for a in table.ALL if args.family in (None, a.family) and (not args.only or a.name in args.only.split(","))]
    expected, failed = read_page(), 0
    for architecture in chosen:
        try:
            trial = Trial(bench, architecture)
        except Exception:
            print(f"{architecture.name:28} PyTorch fails\n{traceback.format_exc()}", flush=True)
            failed += 1
            continue
        for container in args.containers.split(","):
            found, key = trial.outcome(container, args.keep), (architecture.name, container)
            wrong = "FAILED" in found or (not args.update and expected.get(key) != found)
            if args.update and not wrong:
                expected = read_page() | {key: found}    # another family may be under way
                write_page(expected)
            failed += wrong
            told = f"  (the page says: {expected.get(key)})" if wrong and not args.update else ""
            print(f"{architecture.name:28} {container:5} {found}{told}", flush=True)
    print(f"{len(chosen)} architectures, {failed} results are not as they should be")
    sys.exit(1 if failed or not chosen else 0)


if __name__ == "__main__":
    main()
