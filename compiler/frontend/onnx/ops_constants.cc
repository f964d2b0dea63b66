// Operators that make values from attributes, shapes and numbers.
#include <cmath>
#include <cstring>

#include "compiler/frontend/onnx/ops.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::onnx {
namespace {

template <class T>
ConstantTensor tensor_of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& data) {
  std::vector<std::byte> bytes(data.size() * sizeof(T));
  if (!data.empty()) std::memcpy(bytes.data(), data.data(), bytes.size());
  return {{dtype, std::move(shape)}, std::make_shared<const std::vector<std::byte>>(std::move(bytes))};
}

// The value of a constant, one element, repeated to a shape.
void fill(NodeImport& n, const ConstantTensor& one, std::vector<int64_t> shape) {
  const std::optional<int64_t> count = count_elements(shape);
  if (!count) return n.refuse("its shape is negative or too large");
  const size_t width = static_cast<size_t>(dtype_bytes(one.type.dtype));
  if (!n.may_make(*count * static_cast<int64_t>(width))) return;
  std::vector<std::byte> bytes(static_cast<size_t>(*count) * width);
  for (size_t i = 0; i < static_cast<size_t>(*count); ++i)
    std::memcpy(bytes.data() + i * width, one.data()->data(), width);
  n.set(0, n.constant(
               {{one.type.dtype, std::move(shape)}, std::make_shared<const std::vector<std::byte>>(std::move(bytes))}));
}

}  // namespace

void import_constant(NodeImport& n) {
  using Kind = OnnxAttribute::Kind;
  if (const OnnxAttribute* a = n.attribute("value", Kind::kTensor)) {
    if (!n.may_make(a->tensors[0].bytes)) return;
    Result<ConstantTensor> t = tensor_value(*n.state().file, a->tensors[0]);
    if (!t.ok()) return n.refuse(t.error().message);
    return n.set(0, n.constant(std::move(*t)));
  }
  if (const OnnxAttribute* a = n.attribute("value_float", Kind::kFloat))
    return n.set(0, n.constant(tensor_of<float>(DType::kF32, {}, {a->f})));
  if (const OnnxAttribute* a = n.attribute("value_int", Kind::kInt))
    return n.set(0, n.constant(tensor_of<int64_t>(DType::kI64, {}, {a->i})));
  if (const OnnxAttribute* a = n.attribute("value_floats", Kind::kFloats))
    return n.set(0, n.constant(tensor_of<float>(DType::kF32, {static_cast<int64_t>(a->floats.size())}, a->floats)));
  if (const OnnxAttribute* a = n.attribute("value_ints", Kind::kInts))
    return n.set(0, n.constant(tensor_of<int64_t>(DType::kI64, {static_cast<int64_t>(a->ints.size())}, a->ints)));
  n.refuse("it holds no number, and strings and sparse tensors are not supported");
}

void import_constant_of_shape(NodeImport& n) {
  const std::vector<int64_t> shape = n.ints(n.in(0), "shape");
  ConstantTensor one = tensor_of<float>(DType::kF32, {1}, {0.0f});
  if (const OnnxAttribute* a = n.attribute("value", OnnxAttribute::Kind::kTensor)) {
    Result<ConstantTensor> t = tensor_value(*n.state().file, a->tensors[0]);
    if (!t.ok()) return n.refuse(t.error().message);
    one = std::move(*t);
    if (one.type.elements() != 1) return n.refuse("its value is not one element");
  }
  if (n.ok()) fill(n, one, shape);
}

void import_shape(NodeImport& n) {
  const Extents shape = n.shape(n.in(0));
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t start = ir::slice_bound(n.int_attr("start", 0), rank);
  const int64_t end = std::max(start, ir::slice_bound(n.int_attr("end", rank), rank));
  std::optional<std::vector<int64_t>> of_step = n.step_shape(0);
  if (of_step && static_cast<int64_t>(of_step->size()) == rank)
    *of_step = std::vector<int64_t>(of_step->begin() + start, of_step->begin() + end);
  n.set(0, n.constant_i64({end - start}, {shape.begin() + start, shape.begin() + end}, of_step));
}

void import_size(NodeImport& n) {
  std::optional<std::vector<int64_t>> of_step = n.step_shape(0);
  const std::optional<int64_t> elements = of_step ? count_elements(*of_step) : std::nullopt;
  if (elements) of_step = {*elements};
  n.set(0, n.constant_i64({}, {n.type(n.in(0)).elements()}, elements ? of_step : std::nullopt));
}

void import_range(NodeImport& n) {
  const ValueId operands[] = {n.in(0), n.in(1), n.in(2)};
  const DType dtype = n.dtype(operands[0]);
  if (!is_floating(dtype)) {
    const int64_t start = n.one_int(operands[0], "start"), limit = n.one_int(operands[1], "limit"),
                  delta = n.one_int(operands[2], "delta");
    if (!n.ok()) return;
    int64_t span = 0;
    if (delta == 0 || delta == INT64_MIN || __builtin_sub_overflow(limit, start, &span))
      return n.refuse("its bounds and step do not fit");
    const int64_t step = delta < 0 ? -delta : delta, way = delta < 0 ? -(span / 2) * 2 - span % 2 : span;
    const int64_t count = way <= 0 ? 0 : (way - 1) / step + 1;
    if (count > (int64_t{1} << 40) || !n.may_make(count * 8)) return n.refuse("it is too long");
    std::vector<int64_t> data(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) data[static_cast<size_t>(i)] = start + i * delta;
    const ValueId out = n.constant_i64({count}, data);
    return n.set(0, n.cast(out, dtype));
  }
  double bounds[3];
  for (int i = 0; i < 3; ++i) {
    const std::optional<double> v = n.known_number(operands[i]);
    if (!v) return n.refuse("its bounds are not known when the model is compiled", "P0323");
    bounds[i] = *v;
  }
  const double count = std::max(0.0, std::ceil((bounds[1] - bounds[0]) / bounds[2]));
  if (!(count < 1e12) || !n.may_make(static_cast<int64_t>(count) * 8)) return n.refuse("it is too long");
  std::vector<double> data(static_cast<size_t>(count));
  for (size_t i = 0; i < data.size(); ++i) data[i] = bounds[0] + static_cast<double>(i) * bounds[2];
  const auto extent = static_cast<int64_t>(data.size());
  if (dtype == DType::kF64) return n.set(0, n.constant(tensor_of<double>(DType::kF64, {extent}, data)));
  n.set(0, n.cast(n.constant(tensor_of<float>(DType::kF32, {extent}, std::vector<float>(data.begin(), data.end()))),
                  dtype));
}

void import_trilu(NodeImport& n) {
  const ValueId x = n.in(0);
  const int64_t k = n.has(1) ? n.one_int(n.in(1), "diagonal") : 0;
  n.is_call(n.int_attr("upper", 1) != 0 ? "aten.triu.default" : "aten.tril.default", {x, k});
}

void import_eye_like(NodeImport& n) {
  const ValueId x = n.in(0);
  const Extents shape = n.shape(x);
  const int64_t k = n.int_attr("k", 0);
  std::optional<DType> dtype = n.dtype(x);
  if (n.node().find("dtype") != nullptr) dtype = dtype_of(static_cast<int32_t>(n.int_attr("dtype", 0)));
  if (shape.size() != 2 || !dtype) return n.refuse("it wants a matrix of a supported element type");
  const std::optional<int64_t> count = count_elements(shape);
  if (!count || !n.may_make(*count)) return n.refuse("its matrix is too large");
  std::vector<bool> ones(static_cast<size_t>(*count));
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j) ones[static_cast<size_t>(i * shape[1] + j)] = j - i == k;
  n.set(0, n.cast(n.constant_bool(shape, ones), *dtype));
}

void import_one_hot(NodeImport& n) {
  const ValueId indices = n.cast(n.in(0), DType::kI64), values = n.in(2);
  const int64_t depth = n.one_int(n.in(1), "depth");
  const int64_t axis = n.axis(n.int_attr("axis", -1), n.rank(indices) + 1);
  if (!n.ok()) return;
  if (depth < 1 || depth > (int64_t{1} << 31) || !n.may_make(depth * 8)) return n.refuse("its depth is out of range");
  if (n.shape(values) != std::vector<int64_t>{2}) return n.refuse("its values are not two numbers");
  std::vector<int64_t> classes(static_cast<size_t>(depth)), shape(static_cast<size_t>(n.rank(indices)) + 1, 1);
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int64_t>(i);
  shape[static_cast<size_t>(axis)] = depth;
  const ValueId wide = n.unsqueeze(indices, axis);
  // Indices in [-depth, -1] count from the end.
  const ValueId negative = n.emit(OpKind::kLt, {wide, n.scalar(0, DType::kI64)});
  const ValueId wrapped = n.emit(OpKind::kAdd, {wide, n.scalar(static_cast<double>(depth), DType::kI64)});
  const ValueId positive = n.emit(OpKind::kWhere, {negative, wrapped, wide});
  const ValueId hit = n.emit(OpKind::kEq, {positive, n.constant_i64(shape, classes)});
  const ValueId off = n.reshape(n.slice(values, 0, 0, 1), {}), on = n.reshape(n.slice(values, 0, 1, 2), {});
  n.result(OpKind::kWhere, {hit, on, off});
}

}  // namespace piper::frontend::onnx
