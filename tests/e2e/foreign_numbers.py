#!/usr/bin/env python3
"""Numbers of an ONNX file of another exporter: piperc says what it takes them for, and trains those that the strategy names.

  foreign_numbers.py --bin BIN --work DIR

Each case is one graph of ONNX operators without torch's metadata, and the same model in PyTorch, in which the numbers are
parameters where the strategy's `train` names them. Losses of three steps and the weights that are saved must agree.
"""
import argparse
import dataclasses
import logging
import pathlib
import sys
from collections.abc import Callable

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file, save_file

import harness
from what_people_write import logged

BATCH, LR, STEPS = 8, 0.1, 3


@dataclasses.dataclass
class Case:
    nodes: list                        # on 'h' = x @ w + b, to 'p'
    numbers: dict                      # initializers beside w and b
    torch: Callable                    # (h, numbers) -> p
    train: tuple = ()
    freeze: tuple = ()
    trained: tuple = ()                # numbers that PyTorch trains
    constants: tuple = ()              # as the warning names them
    refused: str = ""


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs.split(), [output], **attributes)


SCALED = [node("Mul", "h logit_scale", "p")]
TWO = [node("Mul", "h logit_scale", "s"), node("Add", "s shift", "p")]
NUMBERS = {"logit_scale": torch.tensor(1.5), "shift": torch.tensor(0.25)}
CASES = {
    "untrained": Case(TWO, NUMBERS, lambda h, n: h * n["logit_scale"] + n["shift"], constants=("logit_scale", "shift")),
    "scale": Case(SCALED, {"logit_scale": torch.tensor(1.5)}, lambda h, n: h * n["logit_scale"], train=("logit_scale",), trained=("logit_scale",)),
    "one_of_two": Case(TWO, NUMBERS, lambda h, n: h * n["logit_scale"] + n["shift"], train=("shift",), trained=("shift",), constants=("logit_scale",)),
    "both_by_globs": Case(TWO, NUMBERS, lambda h, n: h * n["logit_scale"] + n["shift"], train=("logit*", "shift"), trained=("logit_scale", "shift")),
    "divisor": Case([node("Div", "h temperature", "p")], {"temperature": torch.tensor(2.0)}, lambda h, n: h / n["temperature"], train=("temperature",), trained=("temperature",)),
    "gate": Case([node("Sigmoid", "gate", "g"), node("Mul", "h g", "p")], {"gate": torch.tensor(-0.5)}, lambda h, n: h * n["gate"].sigmoid(),
                 train=("gate",), trained=("gate",)),
    "in_a_module": Case([node("Exp", "head.log_scale", "g"), node("Mul", "h g", "p")], {"head.log_scale": torch.tensor(-0.5)}, lambda h, n: h * n["head.log_scale"].exp(),
                        train=("head",), trained=("head.log_scale",)),
    "with_an_axis": Case([node("Mul", "h gain", "p")], {"gain": torch.tensor([1.5])}, lambda h, n: h * n["gain"], trained=("gain",)),
    "mask": Case([node("Mul", "h mask", "p")], {"mask": torch.tensor([1.0, 0.0, 1.0])}, lambda h, n: h * n["mask"], freeze=("mask",), constants=("mask",)),
    "exponent": Case([node("Pow", "h two", "p")], {"two": torch.tensor(2.0)}, lambda h, n: h ** 2, constants=("two",)),
    "exponent_trained": Case([node("Sigmoid", "h", "a"), node("Pow", "a two", "p")], {"two": torch.tensor(2.0)},
                             lambda h, n: torch.sigmoid(h) ** n["two"], train=("two",), trained=("two",)),
    "nothing_matches": Case(SCALED, {"logit_scale": torch.tensor(1.5)}, None, train=("logit_scael",), refused="P0309"),
}


def matrices():
    torch.manual_seed(1)
    return {"w": torch.randn(4, 3) / 2, "b": torch.zeros(3)}


def write_onnx(case, path):
    weights = matrices() | case.numbers
    nodes = [node("MatMul", "x w", "m"), node("Add", "m b", "h"), *case.nodes, node("Sub", "p y", "d"), node("Mul", "d d", "e"),
             node("ReduceMean", "e", "loss", keepdims=0)]
    tensors = [numpy_helper.from_array(value.numpy(), name) for name, value in weights.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 4]), helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 3])]
    graph = helper.make_graph(nodes, "foreign", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)


def strategy(case, pieces):
    keys = "".join(f", {key}: [{', '.join(map(repr, globs))}]" for key, globs in (("train", case.train), ("freeze", case.freeze)) if globs)
    split = f"directives:\n  - {{op: split, num_microbatches: {pieces}}}\n" if pieces > 1 else ""
    return f"piper: 1\nmodel: {{batch: {BATCH}{keys}}}\n{split}optimizer: {{sgd: {{lr: {LR}}}}}\n"


def trained_by_torch(case, data):
    weights = {name: value.clone() for name, value in (matrices() | case.numbers).items()}
    trained = [weights[name].requires_grad_() for name in ("w", "b", *case.trained)]
    optimizer, losses = torch.optim.SGD(trained, lr=LR), []
    for step in range(STEPS):
        x, y = (data[name][step * BATCH:(step + 1) * BATCH] for name in "xy")
        optimizer.zero_grad()
        loss = (case.torch(x @ weights["w"] + weights["b"], weights) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, weights


def fault(bench, case, pieces, data):
    """What is wrong, or nothing."""
    folder = bench.work
    write_onnx(case, folder / "m.onnx")
    (folder / "s.yaml").write_text(strategy(case, pieces))
    code, text = bench.end_of([bench.bin / "piperc", folder / "m.onnx", "--strategy", folder / "s.yaml", "-o", folder / "plans"])
    if case.refused:
        return "" if code == 1 and f"error[{case.refused}]" in text else f"not refused with {case.refused}: {code} {text}"
    if code:
        return text
    parameters, constants = ", ".join(["w", "b", *case.trained]), ", ".join(case.constants) or "none"
    said = f"taken as parameters {parameters}, as constants {constants}"
    if text.count("warning[P0317]") != 1 or said not in text:
        return f"does not say once '{said}': {text}"
    code, text = bench.end_of([bench.bin / "piper-run", folder / "plans", "--data", folder / "data.safetensors", "--steps", STEPS, "--log",
                               folder / "log.jsonl", "--save", folder / "saved.safetensors", "--threads", 1])
    if code:
        return text
    losses, weights = trained_by_torch(case, data)
    got = logged(folder)
    if len(got) != STEPS or any(abs(a - b) > 2e-5 * abs(b) + 1e-6 for a, b in zip(got, losses)):
        return f"losses {got}, of PyTorch {losses}"
    saved = load_file(folder / "saved.safetensors")
    wrong = [name for name in ("w", "b", *case.trained) if name not in saved or (saved[name] - weights[name]).abs().max() > 1e-5]
    return f"saved otherwise: {wrong}" if wrong else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    args = parser.parse_args()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    bench = harness.Bench(args.bin, args.work)
    torch.manual_seed(0)
    data = {"x": torch.randn(STEPS * BATCH, 4), "y": torch.randn(STEPS * BATCH, 3)}
    save_file(data, bench.work / "data.safetensors")
    faults = 0
    for name, case in CASES.items():
        for pieces in (1, 2):
            if what := fault(bench, case, pieces, data):
                faults += 1
                print(f"FAILED {name}, {pieces} pieces: {what}", flush=True)
    print(f"{2 * len(CASES)} runs, {faults} failed")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
