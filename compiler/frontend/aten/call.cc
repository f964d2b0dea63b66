#include "compiler/frontend/aten/call.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/frontend/exact_integers.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend::aten {
namespace {

// Ranges beyond this are not made: looking ahead must not blow up memory.
constexpr int64_t kMaxRange = int64_t{1} << 33;
// Beyond any extent, and any two can be added. What is larger counts nothing, and no index or axis is as large.
constexpr int64_t kMostInteger = int64_t{1} << 61;

int category(DType t) {
  if (t == DType::kBool) return 0;
  return is_floating(t) ? 2 : 1;
}

DType wider(DType a, DType b) {
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  return dtype_bytes(a) >= dtype_bytes(b) ? a : b;
}

// Whether a type of 16 bits has the number.
bool holds(DType half, float number) {
  const uint32_t bits = std::bit_cast<uint32_t>(number);
  if (half == DType::kBF16) return (bits & 0xffff) == 0;
  const float size = std::abs(number);
  return number == 0 || std::isinf(number) || (size >= 0x1p-14f && size <= 65504.0f && (bits & 0x1fff) == 0);
}

}  // namespace

DType promoted(const ir::Graph& graph, const std::vector<const Item*>& operands) {
  // One result per priority: with axes, without axes, Python numbers.
  std::optional<DType> results[3];
  for (const Item* x : operands) {
    DType t = DType::kI64;
    int priority = 2;
    if (x->is_tensor()) {
      const ir::TensorType& type = graph.type(x->tensor);
      t = type.dtype;
      priority = type.shape.empty() ? 1 : 0;
    } else if (x->kind == Item::Kind::kBool) {
      t = DType::kBool;
    } else if (x->kind == Item::Kind::kFloat) {
      t = DType::kF32;
    }
    results[priority] = results[priority] ? wider(*results[priority], t) : t;
  }
  std::optional<DType> out;
  for (const std::optional<DType>& r : results) {
    if (!r) continue;
    if (!out || category(*r) > category(*out)) out = r;
  }
  return out.value_or(DType::kF32);
}

std::optional<DType> dtype_of_torch(std::string_view name) {
  if (name.rfind("torch.", 0) == 0) name.remove_prefix(6);
  if (name == "float32" || name == "float") return DType::kF32;
  if (name == "float64" || name == "double") return DType::kF64;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "int64" || name == "long") return DType::kI64;
  if (name == "int32" || name == "int") return DType::kI32;
  if (name == "bool") return DType::kBool;
  return std::nullopt;
}

Call::Call(ImportState& state, const Schema& schema, OpKind kind, std::vector<Item> bound, std::string name,
           std::string module, ir::ScopeId scope, ir::ProvId prov)
    : state_(state),
      schema_(schema),
      kind_(kind),
      bound_(std::move(bound)),
      name_(std::move(name)),
      module_(std::move(module)),
      builder_(*state.graph, scope, prov),
      scope_(scope) {}

// ---- arguments

const Item& Call::arg(std::string_view name) const {
  for (size_t i = 0; i < schema_.parameters.size(); ++i)
    if (schema_.parameters[i].name == name) return bound_[i];
  PIPER_CHECK(false, "the schema of ", schema_.target, " has no parameter ", std::string(name));
  return bound_.front();
}

ValueId Call::tensor(std::string_view name) {
  const Item& x = arg(name);
  if (x.is_tensor()) return x.tensor;
  if (x.is_number()) return as(x, promoted(graph(), {&x}));
  fail("argument '" + std::string(name) + "' must be a tensor");
  return scalar(0, DType::kF32);
}

ValueId Call::tensor_or_none(std::string_view name) { return arg(name).is_none() ? ValueId() : tensor(name); }

std::vector<ValueId> Call::tensors(std::string_view name) {
  std::vector<ValueId> out;
  for (const Item& x : arg(name).list) {
    if (x.is_tensor()) out.push_back(x.tensor);
    else fail("argument '" + std::string(name) + "' must be a list of tensors");
  }
  if (out.empty()) {
    fail("argument '" + std::string(name) + "' must be a list of tensors");
    out.push_back(scalar(0, DType::kF32));
  }
  return out;
}

int64_t Call::integer(std::string_view name) {
  const Item& x = arg(name);
  std::vector<int64_t> known;
  if (x.kind == Item::Kind::kInt) known = {x.integer};
  else if (x.kind == Item::Kind::kBool) known = {x.flag ? 1 : 0};
  else if (!x.is_tensor() || !known_ints(x.tensor, known)) known.clear();
  if (known.size() != 1) {
    fail("argument '" + std::string(name) + "' must be an integer that is known when the model is bound");
    return 0;
  }
  if (known[0] == std::numeric_limits<int64_t>::max()) return kMostInteger;  // "to the end"
  if (known[0] <= kMostInteger && known[0] >= -kMostInteger) return known[0];
  fail("argument '" + std::string(name) + "' is " + std::to_string(known[0]) + ", out of all proportion");
  return 0;
}

double Call::real(std::string_view name) {
  const Item& x = arg(name);
  if (x.is_number()) return value(x);
  if (x.is_tensor()) {
    const std::optional<ConstantTensor> c = known(x.tensor);
    if (c && c->type.dtype == DType::kF32 && c->data()->size() == sizeof(float)) {
      float v = 0;
      std::memcpy(&v, c->data()->data(), sizeof v);
      return v;
    }
    if (std::vector<int64_t> known; known_ints(x.tensor, known) && known.size() == 1)
      return static_cast<double>(known[0]);
  }
  fail("argument '" + std::string(name) + "' must be a number that is known when the model is bound");
  return 0;
}

bool Call::flag(std::string_view name) {
  const Item& x = arg(name);
  if (x.kind == Item::Kind::kBool) return x.flag;
  if (x.kind == Item::Kind::kInt) return x.integer != 0;
  if (x.is_none()) return false;
  fail("argument '" + std::string(name) + "' must be True or False");
  return false;
}

std::string Call::text(std::string_view name) {
  const Item& x = arg(name);
  if (x.kind == Item::Kind::kText) return x.text;
  if (!x.is_none()) fail("argument '" + std::string(name) + "' must be a word");
  return "";
}

std::vector<int64_t> Call::ints(std::string_view name, size_t count) {
  const Item& x = arg(name);
  std::vector<int64_t> out;
  if (x.kind == Item::Kind::kInt) out.push_back(x.integer);
  for (const Item& y : x.list) {
    std::vector<int64_t> known;
    if (y.kind == Item::Kind::kInt) out.push_back(y.integer);
    else if (y.is_tensor() && known_ints(y.tensor, known) && known.size() == 1) out.push_back(known[0]);
    else fail("argument '" + std::string(name) + "' must be integers that are known when the model is bound");
  }
  for (int64_t& v : out)
    if (v > ir::kMostExtent || v < -ir::kMostExtent) {
      fail("argument '" + std::string(name) + "' holds " + std::to_string(v) + ", which no tensor can have");
      v = 1;
    }
  if (count > 0 && out.size() == 1) out.resize(count, out[0]);
  if (count > 0 && out.size() != count) {
    fail("argument '" + std::string(name) + "' must have " + std::to_string(count) + " entries");
    out.resize(count, 1);
  }
  return out;
}

DType Call::dtype_or(std::string_view name, DType fallback) {
  const Item& x = arg(name);
  if (x.is_none()) return fallback;
  const std::optional<DType> t = dtype_of_torch(x.text);
  if (!t)
    refuse("P0307", "the element type " + (x.text.empty() ? std::string("of '" + std::string(name) + "'") : x.text) +
                        " is not supported; piper has float32, float64, bfloat16, int64, int32 and bool");
  return t.value_or(fallback);
}

int64_t Call::dim(std::string_view name, size_t rank) {
  const int64_t d = integer(name);
  const std::optional<int64_t> axis = ir::known_axis(d, std::max<size_t>(rank, 1));
  if (!axis) fail("axis " + std::to_string(d) + " does not exist in a tensor of " + std::to_string(rank) + " axes");
  return axis.value_or(0);
}

std::vector<int64_t> Call::dims(std::string_view name, size_t rank) {
  std::vector<int64_t> out;
  if (!arg(name).is_none() && !(arg(name).is_list() && arg(name).list.empty())) return listed_dims(name, rank);
  for (size_t d = 0; d < rank; ++d) out.push_back(static_cast<int64_t>(d));
  return out;
}

std::vector<int64_t> Call::listed_dims(std::string_view name, size_t rank) {
  std::vector<int64_t> out;
  for (int64_t d : ints(name)) {
    const std::optional<int64_t> axis = ir::known_axis(d, std::max<size_t>(rank, 1));
    if (!axis) fail("axis " + std::to_string(d) + " does not exist in a tensor of " + std::to_string(rank) + " axes");
    else if (rank > 0) out.push_back(*axis);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Item Call::made_by(Item (*function)(Call&)) {
  try {
    return function(*this);
  } catch (const Misfit& misfit) {
    return fail(misfit.what());
  }
}

bool Call::may_make(int64_t count, int64_t bytes_of_each) {
  constexpr int64_t kMostBytes = int64_t{1} << 30, kMostOfModel = int64_t{1} << 33;
  if (count > kMostBytes / bytes_of_each || count * bytes_of_each > kMostOfModel - state_.made_bytes) {
    fail("it makes " + std::to_string(count) + " numbers or operators out of its arguments alone, which is too many");
    return false;
  }
  state_.made_bytes += std::max<int64_t>(count, 0) * bytes_of_each;
  return true;
}

// ---- failures

Item Call::fail(const std::string& message) { return refuse("P0306", message); }

Item Call::refuse(std::string code, const std::string& message) {
  if (status_.ok()) status_ = Status::failure(std::move(code), message);
  return Item::of_tensor(scalar(0, DType::kF32));
}

Status Call::status() const {
  if (!status_.ok()) return Status(status_.error());
  if (!builder_.status().ok()) return Status(builder_.status().error());
  return Status();
}

int64_t Call::extent(ValueId v, int64_t dim) const {
  const std::vector<int64_t>& s = graph().type(v).shape;
  return dim >= 0 && dim < static_cast<int64_t>(s.size()) ? s[static_cast<size_t>(dim)] : 1;
}

int64_t Call::product(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out) && out <= ir::kMostElements && out >= -ir::kMostElements) return out;
  fail("a tensor of " + std::to_string(a) + " x " + std::to_string(b) + " elements");
  return 1;
}

// ---- ops

std::vector<ValueId> Call::ops(OpKind kind, std::vector<ValueId> operands, Attrs attrs) {
  std::vector<ConstantTensor> operand_values;
  for (ValueId v : operands) {
    if (!v.valid()) break;
    std::optional<ConstantTensor> c = known(v);
    if (!c) break;
    operand_values.push_back(std::move(*c));
  }
  const bool all_known = operand_values.size() == operands.size();
  std::vector<ValueId> results = builder_.add(kind, std::move(operands), attrs, next_name());
  if (!all_known || !builder_.status().ok()) return results;
  if (std::optional<std::vector<ConstantTensor>> values = evaluate(kind, attrs, operand_values))
    for (size_t i = 0; i < results.size(); ++i) state_.known[results[i].index] = std::move((*values)[i]);
  return results;
}

std::optional<ConstantTensor> Call::known(ValueId x) const {
  const auto found = state_.known.find(x.index);
  return found != state_.known.end() ? found->second : constant_of(graph(), x);
}

ValueId Call::op(OpKind kind, std::vector<ValueId> operands, Attrs attrs) {
  const std::vector<ValueId> out = ops(kind, std::move(operands), std::move(attrs));
  return out.empty() ? scalar(0, DType::kF32) : out[0];
}

ValueId Call::reshape(ValueId x, std::vector<int64_t> shape) {
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0) open = static_cast<int64_t>(i);
    else known = product(known, shape[i]);
  }
  const int64_t elements = type(x).elements();
  if (open >= 0) {
    if (known == 0 || elements % known != 0) {
      fail("cannot view " + ir::to_string(type(x)) + " in the shape asked for");
      return x;
    }
    shape[static_cast<size_t>(open)] = elements / known;
  } else if (known != elements) {
    fail("cannot view " + ir::to_string(type(x)) + " in the shape asked for (" + std::to_string(known) + " elements)");
    return x;
  }
  if (shape == this->shape(x)) return x;
  return op(OpKind::kReshape, {x}, ir::ReshapeAttrs{std::move(shape)});
}

ValueId Call::permute(ValueId x, std::vector<int64_t> dims) {
  bool identity = true;
  for (size_t i = 0; i < dims.size(); ++i) identity = identity && dims[i] == static_cast<int64_t>(i);
  if (identity) return x;
  return op(OpKind::kPermute, {x}, ir::PermuteAttrs{std::move(dims)});
}

ValueId Call::transpose(ValueId x, int64_t a, int64_t b) {
  const int64_t r = rank(x);
  a = ir::axis_from_front(a, static_cast<size_t>(r));
  b = ir::axis_from_front(b, static_cast<size_t>(r));
  if (a < 0 || b < 0 || a >= r || b >= r || a == b) return x;
  std::vector<int64_t> dims(static_cast<size_t>(r));
  for (int64_t i = 0; i < r; ++i) dims[static_cast<size_t>(i)] = i == a ? b : i == b ? a : i;
  return permute(x, std::move(dims));
}

ValueId Call::expand(ValueId x, std::vector<int64_t> shape) {
  if (shape == this->shape(x)) return x;
  return op(OpKind::kExpand, {x}, ir::ExpandAttrs{std::move(shape)});
}

ValueId Call::slice(ValueId x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  const int64_t n = extent(x, dim);
  start = ir::slice_bound(start, n);
  end = std::max(start, ir::slice_bound(end, n));
  if (step < 1) {
    fail("a slice's step must be positive");
    step = 1;
  }
  if (start == 0 && end == n && step == 1) return x;
  ir::SliceAttrs attrs;
  attrs.dim = dim;
  attrs.start = start;
  attrs.end = end;
  attrs.step = step;
  return op(OpKind::kSlice, {x}, attrs);
}

ValueId Call::unsqueeze(ValueId x, int64_t dim) {
  Extents s = shape(x);
  const std::optional<int64_t> axis = ir::known_axis(dim, s.size() + 1);
  if (!axis) {
    fail("axis out of range");
    return x;
  }
  s.insert(s.begin() + *axis, 1);
  return reshape(x, std::move(s));
}

ValueId Call::squeeze(ValueId x, int64_t dim) {
  Extents s = shape(x);
  const std::optional<int64_t> axis = ir::known_axis(dim, s.size());
  if (!axis || s[static_cast<size_t>(*axis)] != 1) return x;
  s.erase(s.begin() + *axis);
  return reshape(x, std::move(s));
}

ValueId Call::cast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  return op(OpKind::kCast, {x}, ir::CastAttrs{to});
}

ValueId Call::cat(std::vector<ValueId> parts, int64_t dim) {
  if (parts.size() == 1) return parts[0];
  return op(OpKind::kCat, std::move(parts), ir::DimAttrs{dim});
}

ValueId Call::sum(ValueId x, std::vector<int64_t> dims, bool keepdim) {
  if (dims.empty()) return x;
  return op(OpKind::kSum, {x}, ir::ReduceAttrs{std::move(dims), keepdim});
}

ValueId Call::mean(ValueId x, std::vector<int64_t> dims, bool keepdim) {
  if (dims.empty()) return x;
  return op(OpKind::kMean, {x}, ir::ReduceAttrs{std::move(dims), keepdim});
}

ValueId Call::scalar(double value, DType dtype) {
  if (!is_exact(dtype, value)) {
    fail("the number " + std::to_string(value) + " in a tensor of integers, which it does not fit");
    value = 0;
  }
  return builder_.scalar(value, dtype);
}

ValueId Call::scalar_i64(int64_t value) {
  const auto number = static_cast<double>(value);
  if (is_exact(DType::kI64, number)) return builder_.scalar(number, DType::kI64);
  return builder_.constant_i64({}, {value});
}

ValueId Call::constant(ConstantTensor tensor) {
  ir::WeightSource source;
  source.bytes = static_cast<int64_t>(tensor.data()->size());
  source.data = tensor.data();
  return state_.graph->add_constant(next_name(), std::move(tensor.type), std::move(source));
}
ValueId Call::filled(std::vector<int64_t> shape, double value, DType dtype) {
  return expand(scalar(value, dtype), std::move(shape));
}

ValueId Call::range(int64_t start, int64_t count, int64_t step, DType dtype, bool may_be_of_batch) {
  if (count < 0 || count > kMaxRange) {
    fail("a range of " + std::to_string(count) + " elements");
    count = 0;
  }
  return cast(builder_.range(count, {start, step, may_be_of_batch}), dtype);
}

ValueId Call::as(const Item& item, DType dtype) {
  if (item.is_tensor()) return cast(item.tensor, dtype);
  if (!item.is_number()) fail("an operand must be a tensor or a number");
  if (item.kind == Item::Kind::kInt && dtype == DType::kI64 && !item.varies) return scalar_i64(item.integer);
  return scalar(value(item), dtype);
}

// The root computes with the step's batch in any case: it is where sums over samples are divided to become the loss.
double Call::value(const Item& number) const {
  const bool of_piece = number.varies && !module_.empty() && state_.per_piece && state_.per_piece(module_);
  return of_piece ? number.number() : number.of_step();
}

ValueId Call::binary(OpKind kind, const Item& a, const Item& b) {
  const DType t = promoted(graph(), {&a, &b});
  // Products and quotients of a tensor of 16 bits and a number are computed in f32, the number too, and rounded once;
  // in sums PyTorch rounds the number first.
  const auto is_wider = [&](const Item& item) {
    if (!item.is_tensor()) return item.is_number() && !holds(t, static_cast<float>(value(item)));
    const ir::TensorType& type = graph().type(item.tensor);
    return type.shape.empty() && is_floating(type.dtype) && type.dtype != t;
  };
  if ((kind == OpKind::kMul || kind == OpKind::kDiv) && is_half(t) && (is_wider(a) || is_wider(b))) {
    const ValueId x = as(a, DType::kF32), y = as(b, DType::kF32);
    return cast(op(kind, {x, y}), t);
  }
  const ValueId x = as(a, t), y = as(b, t);
  return op(kind, {x, y});
}

ValueId Call::binary(OpKind kind, ValueId a, double b) {
  if (is_half(dtype(a))) return binary(kind, Item::of_tensor(a), Item::of_float(b));
  return op(kind, {a, scalar(b, dtype(a))});
}

std::vector<int64_t> Call::all_dims(ValueId x) const {
  std::vector<int64_t> out;
  for (int64_t d = 0; d < rank(x); ++d) out.push_back(d);
  return out;
}

bool Call::known_ints(ValueId x, std::vector<int64_t>& out) const {
  out.clear();
  const std::optional<ConstantTensor> c = known(x);
  if (!c || (c->type.dtype != DType::kI64 && c->type.dtype != DType::kI32)) return false;
  const size_t width = static_cast<size_t>(dtype_bytes(c->type.dtype));
  for (size_t at = 0; at + width <= c->data()->size(); at += width) {
    int64_t v = 0;
    if (width == 8) {
      std::memcpy(&v, c->data()->data() + at, 8);
    } else {
      int32_t w = 0;
      std::memcpy(&w, c->data()->data() + at, 4);
      v = w;
    }
    if (v > kMostInteger || v < -kMostInteger) return false;
    out.push_back(v);
  }
  return true;
}

}  // namespace piper::frontend::aten
