// GraphBuilder: appends ops with inferred types, keeps the first misfit.
#include <algorithm>
#include <cstring>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/op_traits.h"
#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"
#include "schemas/plan/convert_elements.h"

namespace piper::ir {
namespace {

template <class T>
void put(std::vector<std::byte>& bytes, T value) {
  size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

uint16_t half_bits(double value, DType dtype) {
  const auto wide = static_cast<float>(value);
  uint16_t bits = 0;
  convert_elements(DType::kF32, &wide, dtype, &bits, 1);
  return bits;
}

std::vector<std::byte> scalar_bytes(double value, DType dtype) {
  std::vector<std::byte> bytes;
  switch (dtype) {
    case DType::kF32: put(bytes, static_cast<float>(value)); break;
    case DType::kF64: put(bytes, value); break;
    case DType::kBF16:
    case DType::kF16: put(bytes, half_bits(value, dtype)); break;
    case DType::kI64: put(bytes, static_cast<int64_t>(value)); break;
    case DType::kI32: put(bytes, static_cast<int32_t>(value)); break;
    case DType::kBool: put(bytes, static_cast<uint8_t>(value != 0)); break;
  }
  return bytes;
}

WeightSource in_memory(std::vector<std::byte> bytes) {
  WeightSource source;
  source.bytes = static_cast<int64_t>(bytes.size());
  source.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return source;
}

// How many results callers of an operator index.
size_t most_results(OpKind kind) {
  for (OpKind none : {OpKind::kAccumulateGrad})
    if (kind == none) return 0;
  for (OpKind two : {OpKind::kMaxDim, OpKind::kTopk, OpKind::kLayerNormBackwardWeight, OpKind::kRmsNorm,
                     OpKind::kGroupNormBackwardWeight, OpKind::kBatchNormBackwardWeight, OpKind::kMaxPool2d,
                     OpKind::kSdpa, OpKind::kAttentionSink, OpKind::kCrossEntropySum})
    if (kind == two) return 2;
  for (OpKind three : {OpKind::kLayerNorm, OpKind::kGroupNorm, OpKind::kBatchNorm, OpKind::kSdpaBackward,
                       OpKind::kLinearCrossEntropy, OpKind::kLinearCrossEntropyBackwardWeight})
    if (kind == three) return 3;
  return 1;
}

// A shape that type inference refuses, so that a wrong axis is kept in status() with the type.
const std::vector<int64_t> kNoShape = {-1};

}  // namespace

std::vector<ValueId> GraphBuilder::add(OpKind kind, std::vector<ValueId> operands, Attrs attrs, std::string name) {
  std::vector<const TensorType*> types;
  for (ValueId operand : operands) types.push_back(operand.valid() ? &graph_.type(operand) : nullptr);
  Result<std::vector<TensorType>> results = infer_types(kind, attrs, types);
  if (!results.ok() && status_.ok()) {
    Error error = results.error();
    error.message += "; " + graph_.provenance().describe(prov_);
    status_ = Status(std::move(error));
  }
  std::vector<TensorType> result_types =
      results.ok() ? std::move(results).value() : std::vector<TensorType>(most_results(kind));
  OpId id = graph_.append(kind, std::move(attrs), std::move(operands), std::move(result_types), scope_, prov_,
                          std::move(name));
  Op& op = graph_.op(id);
  op.phase = phase_;
  op.chunk = chunk_;
  return op.results;
}

ValueId GraphBuilder::add1(OpKind kind, std::vector<ValueId> operands, Attrs attrs, std::string name) {
  std::vector<ValueId> results = add(kind, std::move(operands), std::move(attrs), std::move(name));
  PIPER_CHECK(!results.empty(), op_name(kind), " has no result");
  return results[0];
}

ValueId GraphBuilder::scalar(double value, DType dtype) {
  return graph_.add_constant("scalar", {dtype, {}}, in_memory(scalar_bytes(value, dtype)));
}

ValueId GraphBuilder::constant_i64(std::vector<int64_t> shape, const std::vector<int64_t>& data) {
  TensorType type{DType::kI64, std::move(shape)};
  PIPER_CHECK(type.elements() == static_cast<int64_t>(data.size()), to_string(type), " from ", data.size(), " numbers");
  std::vector<std::byte> bytes(data.size() * sizeof(int64_t));
  if (!data.empty()) std::memcpy(bytes.data(), data.data(), bytes.size());
  return graph_.add_constant("constant", std::move(type), in_memory(std::move(bytes)));
}

ValueId GraphBuilder::range(int64_t count, WeightSource::Range range) {
  WeightSource source;
  source.bytes = count * static_cast<int64_t>(sizeof(int64_t));
  source.range = range;
  return graph_.add_constant("constant", {DType::kI64, {count}}, std::move(source));
}

ValueId GraphBuilder::reshape(ValueId x, std::vector<int64_t> shape) {
  if (leaves_out(type(x).shape == shape)) return x;
  return add1(OpKind::kReshape, {x}, ReshapeAttrs{std::move(shape)});
}

ValueId GraphBuilder::permute(ValueId x, std::vector<int64_t> dims) {
  bool same = dims.size() == type(x).shape.size();
  for (size_t i = 0; i < dims.size() && same; ++i) same = dims[i] == static_cast<int64_t>(i);
  return same ? x : add1(OpKind::kPermute, {x}, PermuteAttrs{std::move(dims)});
}

ValueId GraphBuilder::transpose(ValueId x, int64_t a, int64_t b) {
  size_t rank = type(x).shape.size();
  std::vector<int64_t> dims(rank);
  for (size_t i = 0; i < rank; ++i) dims[i] = static_cast<int64_t>(i);
  a = axis_from_front(a, rank);
  b = axis_from_front(b, rank);
  if (a >= 0 && b >= 0 && a < static_cast<int64_t>(rank) && b < static_cast<int64_t>(rank))
    std::swap(dims[static_cast<size_t>(a)], dims[static_cast<size_t>(b)]);
  else dims.push_back(std::max(a, b));  // refused by type inference, with the operand's type
  return permute(x, std::move(dims));
}

ValueId GraphBuilder::expand(ValueId x, std::vector<int64_t> shape) {
  if (leaves_out(type(x).shape == shape)) return x;
  return add1(OpKind::kExpand, {x}, ExpandAttrs{std::move(shape)});
}

ValueId GraphBuilder::slice(ValueId x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  const std::vector<int64_t>& shape = type(x).shape;
  dim = axis_from_front(dim, shape.size());
  if (leaves_out(dim >= 0 && dim < static_cast<int64_t>(shape.size()) && start == 0 && step == 1 &&
                 end == shape[static_cast<size_t>(dim)]))
    return x;
  return add1(OpKind::kSlice, {x}, SliceAttrs{dim, start, end, step});
}

ValueId GraphBuilder::unsqueeze(ValueId x, int64_t dim) {
  std::vector<int64_t> shape = type(x).shape;
  dim = axis_from_front(dim, shape.size() + 1);
  if (dim < 0 || dim > static_cast<int64_t>(shape.size())) return reshape(x, kNoShape);
  shape.insert(shape.begin() + dim, 1);
  return reshape(x, std::move(shape));
}

ValueId GraphBuilder::squeeze(ValueId x, int64_t dim) {
  std::vector<int64_t> shape = type(x).shape;
  dim = axis_from_front(dim, shape.size());
  if (dim < 0 || dim >= static_cast<int64_t>(shape.size())) return reshape(x, kNoShape);
  shape.erase(shape.begin() + dim);  // an extent other than 1 is refused by type inference
  return reshape(x, std::move(shape));
}

ValueId GraphBuilder::cast(ValueId x, DType to) {
  if (type(x).dtype == to) return x;
  return add1(OpKind::kCast, {x}, CastAttrs{to});
}

ValueId GraphBuilder::sum(ValueId x, std::vector<int64_t> dims, bool keepdim) {
  if (dims.empty()) return x;
  size_t rank = type(x).shape.size();
  for (int64_t& dim : dims) dim = axis_from_front(dim, rank);
  std::sort(dims.begin(), dims.end());
  return add1(OpKind::kSum, {x}, ReduceAttrs{std::move(dims), keepdim});
}

ValueId GraphBuilder::sum_to_shape(ValueId x, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> from = type(x).shape;
  if (from.size() < shape.size()) return reshape(x, shape);  // refused unless only extents of 1 differ
  size_t lead = from.size() - shape.size();
  std::vector<int64_t> dims;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < lead || (shape[i - lead] == 1 && from[i] != 1)) dims.push_back(static_cast<int64_t>(i));
  return reshape(sum(x, summed(dims, from), true), shape);
}

ValueId GraphBuilder::made_by_program(ValueId x) {
  ValueId viewed = x;
  const auto maker = [&] {
    const Value& value = graph_.value(viewed);
    return value.kind == ValueKind::kOpResult ? &graph_.op(value.producer) : nullptr;
  };
  while (maker() != nullptr && may_be_view(maker()->kind)) viewed = maker()->operands[0];
  const bool made = maker() != nullptr && !is_conversion(maker()->kind);
  return made ? reshape(x, {}) : sum(reshape(x, {1}), {0}, false);
}

bool GraphBuilder::leaves_out(bool may) {
  if (choices_ == nullptr) return may;
  if (!choices_->follows) choices_->left_out.push_back(may);
  else if (choices_->next < choices_->left_out.size()) return choices_->left_out[choices_->next++] && may;
  return may;
}

// The axes that must be summed, and those of extent 1 that are where choices are followed.
std::vector<int64_t> GraphBuilder::summed(const std::vector<int64_t>& dims, const std::vector<int64_t>& shape) {
  if (choices_ == nullptr) return dims;
  std::vector<int64_t> out;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    const bool must = std::find(dims.begin(), dims.end(), dim) != dims.end();
    if (!leaves_out(!must) && (must || shape[i] == 1)) out.push_back(dim);
  }
  return out;
}

}  // namespace piper::ir
