#!/usr/bin/env python3
"""Calls that piperc has no row for are taken apart by the exporter, and what torch.vmap maps is one piece; everything else stays.

  decompositions.py --bin BIN --work DIR

Each small model is exported as `.pt2`, some as ONNX, trains for three steps to PyTorch's losses, whole and with the batch in two pieces, and
is refused by name where nothing is taken apart. Files that torch.export or torch.onnx wrote are taken apart by --decompose.
"""
import argparse
import contextlib
import io
import sys
import zipfile

import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import derivatives_of_parts
import harness
import piper_export
import piper_export_decompose
import piper_export_refused
from checks import check, faults
from export_cases import Net, ends, hidden
from export_checks import STEPS, Trial, data_of, exported, made, torch_losses
from piper_export_decompositions import SAME_DERIVATIVE

aten = torch.ops.aten
CASES = {}
HALVES = "halves.yaml"


def case(*names, containers=("pt2",)):
    """names: words of the refusal where nothing is taken apart. containers: one where the other takes the same way."""
    def add(forward):
        CASES[forward.__name__] = (forward, names, containers)
        return forward
    return add


@case("aten.addr.default")
def a_call_without_a_row(s, x, y):
    return ends(s, hidden(s, x) + torch.addr(s.m.weight, s.m.bias, s.a.bias, beta=0.5).sum(0), y)


@case("aten.expand_copy.default", containers=("pt2", "onnx"))
def a_call_by_the_extent_of_the_batch(s, x, y):
    return ends(s, hidden(s, x) * torch.expand_copy(s.m.bias, (x.shape[0], 4)), y)


@case("aten.addr.default")
def a_call_in_place(s, x, y):
    w = s.m.weight * 1.0
    w.addr_(s.m.bias, s.a.bias, beta=0.5)
    return ends(s, hidden(s, x) @ w, y)


@case("aten.diagonal.default")
def a_rule_of_ours(s, x, y):
    return ends(s, hidden(s, x) * torch.diagonal(s.m.weight) + F.pad(torch.diagonal(s.m.weight, 1), (0, 1)), y)


@case("aten.upsample_bilinear2d.vec", containers=("pt2", "onnx"))
def interpolation(s, x, y):
    image = F.interpolate(hidden(s, x).view(-1, 1, 2, 2), (3, 5), mode="bilinear", align_corners=False)
    return ends(s, image.flatten(1)[:, :4] * 2, y)


@case("aten.grid_sampler.default")
def samples_of_images(s, x, y):
    """Every sample has its own places, inside and outside; smooth, cubic and the nearest."""
    image, grid = hidden(s, x).view(-1, 1, 2, 2), 2 * s.m(hidden(s, x)).view(-1, 2, 1, 2)
    found = [F.grid_sample(image, grid, mode, padding, aligned) for mode, padding, aligned in
             (("bilinear", "zeros", False), ("bicubic", "reflection", True), ("nearest", "border", False))]
    return ends(s, torch.cat(found, 1).flatten(1)[:, :4] + found[2].flatten(1).repeat(1, 2), y)


@case("aten.scatter_reduce.two")
def a_scatter_that_reduces(s, x, y):
    """Two elements go to one place, one place has none; with what was there, and without."""
    h, places = hidden(s, x), torch.tensor([[0, 1, 1, 3]]).expand(x.shape[0], 4)
    found = [h.scatter_reduce(1, places, 2 * s.a.bias * h, kind, include_self=own) for kind in ("amax", "amin", "mean", "sum") for own in (True, False)]
    return ends(s, sum((i + 1) * 0.1 * f for i, f in enumerate(found)), y)


@case("aten.index_reduce.default")
def rows_that_reduce(s, x, y):
    h, places = hidden(s, x), torch.tensor([2, 0, 2])
    found = [h.index_reduce(1, places, (s.a.bias * h)[:, :3], kind, include_self=own) for kind in ("amax", "amin", "mean") for own in (True, False)]
    return ends(s, sum((i + 1) * 0.1 * f for i, f in enumerate(found)), y)


@case("P0306")
def a_row_that_refuses_its_arguments(s, x, y):
    return ends(s, F.pad(hidden(s, x), (1, 1), mode="reflect").unfold(1, 4, 2).sum(1), y)


@case("_add_batch_dim")
def a_mapping(s, x, y):
    return ends(s, torch.vmap(lambda row: torch.tanh(s.a(row)) * row.sum())(x), y)


@case("_add_batch_dim")
def a_mapping_of_mappings(s, x, y):
    return ends(s, torch.vmap(lambda row: torch.vmap(lambda w: torch.logaddexp(w, row).softmax(-1) @ row)(s.m.weight))(x), y)


def read_after_a_write(s, x, y):
    """The parts would be a copy, and the call is a view of what is written afterwards."""
    w = (s.m.weight * 1.0).T
    d = torch.diagonal(w)
    w.mul_(2)
    return ends(s, hidden(s, x) * d, y)


def by_a_fixed_batch(s, x, y):
    """Parts for batches of four or more alone."""
    return ends(s, hidden(s, x) * torch.diagonal(hidden(s, x)), y)


def beside(s, x, y):
    """What a whole program's decomposition changes: dropout, batch norm, reshape, writes in place; with tags and without gradient."""
    h = s.norm(F.dropout(hidden(s, x), 0.3)).reshape(-1, 2, 2).flatten(1)
    h.mul_(2)
    h[:, 0] = 1.0
    with torch.no_grad():
        scale = torch.addr(s.m.weight, s.m.bias, s.m.bias).diagonal()
    with torch.fx.traceback.annotate({"PP": 1}):
        h = h + torch.addr(s.m.weight, s.m.bias, s.a.bias).sum(0)
    return ends(s, h * scale, y)


def with_norm(s):
    s.norm = nn.BatchNorm1d(4)


def nodes_of(path):
    return list(torch.export.load(str(path)).graph.nodes)


def place_of(node):
    return str([node.meta.get(key) for key in ("nn_module_stack", "stack_trace", "custom")])


def text_of(node):
    return f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {place_of(node)}"


class Decompositions(Trial):
    def tried(self, name, forward, refusal, containers):
        (self.work / HALVES).write_text(f"piper: 1\nmodel: {{batch: {harness.BATCH}}}\ndirectives: [{{op: split, num_microbatches: 2}}]\n"
                                        "optimizer: {sgd: {lr: 0.3}}\n")
        for container in containers:
            path = self.work / f"model.{container}"
            said = exported(lambda: Net(forward), path)
            for strategy in ("s.yaml", HALVES):
                got = self.trained(path, data_of(made(lambda: Net(forward)), STEPS * harness.BATCH), strategy)
                wrong = got if isinstance(got, str) else harness.loss_faults(got, torch_losses(lambda: Net(forward)), 1e-5)
                check(f"{name} ({container}, {strategy}) is right", not wrong and "not checked" not in said, f"{said}{wrong}")
        archive = zipfile.ZipFile(self.work / "model.pt2")
        check(f"{name} is the same with one sample, and the file says so", any(
            member.endswith("extra/piper.one_sample") and archive.read(member) == b"same" for member in archive.namelist()), archive.namelist())
        path = self.work / "whole.pt2"
        said = exported(lambda: Net(forward), path, decompose=None, check=False)
        got = self.trained(path, data_of(made(lambda: Net(forward)), STEPS * harness.BATCH))
        check(f"{name} is refused where nothing is taken apart", isinstance(got, str) and any(word in got for word in refusal[0].split("|")), f"{said}{got}")

    def stays(self, forward):
        path = self.work / "stays.pt2"
        said = exported(lambda: Net(forward), path)
        got = self.trained(path, data_of(made(lambda: Net(forward)), STEPS * harness.BATCH))
        check(f"a call stays and is refused: {forward.__doc__}", path.exists() and any(node.target is aten.diagonal.default for node in nodes_of(path)) and
              isinstance(got, str) and ("error[P0305]" in got or "error[P0313]" in got), f"{said}{got}")

    def the_rest_stays(self):
        paths = [self.work / "whole.pt2", self.work / "apart.pt2"]
        for path, decompose in zip(paths, (None, ())):
            exported(lambda: Net(beside, with_norm), path, decompose=decompose, check=False)
        whole, apart = map(nodes_of, paths)
        apart_text, at, missing = [text_of(node) for node in apart], 0, []
        for node in whole:
            found = [i for i in range(at, len(apart_text)) if apart_text[i] == text_of(node)]
            if found:
                at = found[0] + 1
            else:
                missing.append(node)
        taken = [str(node.target) for node in missing]
        check("nodes that have a row are the same, in the same order", sorted(taken) == ["aten.addr.default", "aten.addr.default", "aten.diagonal.default"], taken)
        kept = {node.name for node in apart}
        check("results have the names that they had", {node.name for node in missing} <= kept, missing)
        new = [node for node in apart if text_of(node) not in {text_of(n) for n in whole}]
        of_no_gradient = [node for node in new if node.meta["custom"].get("piper_no_grad")]
        tagged = [node for node in new if node.meta["custom"].get("PP") == 1]
        places = [place_of(node) for node in missing]
        check("the parts have the mark of no gradient, the tag, the module and the line of their call",
              len(of_no_gradient) >= 4 and len(tagged) >= 4 and len(of_no_gradient) + len(tagged) == len(new) and
              all(place_of(node) in places for node in new), [text_of(n) for n in new])
        check("every call has a row", not piper_export_decompose.without_rows(torch.export.load(str(paths[1]))), apart_text)

    def files_of_others(self):
        """What torch.export.save wrote, with two symbolic axes and tied weights."""
        def forward(s, x, y):
            s.m.weight = s.a.weight
            with torch.no_grad():
                scale = torch.addr(s.m.weight, s.m.bias, s.m.bias).mean()
            return ends(s, torch.broadcast_to(s.m(hidden(s, x)), (x.shape[0], 4)) + torch.vmap(torch.sin)(x) * scale, y)

        def tie(s):
            s.m.weight = s.a.weight
        old, new = self.work / "old.pt2", self.work / "new.pt2"
        model, batch = made(lambda: Net(forward, tie)), torch.export.Dim("batch", min=2)
        inputs = data_of(model, 5)
        program = torch.export.export(model, (), kwargs=inputs, dynamic_shapes={"x": {0: batch}, "y": {0: batch}})
        symbol = str(next(n for n in program.graph.nodes if n.name == "x").meta["val"].shape[0])
        torch.export.save(program, old, extra_files={"piper.dims": f"{symbol} B\n", "piper.one_sample": "same"})
        got = self.trained(old, data_of(model, STEPS * harness.BATCH))
        check("a file of torch.export is refused, with the command that helps", isinstance(got, str) and "P0305" in got and "--decompose" in got, got)
        code, said = command("--decompose", old, "-o", new)
        check("--decompose takes it apart", code == 0 and "calls are taken apart" in said, said)
        got = self.trained(new, data_of(model, STEPS * harness.BATCH))
        wrong = got if isinstance(got, str) else harness.loss_faults(got, torch_losses(lambda: Net(forward, tie)), 1e-5)
        check("then it trains as the model does", not wrong, wrong)
        kept = [zipfile.ZipFile(path) for path in (old, new)]
        extra = [{name.partition("extra/")[2]: file.read(name) for name in file.namelist() if "extra/" in name} for file in kept]
        check("names of axes are kept, and what was said of one sample is not", extra[1] == {"piper.dims": extra[0]["piper.dims"]}, extra)
        states = [torch.export.load(str(path)).state_dict for path in (old, new)]
        check("tied weights stay one", states[1]["a.weight"].data_ptr() == states[1]["m.weight"].data_ptr() and states[0].keys() == states[1].keys(), states)
        code, said = command("--decompose", new, "-o", self.work / "newer.pt2")
        check("where nothing is to be taken apart that is said", code == 1 and "piperc has a row for every call" in said, said)
        code, said = command("--decompose", old, "-o", old)
        check("the file itself is not written over", code == 1 and "give another name" in said, said)

    def onnx_files(self):
        """An operator that ONNX defines by a function, and a function of the file."""
        weight = numpy_helper.from_array(torch.linspace(-1, 1, 16).view(4, 4).numpy(), "w")
        twice = helper.make_function("own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 18)])
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("HannWindow", ["size"], ["n"], periodic=1, output_datatype=1), helper.make_node("Mul", ["n", "h"], ["t"]),
                 helper.make_node("Twice", ["t"], ["d"], domain="own"), helper.make_node("ReduceMean", ["d"], ["loss"], keepdims=0)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 4])],
                                  [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                                  [weight, numpy_helper.from_array(torch.tensor(4).numpy(), "size")])
        old, new = self.work / "old.onnx", self.work / "new.onnx"
        onnx.save(helper.make_model(graph, functions=[twice], opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("own", 1)], ir_version=10), old)
        data = {"x": torch.randn(STEPS * harness.BATCH, 4, generator=torch.Generator().manual_seed(0))}
        (self.work / "onnx.yaml").write_text(f"piper: 1\nmodel: {{batch: {harness.BATCH}, train: [w]}}\noptimizer: {{sgd: {{lr: 0.3}}}}\n")
        got = self.trained(old, data, "onnx.yaml")
        check("an ONNX file with a function is refused, with the command that helps", isinstance(got, str) and "P0305" in got and "--decompose" in got, got)
        code, said = command("--decompose", old, "-o", new)
        check("--decompose puts functions in the place of calls", code == 0 and "2 calls are taken apart" in said, said)
        w, wanted = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_(), []
        for batch in data["x"].split(harness.BATCH):
            loss = (2 * (batch @ w) * torch.hann_window(4)).mean()
            (gradient,) = torch.autograd.grad(loss, w)
            w.data -= 0.3 * gradient
            wanted.append(loss.item())
        got = self.trained(new, data, "onnx.yaml")
        wrong = got if isinstance(got, str) else harness.loss_faults(got, wanted, 1e-5)
        check("then it trains as ONNX says", not wrong, wrong)


    def rows_that_refuse(self):
        """piperc refuses each form of which the exporter says so, and where there are rules it trains once it is taken apart."""
        for target, (run, is_right) in REFUSED.items():
            def forward(s, x, y, run=run):
                return ends(s, hidden(s, x) + run(s.m.weight), y)
            path = self.work / "refused.pt2"
            for decompose in (None, ()):
                exported(lambda: Net(forward), path, decompose=decompose)
                got = self.trained(path, data_of(made(lambda: Net(forward)), STEPS * harness.BATCH))
                if decompose is None or not is_right:
                    check(f"{target} is refused in this form", isinstance(got, str) and "error[P0306]" in got and target in got, got)
                else:
                    wrong = got if isinstance(got, str) else harness.loss_faults(got, torch_losses(lambda: Net(forward)), 1e-5)
                    check(f"{target} in this form trains once it is taken apart", not wrong, wrong)
        check("of every condition there is a form here", REFUSED.keys() == piper_export_refused.CONDITIONS.keys(),
              REFUSED.keys() ^ piper_export_refused.CONDITIONS.keys())


# A form that the row refuses, of a matrix of 4 times 4; and whether PyTorch takes it apart.
REFUSED = {
    "aten.as_strided.default": (lambda w: (w * 1).as_strided((4, 4), (1, 2)).sum(0), True),
    "aten.pad.default": (lambda w: F.pad(w, (1, 1), mode="reflect")[:, :4].sum(0), True),
    "aten.upsample_nearest1d.vec": (lambda w: F.interpolate(w[None], 6).sum(1)[0, :4], True),
    "aten.upsample_nearest2d.vec": (lambda w: F.interpolate(w[None, None], (3, 7))[0, 0, 2, :4], True),
    "aten.upsample_nearest2d.default": (lambda w: aten.upsample_nearest2d.default(w[None, None], [3, 7])[0, 0, 2, :4], True),
}


def command(*words):
    said, argv = io.StringIO(), sys.argv
    sys.argv = ["piper_export.py", *map(str, words)]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = piper_export.main()
    finally:
        sys.argv = argv
    return code, said.getvalue()


def derivatives():
    """Some of the list, and the comparison itself: where PyTorch's parts have another derivative it says so."""
    x = torch.randn(3, 4)
    for target, *args in ((aten.threshold.default, x, 0.3, 0.2), (aten.addr.default, x, x[:, 0], x[0]),
                          (aten.diagonal.default, x), (aten.upsample_bilinear2d.default, torch.randn(1, 2, 3, 4), [4, 7], False)):
        module = derivatives_of_parts.parts_of(target, args, {}, listed=True)
        why = "it is not taken apart" if module is None else derivatives_of_parts.difference(target, args, {}, module)
        check(f"{target} has the derivative of its parts", not why and str(target) in SAME_DERIVATIVE, why)
    for target, *args in ((aten.sinc.default, x), (aten.hardsigmoid.default, x), (aten.special_entr.default, x)):
        rule = torch._decomp.decomposition_table[target]
        why = derivatives_of_parts.difference(target, args, {}, rule)
        check(f"{target} has another than PyTorch's parts", "gradient" in why and str(target) not in SAME_DERIVATIVE, why)
    check("a call that has neither a row nor a rule stays", derivatives_of_parts.parts_of(aten.special_bessel_j0.default, (x,), {}, listed=True) is None)


def no_primitives():
    """Parts with a derivative alone: prims.* have none."""
    x = torch.randn(2, 2, 4, 4)
    for target, *args in ((aten.upsample_bicubic2d.default, x, [3, 7], False), (aten.addmv.default, x[0, 0, 0], x[0, 0], x[0, 0, 1]), (aten.trace.default, x[0, 0])):
        module = derivatives_of_parts.parts_of(target, args, {}, listed=True)
        check(f"{target} has parts of ATen alone", module is not None and not any("prims" in str(node.target) for node in module.graph.nodes), module and module.code)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    trial = Decompositions(args.bin, args.work)
    for name, arguments in CASES.items():
        if args.only in name:
            trial.tried(name.replace("_", " "), *arguments)
    if not args.only:
        trial.the_rest_stays()
        trial.stays(read_after_a_write)
        trial.stays(by_a_fixed_batch)
        trial.rows_that_refuse()
        trial.files_of_others()
        trial.onnx_files()
        derivatives()
        no_primitives()
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
