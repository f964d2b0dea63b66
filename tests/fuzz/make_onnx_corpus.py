#!/usr/bin/env python3
"""Writes the seeds of fuzz_onnx: small ONNX models that together use every operator family.

  make_onnx_corpus.py [folder]        default: corpus/onnx beside this file; needs the onnx package
"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model(inputs, nodes, weights=(), output="y", opset=20):
    initializers = [numpy_helper.from_array(array, name) for name, array in weights]
    graph = helper.make_graph(nodes, "g", inputs, [value(output, F, None)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def node(op, inputs, output="y", **attributes):
    outputs = [output] if isinstance(output, str) else output
    return helper.make_node(op, inputs, outputs, **attributes)


def ints(name, values):
    return node("Constant", [], name, value_ints=values)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def seeds():
    x = [value("x", F, ["B", 4])]
    image = [value("x", F, ["B", 4, 6, 6])]
    qkv = [value(n, F, ["B", 2, 3, 4]) for n in "qkv"]
    yield "linear", model(x, [node("Transpose", ["w"], "t", perm=[1, 0]), node("MatMul", ["x", "t"], "p"), node("Add", ["p", "b"])],
                          [("w", zeros(3, 4)), ("b", zeros(3))])
    yield "gemm", model(x, [node("Gemm", ["x", "w", "b"], transB=1, alpha=0.5), ], [("w", zeros(3, 4)), ("b", zeros(3))])
    yield "shapes", model(x, [
        node("Shape", ["x"], "s", start=0, end=1), ints("m", [2, -1]), node("Concat", ["s", "m"], "t", axis=0),
        node("Reshape", ["x", "t"], "r", allowzero=1), ints("a", [1]), node("Unsqueeze", ["r", "a"], "u"), node("Squeeze", ["u", "a"])])
    yield "slices", model(x, [
        ints("st", [0]), ints("en", [9223372036854775807]), ints("ax", [1]), ints("sp", [-2]), node("Slice", ["x", "en", "st", "ax", "sp"], "s"),
        ints("pads", [0, 1, 0, -1]), node("Pad", ["s", "pads"], "p"), ints("rep", [1, 2]), node("Tile", ["p", "rep"])])
    yield "sequence", model(x, [
        node("Constant", [], "two", value_int=2), node("Constant", [], "one", value_int=1),
        node("SplitToSequence", ["x", "two"], "s", axis=1), node("SequenceAt", ["s", "one"], "a"), node("Split", ["a"], ["b", "c"], axis=1, num_outputs=2),
        node("Concat", ["b", "c"], axis=1)])
    yield "attention20", model(qkv, [
        node("Constant", [], "c", value_float=0.7), node("Transpose", ["k"], "kt", perm=[0, 1, 3, 2]), node("Mul", ["q", "c"], "qs"),
        node("Mul", ["kt", "c"], "ks"), node("MatMul", ["qs", "ks"], "s"), ints("sq", [3, 3]), node("Constant", [], "o", value_float=1.0),
        node("Expand", ["o", "sq"], "on"), node("Trilu", ["on"], "tr", upper=0), node("Constant", [], "z", value_float=0.0),
        node("Equal", ["tr", "z"], "e"), node("Constant", [], "l", value_float=-3.4e38), node("Where", ["e", "l", "z"], "m"),
        node("Add", ["s", "m"], "sm"), node("Softmax", ["sm"], "p", axis=-1), node("MatMul", ["p", "v"])])
    yield "attention23", model(qkv + [value("m", B, ["B", 1, 3, 3])], [node("Attention", ["q", "k", "v", "m"])], opset=23)
    yield "norms", model(x, [node("LayerNormalization", ["x", "w", "b"], "n", axis=-1), node("RMSNormalization", ["n", "w"])],
                         [("w", zeros(4)), ("b", zeros(4))], opset=23)
    yield "groupnorm", model(image, [
        ints("g", [0, 2, -1]), node("Reshape", ["x", "g"], "r"), node("InstanceNormalization", ["r", "o", "z"], "i"), node("Shape", ["x"], "s"),
        node("Reshape", ["i", "s"], "n"), ints("ax", [1, 2]), node("Unsqueeze", ["w", "ax"], "u"), node("Mul", ["n", "u"], "m"), node("Add", ["m", "u"])],
        [("o", np.ones(2, np.float32)), ("z", zeros(2)), ("w", zeros(4))])
    yield "windows", model(image, [
        node("Conv", ["x", "w"], "c", pads=[1, 1, 0, 0], strides=[2, 2], group=2), node("MaxPool", ["c"], "p", kernel_shape=[2, 2]),
        node("AveragePool", ["p"], "a", kernel_shape=[2, 2], auto_pad="SAME_UPPER", count_include_pad=1), node("GlobalAveragePool", ["a"])],
        [("w", zeros(4, 2, 3, 3))])
    yield "batchnorm", model(image, [node("BatchNormalization", ["x", "w", "w", "running_mean", "running_var"], ["y"], training_mode=1)],
                             [("w", zeros(4)), ("running_mean", zeros(4)), ("running_var", zeros(4))])
    yield "indexing", model([value("i", I, ["B", 2])], [
        node("Gather", ["w", "i"], "e"), node("Constant", [], "k", value_int=1), node("TopK", ["e", "k1"], ["t", "n"], axis=-1),
        node("GatherElements", ["e", "n"], "ge", axis=-1), node("ScatterElements", ["e", "n", "ge"], "se", axis=-1),
        node("GatherND", ["w", "i"], "nd"), node("ReduceSum", ["se"], "r", keepdims=0), node("Add", ["r", "nd"])],
        [("w", zeros(5, 4)), ("k1", np.array([1], np.int64))])
    yield "moe", model([value("x", F, [6, 4]), value("g", F, [6, 3])], [
        node("Einsum", ["x", "w"], "h", equation="tc,ech->eth"), node("Einsum", ["h", "v", "g"], equation="eth,ehc,te->tc")],
        [("w", zeros(3, 4, 5)), ("v", zeros(3, 5, 4))])
    yield "loss", model(x + [value("t", I, ["B"])], [
        node("SoftmaxCrossEntropyLoss", ["x", "t"], "l", ignore_index=-1), node("LogSoftmax", ["x"], "s", axis=-1),
        node("NegativeLogLikelihoodLoss", ["s", "t"], "n", reduction="sum"), node("Sub", ["x", "s"], "d"), node("Mul", ["d", "d"], "q"),
        node("ReduceMean", ["q"], "m", keepdims=0), node("Sum", ["l", "n", "m"])])
    yield "dropout", model(x, [node("Dropout", ["x", "p", "t"])], [("p", np.float32(0.1)), ("t", np.bool_(True))])
    yield "constants", model([], [
        node("Constant", [], "a", value_int=0), node("Constant", [], "b", value_int=7), node("Constant", [], "c", value_int=2), node("Range", ["a", "b", "c"], "r"),
        node("CumSum", ["r", "a"], "s", reverse=1), node("Div", ["s", "c"], "d"), node("Mod", ["d", "c"], "m"), node("OneHot", ["m", "b", "v"], "o"),
        node("Cast", ["o"], "f", to=1), node("Pow", ["f", "c"], "p"), node("Clip", ["p"], "cl"), node("Not", ["bo"], "no"), node("Where", ["no", "cl", "f"])],
        [("v", np.array([0, 1], np.int64)), ("bo", np.bool_(True))])
    yield "activations", model(x, [
        node("Elu", ["x"], "a"), node("Selu", ["a"], "b"), node("HardSwish", ["b"], "c"), node("Mish", ["c"], "d"), node("Gelu", ["d"], "e", approximate="tanh"),
        node("PRelu", ["e", "w"], "f"), node("Sigmoid", ["f"], "s"), node("Mul", ["f", "s"], "u"), node("ReduceLogSumExp", ["u"], "r"), node("ReduceMax", ["r"])],
        [("w", zeros(4))])


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus" / "onnx"
    folder.mkdir(parents=True, exist_ok=True)
    for name, proto in seeds():
        (folder / f"{name}.onnx").write_bytes(proto.SerializeToString())


if __name__ == "__main__":
    main()
