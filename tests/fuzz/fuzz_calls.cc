// Fuzzes what each operator's importer makes of its arguments: the bytes choose operators of the two tables (ATen's
// calls and ONNX's operators) and operands of any rank, extent and type, so that no byte is spent on a file's syntax.
// However little the arguments fit, a program ends with a graph or a diagnostic.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fuzzer/FuzzedDataProvider.h>

#include "compiler/frontend/aten/import_calls.h"
#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/fold.h"
#include "compiler/frontend/onnx/import_nodes.h"
#include "compiler/frontend/onnx/ops.h"
#include "tests/unit/onnx_binder.h"
#include "tests/unit/onnx_writer.h"

namespace {

using namespace piper;
using frontend::aten::Item;
using Bytes = FuzzedDataProvider;

constexpr int64_t kBatch = 2;

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> out;
  for (size_t at = 0, end; at < list.size(); at = end + 2) {
    end = std::min(list.find(", ", at), list.size());
    out.emplace_back(list.substr(at, end - at));
  }
  return out;
}

const std::vector<std::string>& aten_targets() {
  static const std::vector<std::string> targets = [] {
    std::vector<std::string> out;
    const auto add = [&](std::string_view schema) { out.emplace_back(schema.substr(0, schema.find('('))); };
#define PIPER_ATEN(handler, kind, schema) add(schema);
#include "compiler/frontend/aten/call_table.def"
#undef PIPER_ATEN
    return out;
  }();
  return targets;
}

template <class T>
const T& choose(Bytes& bytes, const std::vector<T>& from) {
  return from[bytes.ConsumeIntegralInRange<size_t>(0, from.size() - 1)];
}

// Mostly numbers that axes, extents and counts are made of; constants of millions of elements would take seconds.
int64_t small_int(Bytes& bytes) {
  switch (bytes.ConsumeIntegralInRange<int>(0, 15)) {
    case 0: return bytes.ConsumeIntegral<int64_t>();
    case 1: return bytes.PickValueInArray<int64_t>({-100, 1 << 9, INT64_MAX, INT64_MIN, INT32_MAX, -1 - INT32_MAX});
    default: return bytes.ConsumeIntegralInRange<int64_t>(-3, 6);
  }
}
double small_float(Bytes& bytes) {
  return bytes.PickValueInArray<double>({0, 1, -1, 0.5, 0.1, 2, 3.7, -0.5, 1e-5, 1e30, -1e30, HUGE_VAL, -HUGE_VAL});
}
std::vector<int64_t> small_ints(Bytes& bytes) {
  std::vector<int64_t> out(bytes.ConsumeIntegralInRange<size_t>(0, 5));
  for (int64_t& v : out) v = small_int(bytes);
  return out;
}
std::vector<int64_t> some_shape(Bytes& bytes) {
  std::vector<int64_t> out(bytes.ConsumeIntegralInRange<size_t>(0, 5));
  for (int64_t& v : out) v = bytes.PickValueInArray<int64_t>({kBatch, 1, 3, 4, 6, 0});
  return out;
}
std::string some_word(Bytes& bytes) {
  return bytes.PickValueInArray<std::string>(
      {"mean",       "sum",        "none",     "constant",   "reflect",    "edge",  "wrap",      "linear",
       "cubic",      "nearest",    "bilinear", "bicubic",    "tanh",       "floor", "trunc",     "amax",
       "prod",       "add",        "mul",      "min",        "max",        "zeros", "border",    "bidirectional",
       "SAME_UPPER", "SAME_LOWER", "VALID",    "asymmetric", "half_pixel", "ortho", "ij,jk->ik", "...i,ij->...j",
       "bij,bjk",    "ii->i",      "DCR",      "CRD",        "right",      ""});
}

// ---- ATen's calls

// As a call gives it; sometimes of another type than the schema asks for.
Item some_item(Bytes& bytes, std::string type, const std::vector<Item>& tensors, int depth) {
  if (bytes.ConsumeIntegralInRange<int>(0, 31) == 0)
    type = bytes.PickValueInArray<std::string>({"Tensor", "int", "int[]", "float", "bool", "str", "None", "Tensor[]"});
  if (type.ends_with("?")) {
    if (bytes.ConsumeBool()) return Item::none();
    type.pop_back();
  }
  if (type.ends_with("]") && depth < 2) {
    std::vector<Item> items(bytes.ConsumeIntegralInRange<size_t>(0, 4));
    for (Item& x : items) x = some_item(bytes, type.substr(0, type.find('[')), tensors, depth + 1);
    return Item::of_list(std::move(items));
  }
  if (type.starts_with("Tensor") || (type == "Operand" && bytes.ConsumeBool())) return choose(bytes, tensors);
  if (type == "bool") return Item::of_bool(bytes.ConsumeBool());
  if (type == "int") return Item::of_int(small_int(bytes));
  if (type == "float") return Item::of_float(small_float(bytes));
  if (type == "str") return Item::of_text(some_word(bytes));
  if (type == "dtype")
    return Item::of_text(bytes.PickValueInArray<std::string>(
        {"torch.float32", "torch.int64", "torch.bool", "torch.float64", "torch.bfloat16", "torch.int32", "float"}));
  if (type == "None") return Item::none();
  return bytes.ConsumeBool() ? Item::of_int(small_int(bytes)) : Item::of_float(small_float(bytes));
}

void import_aten(Bytes& bytes) {
  frontend::BoundModel model;
  frontend::aten::Program program;
  std::vector<Item> tensors;
  const size_t inputs = bytes.ConsumeIntegralInRange<size_t>(1, 4);
  for (size_t i = 0; i < inputs; ++i) {
    const std::string name = "x" + std::to_string(i);
    const DType dtype = bytes.PickValueInArray(
        {DType::kF32, DType::kF32, DType::kI64, DType::kBool, DType::kBF16, DType::kF64, DType::kI32});
    model.values[name] = model.graph.add_input(name, {dtype, some_shape(bytes)}, true);
    tensors.push_back(Item::of_ref(name));
  }
  const size_t calls = bytes.ConsumeIntegralInRange<size_t>(1, 4);
  for (size_t i = 0; i < calls; ++i) {
    frontend::aten::ProgramCall call;
    call.call.name = "y" + std::to_string(i);
    call.call.target = choose(bytes, aten_targets());
    const frontend::aten::TableRow* row = frontend::aten::find_row(call.call.target);
    PIPER_CHECK(row != nullptr, "no row for ", call.call.target);
    for (const frontend::aten::Parameter& p : row->schema.parameters) {
      if (p.has_default && bytes.ConsumeBool()) continue;
      call.call.kwargs.emplace_back(p.name, some_item(bytes, p.type, tensors, 0));
    }
    call.results.emplace_back(call.call.name + "_0", 0);
    program.calls.push_back(std::move(call));
    tensors.push_back(Item::of_ref("y" + std::to_string(i)));
    tensors.push_back(Item::of_ref("y" + std::to_string(i) + "_0"));
  }
  PIPER_CHECK(frontend::aten::index_calls(program).ok(), "two calls of one name");
  for (const frontend::aten::ProgramCall& call : program.calls) program.outputs.push_back(call.call.name);
  diag::Diagnostics diags;
  const Status status = frontend::aten::import_calls(model, program, diags);
  PIPER_CHECK(status.ok() || diags.failed(), "a failure without a diagnostic");
  (void)diags.render_text(false);
  if (status.ok()) (void)frontend::fold(model.graph);
}

// ---- ONNX's operators

const std::vector<std::string>& onnx_attributes() {
  static const std::vector<std::string> names = names_in(
      "activation, align_corners, allowzero, alpha, antialias, approximate, auto_pad, axes, axis, batch_axis, "
      "batch_dims, "
      "beta, bias, blocksize, ceil_mode, clip, coordinate_transformation_mode, count_include_pad, cubic_coeff_a, "
      "detect_negative, detect_positive, dilations, direction, dtype, end, epsilon, equation, exclude_outside, "
      "exclusive, "
      "extrapolation_value, fmod, gamma, group, hidden_size, ignore_index, input_forget, interleaved, inverse, "
      "is_causal, "
      "k, keep_aspect_ratio_policy, keepdims, kernel_shape, kv_num_heads, lambd, largest, layout, left_window_size, "
      "linear_before_reset, mode, momentum, nearest_mode, new_axis, noop_with_empty_axes, num_groups, num_heads, "
      "num_outputs, onesided, output_padding, output_shape, p, padding_mode, pads, perm, q_num_heads, "
      "qk_matmul_output_mode, reduction, reverse, right_window_size, rotary_embedding_dim, scale, scales, "
      "select_last_index, size, softcap, start, storage_order, strides, time_axis, to, training_mode, transA, transB, "
      "update_rule, upper, value_int, value_ints, value_float");
  return names;
}

test::Attribute some_attribute(Bytes& bytes) {
  const std::string& name = choose(bytes, onnx_attributes());
  switch (bytes.ConsumeIntegralInRange<int>(0, 5)) {
    case 0: return test::float_attribute(name, static_cast<float>(small_float(bytes)));
    case 1: return test::string_attribute(name, some_word(bytes));
    case 2:
    case 3: return test::ints_attribute(name, small_ints(bytes));
    default: return test::int_attribute(name, small_int(bytes));
  }
}

void import_onnx(Bytes& bytes) {
  using frontend::onnx::ElemCode;
  static const std::vector<std::string> operators = names_in(frontend::onnx::supported_operators());
  test::ModelWriter file(bytes.ConsumeIntegralInRange<int64_t>(13, 28));
  std::vector<std::string> names = {""};
  const size_t operands = bytes.ConsumeIntegralInRange<size_t>(1, 6);
  for (size_t i = 0; i < operands; ++i) {
    const std::string name = "x" + std::to_string(i);
    switch (bytes.ConsumeIntegralInRange<int>(0, 5)) {
      case 0: file.ints(name, small_ints(bytes)); break;
      case 1: file.number(name, static_cast<float>(small_float(bytes))); break;
      case 2: file.weight(name, some_shape(bytes)); break;
      default: {
        std::vector<std::string> dims;
        for (const int64_t d : some_shape(bytes)) dims.push_back(d == kBatch ? "B" : std::to_string(d));
        file.input(name,
                   bytes.PickValueInArray({ElemCode::kFloat, ElemCode::kFloat, ElemCode::kInt64, ElemCode::kBool}),
                   dims);
      }
    }
    names.push_back(name);
  }
  const size_t nodes = bytes.ConsumeIntegralInRange<size_t>(1, 4);
  for (size_t i = 0; i < nodes; ++i) {
    std::vector<std::string> inputs(bytes.ConsumeIntegralInRange<size_t>(0, 7));
    for (std::string& name : inputs) name = choose(bytes, names);
    std::vector<std::string> outputs(bytes.ConsumeIntegralInRange<size_t>(1, 3));
    for (size_t o = 0; o < outputs.size(); ++o) outputs[o] = "y" + std::to_string(i) + "_" + std::to_string(o);
    std::vector<test::Attribute> attributes;
    for (int a = bytes.ConsumeIntegralInRange<int>(0, 4); a > 0; --a) attributes.push_back(some_attribute(bytes));
    file.node(choose(bytes, operators), inputs, outputs, attributes);
    names.push_back(outputs[0]);
  }
  file.output(names.back());
  const Result<frontend::onnx::OnnxFile> read = frontend::onnx::read_onnx_bytes(file.bytes());
  if (!read.ok()) return;
  std::optional<frontend::BoundModel> model = test::bind_plainly(*read, kBatch);
  if (!model) return;
  diag::Diagnostics diags;
  constexpr frontend::onnx::FoldLimits kLimits{int64_t{1} << 20, int64_t{1} << 24};
  const Status status = frontend::onnx::import_nodes(*model, diags, kLimits);
  PIPER_CHECK(status.ok() || diags.failed(), "a failure without a diagnostic");
  (void)diags.render_text(false);
  if (status.ok()) (void)frontend::fold(model->graph);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  if (bytes.ConsumeBool()) import_aten(bytes);
  else import_onnx(bytes);
  return 0;
}
