#!/usr/bin/env python3
"""ONNX's own backend tests train as their reference says, or are refused with a code.

  onnx_tests.py --bin BIN --work DIR [--results FILE] [--first N] [--count N] [--every N] [--only WORD]

Every test with an input (of one axis at least) and a result of f32 becomes three models: all such inputs as parameters; the first alone, the others as
constants; and the first as data, each sample times a parameter, whole and cut. The loss is the sum of the results times fixed weights.
ONNX's reference evaluator, in f64, gives the losses of two steps and by differences the gradient along some directions.
"""
import dataclasses
import math
import pathlib
import sys
import time
import types
import warnings

import numpy
import onnx
import onnx.version_converter
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from suite import BATCH, LR, STEPS, End, Form, Subject, arguments, report, run

# A test of each operator that has no other test on its own, and of its forms.
ONE_EACH = """
    affine_grid_3d_align_corners attention_4d_causal_with_past_and_present attention_4d_with_qk_matmul_softcap attention_local_window_rank1_boolean_mask
    averagepool_2d_same_lower averagepool_3d_dilations_small causal_conv_with_state_silu_with_past_state center_crop_pad_crop_and_pad col2im_5d
    convtranspose_output_shape convtranspose_pads cumprod_of_f32 dft_irfft dft_rfft gridsample_bicubic gridsample_reflection_padding
    gridsample_volumetric_bilinear_align_corners_1 gru_seq_length l1normalization_axis_last layer_normalization_3d_axis1_epsilon
    linear_attention_gated_delta_gqa lppool_2d_dilations lrn lstm_batchwise lstm_bidirectional lstm_with_peepholes maxpool_3d_dilations
    maxunpool_export_with_output_shape mvn resize_downsample_scales_cubic_A_n0p5_exclude_outside resize_downsample_sizes_linear_antialias
    resize_tf_crop_and_resize_extrapolation_value resize_upsample_sizes_nearest_not_smaller reversesequence_batch rotary_embedding_interleaved
    scatter_elements_with_reduction_mul scatternd_max sce_mean_weight_ii_4d_log_prob simple_rnn_reverse spacetodepth_crd_mode_example swiglu_alpha
    tensorscatter_circular""".split()
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
X, LOSS = "piper_x", "piper_loss"


def with_loss(model, trained, given, constants, weights, scaled=""):
    """The test's model with a loss. trained: initial values of parameters; given: the type of data; constants: of other inputs; weights: of each
    result. scaled: the input that is data times a parameter."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph, nodes = model.graph, []

    def constant(name, value):
        nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, name)))

    for name, value in constants.items():
        constant(name, value)
    for tensor in graph.initializer:    # the test's own are no parameters
        constant(tensor.name, numpy_helper.to_array(tensor))
    del graph.initializer[:]
    for name, value in trained.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    if scaled:
        nodes.append(helper.make_node("Mul", [X, scaled + "_scale"], [scaled]))
    ends, terms = [], []
    for name, value in weights.items():
        constant(f"{name}_weight", value)
        ends += [helper.make_node("Mul", [name, f"{name}_weight"], [f"{name}_weighted"]),
                 helper.make_node("ReduceSum" if not scaled else "ReduceMean", [f"{name}_weighted"], [f"{name}_term"], keepdims=0)]
        terms.append(f"{name}_term")
    ends.append(helper.make_node("Sum", terms, ["piper_terms"]))
    if scaled:
        ends.append(helper.make_node("Identity", ["piper_terms"], [LOSS]))
    else:
        ends += [helper.make_node("ReduceMean", [X], ["piper_mean"], keepdims=0), helper.make_node("Mul", ["piper_mean", "piper_terms"], [LOSS])]
    nodes += [*graph.node, *ends]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.input[:]
    graph.input.append(helper.make_tensor_value_info(X, TensorProto.FLOAT, given))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(LOSS, TensorProto.FLOAT, []))
    return model


def in_double(graph):
    """Every constant of f32 in f64, and casts to it."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT and node.op_type != "Bernoulli":
                attribute.i = TensorProto.DOUBLE
            elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                value = numpy.array(attribute.f if attribute.name == "value_float" else list(attribute.floats), numpy.float64)
                attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(value)))
            elif attribute.HasField("t") and attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(numpy.float64), attribute.t.name))
            if attribute.HasField("g"):
                in_double(attribute.g)
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(numpy.float64), tensor.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE


def in_known_opset(model):
    """The model in an opset that piper imports, where the same operators are in one."""
    opset = next((o for o in model.opset_import if not o.domain), None)
    if opset is None or 13 <= opset.version <= 28:
        return model
    try:
        if opset.version < 13:
            return onnx.version_converter.convert_version(model, 13)
        other = onnx.ModelProto.FromString(model.SerializeToString())
        next(o for o in other.opset_import if not o.domain).version = 28
        onnx.checker.check_model(other)
        return other
    except Exception:
        return model


class LpNormalization(OpRun):
    """That of the evaluator adds up numbers, not their sizes."""
    op_domain = ""

    def _run(self, x, axis=None, p=None):
        norm = (numpy.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
        return (numpy.where(norm == 0, 0, x / numpy.where(norm == 0, 1, norm)).astype(x.dtype),)


class ByEvaluator:
    """Losses and slopes by ONNX's reference evaluator."""

    def __init__(self, form):
        self.form, self.subject, self.unfit = form, form.subject, ""
        self.data = next(iter(form.subject.data.values())).numpy().astype(numpy.float64)
        try:
            # Parameters are fed, so as to be moved.
            model = onnx.ModelProto.FromString(form.model.SerializeToString())
            model.graph.input.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in form.trained.items())
            kept = [i for i in model.graph.initializer if i.name not in form.trained]
            del model.graph.initializer[:]
            model.graph.initializer.extend(kept)
            in_double(model.graph)
            self.evaluator = ReferenceEvaluator(model, new_ops=[LpNormalization])
            self.start = {n: v.astype(numpy.float64) for n, v in form.trained.items()}
            begin = time.process_time()
            first, between = self.loss(self.start, 0), self.results()
        except Exception as error:
            self.unfit = f"onnx: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
            return
        if time.process_time() - begin > 1:    # and there are some twenty more
            self.unfit = "onnx: its evaluator takes more than a second"
        elif not math.isfinite(first) or abs(first) > 1e4:
            self.unfit = "numbers that grow without bound"
        elif any(numpy.isnan(v).any() for v in between.values() if isinstance(v, numpy.ndarray) and v.dtype.kind == "f"):
            self.unfit = "a NaN that the loss does not take: by the chain rule gradients take it, in PyTorch, too"

    def results(self):
        """The cases of every operator, by name."""
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return self.evaluator.run(None, {X: self.data[:BATCH], **self.start}, intermediate=True)

    def loss(self, weights, step):
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return float(self.evaluator.run(None, {X: self.data[step * BATCH:(step + 1) * BATCH], **weights})[0])

    def faults(self, got):
        faults, weights = [], dict(self.start)
        for step, mine in enumerate(got.losses):
            if step:
                weights = {n: w - LR * got.gradients[n].double().numpy() if n in got.gradients else w for n, w in self.start.items()}
            try:
                wanted = self.loss(weights, step)
            except Exception:    # weights that the test's operator does not take
                continue
            sensitive = max(abs(wanted - self.loss({n: w * (1 + sign * 1e-6) for n, w in weights.items()}, step)) for sign in (1, -1))
            if math.isfinite(wanted) and not abs(mine - wanted) <= 1e-5 * (1 + abs(wanted)) + 3 * sensitive:
                faults.append(f"loss {step + 1} is {mine:.7g}, of ONNX {wanted:.7g}")
        for name, value in self.start.items():
            gradient = got.gradients.get(name, torch.zeros(value.shape)).double().numpy()
            for seed in range(2):
                along = numpy.random.default_rng(seed).standard_normal(value.shape)
                try:
                    slopes = [self.slope(name, along, size) for size in (1e-5, 3e-4)]
                except Exception:
                    continue
                mine, size = float((gradient * along).sum()), float(numpy.linalg.norm(gradient))
                if all(map(math.isfinite, slopes)) and not abs(mine - slopes[0]) <= 1e-3 * (size + abs(slopes[0])) + 3 * abs(slopes[1] - slopes[0]) + 1e-4:
                    faults.append(f"the slope of {name} is {mine:.5g}, of ONNX {slopes[0]:.5g} or {slopes[1]:.5g}")
        return faults

    def slope(self, name, along, size):
        ends = [self.loss({**self.start, name: self.start[name] + sign * size * along}, 0) for sign in (1, -1)]
        return (ends[0] - ends[1]) / (2 * size)

    def trains_nothing(self):
        return False    # its gradients are differences, which roundings make


@dataclasses.dataclass(frozen=True)
class OnnxForm(Form):
    model: onnx.ModelProto = None
    trained: dict = None

    def reference(self):
        return ByEvaluator(self)

    def write(self, programs, container):
        try:
            onnx.save(self.model, programs.work / f"model.{container}")
        except Exception as error:
            return End("left out", str(error)[:150])
        return None


def of_one_node(name, node, given):
    """A test that ONNX has for f64 alone."""
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])
    return types.SimpleNamespace(name=name, model=model, data_sets=[(list(given.values()), ReferenceEvaluator(model).run(None, given))])


class Tests:
    def __init__(self):
        from onnx.backend.test.loader import load_model_tests
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            self.tests = {test.name: test for kind in KINDS for test in load_model_tests(kind=kind)}
        self.names = list(self.tests)
        product = of_one_node("test_cumprod_of_f32", helper.make_node("CumProd", ["x", "axis"], ["y"], exclusive=1, reverse=1),
                              {"x": numpy.linspace(-1, 2, 24, dtype=numpy.float32).reshape(2, 3, 4), "axis": numpy.array(1)})
        self.tests[product.name] = product

    def forms_of(self, name):
        test = self.tests[name]
        model, sets = test.model, test.data_sets
        if model is None:
            model = onnx.load(f"{test.model_dir}/model.onnx")
            folder = pathlib.Path(test.model_dir) / "test_data_set_0"
            sets = [tuple([numpy_helper.to_array(onnx.load_tensor(folder / f"{kind}_{i}.pb")) for i in range(len(list(folder.glob(f"{kind}_*"))))]
                          for kind in ("input", "output"))]
        model = in_known_opset(model)
        inside = {i.name for i in model.graph.initializer}
        names = [i.name for i in model.graph.input if i.name not in inside]
        given = dict(zip(names, sets[0][0]))
        made = dict(zip([o.name for o in model.graph.output], sets[0][1]))

        def is_float(value):
            return isinstance(value, numpy.ndarray) and value.dtype == numpy.float32
        if not all(isinstance(v, numpy.ndarray) for v in given.values()):
            return "an input that is no tensor"
        draws = numpy.random.default_rng(5)
        # Away from places where a function has no derivative.
        floating = {n: (v * (1 + 1e-3 * draws.standard_normal(v.shape)) + 1e-4 * draws.standard_normal(v.shape)).astype(numpy.float32)
                    for n, v in given.items() if is_float(v) and v.ndim > 0}    # of a foreign file one number alone is a constant
        results = {n: v for n, v in made.items() if is_float(v)}
        if not floating or not results:
            return "no f32 in and out"
        weights = {n: (draws.standard_normal(v.shape) / max(v.size, 1) ** 0.5).astype(numpy.float32) for n, v in results.items()}
        mean = {X: 0.9 + 0.1 * torch.rand(STEPS * BATCH, generator=torch.Generator().manual_seed(0))}
        forms = []
        for form, chosen in (("all trained", list(floating)), ("first trained", list(floating)[:1])):
            if form == "all trained" or len(floating) > 1:
                trained = {n: floating[n] for n in chosen}
                constants = {n: v for n, v in given.items() if n not in trained}
                forms.append(OnnxForm(Subject(None, mean, {}, BATCH, STEPS, LR), {form: 1}, with_loss(model, trained, ["B"], constants, weights), trained))
        first = next(iter(floating))
        if floating[first].ndim and floating[first].shape[0]:
            shape = floating[first].shape[1:]
            rows = numpy.concatenate([floating[first]] * (STEPS * BATCH))[:STEPS * BATCH]
            rows = rows * (1 + 0.1 * draws.standard_normal(rows.shape)).astype(numpy.float32)
            weights = {n: draws.standard_normal((1, *v.shape[1:]) if v.ndim else ()).astype(numpy.float32) for n, v in results.items()}
            constants = {n: v for n, v in given.items() if n != first}
            for node in model.graph.node:    # of which the evaluator takes all steps, whatever their lengths
                if node.op_type in ("GRU", "LSTM", "RNN") and len(node.input) > 4 and node.input[4] in constants:
                    constants[node.input[4]] = numpy.full_like(constants[node.input[4]], BATCH)
            trained = {first + "_scale": numpy.ones(shape or (1,), numpy.float32)}    # one number without axes is a constant
            forms.append(OnnxForm(Subject(None, {X: torch.from_numpy(rows)}, {}, BATCH, STEPS, LR), {"data": 1, "cut": 2, "one sample a piece": 8},
                                  with_loss(model, trained, ["B", *shape], constants, weights, first), trained))
        return forms


def main():
    parser = arguments(__doc__)
    parser.set_defaults(containers="onnx")
    parser.add_argument("--one-each", action="store_true", help="the tests of ONE_EACH alone")
    args, tests = parser.parse_args(), Tests()
    if args.one_each:
        tests.names = [f"test_{name}" for name in ONE_EACH]
        missing = set(tests.names) - set(tests.tests)
        if missing:
            sys.exit(f"ONNX has no test {', '.join(sorted(missing))}")
    sys.exit(report(args, run(args, tests.names, tests.forms_of), lambda name: name.removeprefix("test_").removesuffix("_expanded")))


if __name__ == "__main__":
    main()
