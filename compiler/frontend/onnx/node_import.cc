#include "compiler/frontend/onnx/node_import.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/exact_integers.h"
#include "compiler/ir/shapes.h"
#include "schemas/plan/convert_elements.h"

namespace piper::frontend::onnx {
namespace {

using ir::kMostElements;

template <class T>
T element(const ConstantTensor& t, int64_t i) {
  T v;
  std::memcpy(&v, t.data()->data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return v;
}

std::vector<int64_t> integers(const ConstantTensor& t) {
  std::vector<int64_t> out(static_cast<size_t>(t.type.elements()));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (t.type.dtype == DType::kI64) out[i] = element<int64_t>(t, at);
    if (t.type.dtype == DType::kI32) out[i] = element<int32_t>(t, at);
    if (t.type.dtype == DType::kBool) out[i] = element<uint8_t>(t, at);
  }
  return out;
}

double number_at(const ConstantTensor& t, int64_t i) {
  switch (t.type.dtype) {
    case DType::kF32: return element<float>(t, i);
    case DType::kF64: return element<double>(t, i);
    case DType::kBF16:
    case DType::kF16: {
      const auto bits = element<uint16_t>(t, i);
      float value = 0;
      convert_elements(t.type.dtype, &bits, DType::kF32, &value, 1);
      return value;
    }
    case DType::kI64: return static_cast<double>(element<int64_t>(t, i));
    case DType::kI32: return element<int32_t>(t, i);
    case DType::kBool: return element<uint8_t>(t, i);
  }
  return 0;
}

bool in_range(int64_t v, int64_t most) { return v >= -most && v <= most; }
bool all_in_range(const std::vector<int64_t>& values, int64_t most) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return in_range(v, most); });
}

}  // namespace

std::optional<int64_t> count_elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kMostElements) return std::nullopt;
    // Zero extents keep the others' product bounded too, so that strides can be computed.
    if (__builtin_mul_overflow(n, std::max<int64_t>(extent, 1), &n) || n > kMostElements) return std::nullopt;
  }
  for (const int64_t extent : shape)
    if (extent == 0) return 0;
  return n;
}

NodeImport::NodeImport(ImportState& state, const OnnxNode& node, std::string module, ir::ScopeId scope, ir::ProvId prov)
    : state_(state),
      node_(node),
      module_(std::move(module)),
      scope_(scope),
      prov_(prov),
      builder_(*state.calls.graph, scope, prov),
      first_value_(state.calls.graph->num_values()) {}

// ---- failures

void NodeImport::refuse(const std::string& what, std::string code) {
  if (status_.ok()) status_ = Status::failure(std::move(code), what);
}

Status NodeImport::status() const {
  if (!status_.ok()) return Status(status_.error());
  if (!builder_.status().ok()) return Status(builder_.status().error());
  return Status();
}

ValueId NodeImport::harmless() { return builder_.scalar(0, DType::kF32); }

// ---- operands

ValueId NodeImport::in(size_t i) {
  if (!has(i)) {
    refuse("operand " + std::to_string(i) + " is missing");
    return harmless();
  }
  const auto found = state_.values.find(node_.inputs[i]);
  if (found == state_.values.end()) {
    refuse("it reads '" + node_.inputs[i].substr(0, 200) + "', which nothing before it makes");
    return harmless();
  }
  if (found->second.is_sequence) {
    refuse("operand " + std::to_string(i) + " is a sequence");
    return harmless();
  }
  return found->second.value;
}

const std::vector<ValueId>& NodeImport::sequence(size_t i) {
  const auto found = has(i) ? state_.values.find(node_.inputs[i]) : state_.values.end();
  if (found == state_.values.end() || !found->second.is_sequence) {
    refuse("operand " + std::to_string(i) + " is no sequence");
    return no_items_;
  }
  return found->second.items;
}

bool NodeImport::is_read(size_t i) const {
  if (i >= node_.outputs.size() || node_.outputs[i].empty()) return false;
  const auto found = state_.readers.find(node_.outputs[i]);
  return found != state_.readers.end() && found->second > 0;
}

bool NodeImport::is_computed_with(size_t i) const {
  if (!is_read(i)) return false;
  const auto kept = state_.keepers.find(node_.outputs[i]);
  return kept == state_.keepers.end() || state_.readers.at(node_.outputs[i]) > kept->second;
}

// ---- values

std::optional<std::vector<int64_t>> NodeImport::known_ints(ValueId v) const {
  const std::optional<ConstantTensor> t = known(v);
  if (!t || is_floating(t->type.dtype)) return std::nullopt;
  return integers(*t);
}

std::optional<std::vector<int64_t>> NodeImport::known_ints_of_step(ValueId v) const {
  const auto found = state_.of_step.find(v.index);
  if (found == state_.of_step.end()) return known_ints(v);
  if (is_floating(found->second.type.dtype)) return std::nullopt;
  return integers(found->second);
}

std::optional<std::vector<int64_t>> NodeImport::step_shape(size_t i) const {
  const auto found = has(i) ? state_.infos.find(node_.inputs[i]) : state_.infos.end();
  if (found == state_.infos.end() || !found->second->has_shape || !state_.step_extent) return std::nullopt;
  std::vector<int64_t> out;
  for (const OnnxDim& d : found->second->dims) {
    const Result<int64_t> extent = d.value >= 0 ? Result<int64_t>(d.value) : state_.step_extent(d.symbol);
    if (!extent.ok()) return std::nullopt;
    out.push_back(*extent);
  }
  return out;
}

ValueId NodeImport::constant_i64(std::vector<int64_t> shape, const std::vector<int64_t>& data,
                                 const std::optional<std::vector<int64_t>>& of_step) {
  const ValueId v = constant_i64(std::move(shape), data);
  if (of_step && of_step->size() == data.size() && *of_step != data) {
    std::vector<std::byte> bytes(of_step->size() * sizeof(int64_t));
    std::memcpy(bytes.data(), of_step->data(), bytes.size());
    state_.of_step[v.index] = {type(v), std::make_shared<const std::vector<std::byte>>(std::move(bytes))};
  }
  return v;
}

// A number that enters the model's arithmetic is that of the step's batch; in modules of `per_piece`, except the root,
// that of the piece.
ValueId NodeImport::for_arithmetic(ValueId v) {
  const auto found = v.valid() ? state_.of_step.find(v.index) : state_.of_step.end();
  if (found == state_.of_step.end() || !is_floating(found->second.type.dtype)) return v;
  if (!module_.empty() && state_.calls.per_piece && state_.calls.per_piece(module_)) return v;
  return constant(found->second);
}

std::vector<int64_t> NodeImport::ints(ValueId v, const char* what) {
  if (!ok()) return {};
  std::optional<std::vector<int64_t>> out = known_ints(v);
  if (!out) {
    refuse(std::string("its ") + what + " is not known when the model is compiled", "P0323");
    return {};
  }
  return *std::move(out);
}

int64_t NodeImport::one_int(ValueId v, const char* what) {
  const std::vector<int64_t> all = ints(v, what);
  if (!ok()) return 0;
  if (all.size() != 1) {
    refuse(std::string("its ") + what + " is not one number");
    return 0;
  }
  return all[0];
}

std::optional<std::vector<double>> NodeImport::known_numbers(ValueId v, int64_t most) const {
  const std::optional<ConstantTensor> t = known(v);
  if (!t || t->type.elements() > most) return std::nullopt;
  std::vector<double> out(static_cast<size_t>(t->type.elements()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = number_at(*t, static_cast<int64_t>(i));
  return out;
}

std::optional<double> NodeImport::known_number(ValueId v) const {
  const std::optional<ConstantTensor> t = known(v);
  if (!t || t->type.elements() == 0) return std::nullopt;
  const double first = number_at(*t, 0);
  for (int64_t i = 1; i < t->type.elements(); ++i)
    if (number_at(*t, i) != first) return std::nullopt;
  return first;
}

const ir::Op* NodeImport::made_by(ValueId v, OpKind kind) const { return std::as_const(graph()).made_by(v, kind); }

// ---- attributes

const OnnxAttribute* NodeImport::attribute(std::string_view name, OnnxAttribute::Kind kind) {
  const OnnxAttribute* a = node_.find(name);
  if (a != nullptr) read_attributes_.emplace_back(name);
  if (a != nullptr && a->kind != kind) {
    refuse("its attribute '" + std::string(name) + "' has the wrong type");
    return nullptr;
  }
  return a;
}

bool NodeImport::has_read(const OnnxAttribute& attribute) const {
  return std::find(read_attributes_.begin(), read_attributes_.end(), attribute.name) != read_attributes_.end();
}

int64_t NodeImport::int_attr(std::string_view name, int64_t fallback) {
  const OnnxAttribute* a = attribute(name, OnnxAttribute::Kind::kInt);
  return a != nullptr ? a->i : fallback;
}

double NodeImport::float_attr(std::string_view name, double fallback) {
  const OnnxAttribute* a = attribute(name, OnnxAttribute::Kind::kFloat);
  if (a == nullptr) return fallback;
  char text[64];
  const std::to_chars_result written = std::to_chars(text, text + sizeof text, a->f);
  double value = a->f;
  if (written.ec == std::errc()) std::from_chars(text, written.ptr, value);
  return value;
}

std::string NodeImport::string_attr(std::string_view name, std::string fallback) {
  const OnnxAttribute* a = attribute(name, OnnxAttribute::Kind::kString);
  return a != nullptr ? a->s : fallback;
}

std::vector<int64_t> NodeImport::ints_attr(std::string_view name, std::vector<int64_t> fallback) {
  const OnnxAttribute* a = attribute(name, OnnxAttribute::Kind::kInts);
  return a != nullptr ? a->ints : fallback;
}

int64_t NodeImport::axis(int64_t raw, int64_t rank) {
  const std::optional<int64_t> axis = ir::known_axis(raw, static_cast<size_t>(rank));
  if (!axis)
    refuse("the axis " + std::to_string(raw) + " does not exist on a tensor of " + std::to_string(rank) + " axes");
  return axis.value_or(0);
}

// ---- ops

std::string NodeImport::part_name(const std::string& name) {
  if (!name.empty()) return name;
  const std::string base = node_.outputs.empty() || node_.outputs[0].empty() ? std::string("part") : node_.outputs[0];
  return base + "." + std::to_string(++parts_);
}

// Extents in attributes come from the file: they are bounded before type inference multiplies them.
bool NodeImport::sizes_fit(const Attrs& attrs) {
  constexpr int64_t kMostWindow = int64_t{1} << 31;
  bool fit = true;
  if (const auto* a = std::get_if<ir::ReshapeAttrs>(&attrs)) fit = count_elements(a->shape).has_value();
  if (const auto* a = std::get_if<ir::ExpandAttrs>(&attrs)) fit = count_elements(a->shape).has_value();
  if (const auto* a = std::get_if<ir::PadAttrs>(&attrs))
    fit = all_in_range(a->low, kMostElements) && all_in_range(a->high, kMostElements);
  if (const auto* a = std::get_if<ir::ConvolutionAttrs>(&attrs))
    fit = all_in_range(a->stride, kMostWindow) && all_in_range(a->padding, kMostWindow) &&
          all_in_range(a->dilation, kMostWindow);
  if (const auto* a = std::get_if<ir::PoolAttrs>(&attrs))
    fit = all_in_range(a->kernel, kMostWindow) && all_in_range(a->stride, kMostWindow) &&
          all_in_range(a->padding, kMostWindow) && all_in_range(a->dilation, kMostWindow);
  if (!fit) refuse("an extent is negative or too large");
  return fit;
}

std::vector<ValueId> NodeImport::emit_all(OpKind kind, std::vector<ValueId> operands, Attrs attrs, std::string name) {
  if (!ok() || !sizes_fit(attrs)) return std::vector<ValueId>(4, harmless());
  std::vector<const ir::TensorType*> types;
  std::vector<ConstantTensor> constants;
  bool foldable = true;
  for (const ValueId v : operands) {
    types.push_back(v.valid() ? &type(v) : nullptr);
    std::optional<ConstantTensor> t = v.valid() ? known(v) : std::nullopt;
    if (t) constants.push_back(*std::move(t));
    else foldable = false;
  }
  Result<std::vector<ir::TensorType>> inferred = infer_types(kind, attrs, types);
  if (!inferred.ok()) {
    refuse(inferred.error().message);
    return std::vector<ValueId>(4, harmless());
  }
  int64_t bytes = 0;
  for (const ir::TensorType& t : *inferred) {
    const std::optional<int64_t> n = count_elements(t.shape);
    if (!n) {
      refuse("its result is too large");
      return std::vector<ValueId>(4, harmless());
    }
    bytes += *n * dtype_bytes(t.dtype);
  }
  if (foldable && bytes <= state_.limits.constant_bytes && bytes <= state_.limits.total_bytes - state_.folded_bytes) {
    // A form stays the operators that make it, which the fold knows again.
    std::optional<std::vector<ConstantTensor>> folded = evaluate(kind, attrs, constants);
    if (folded && std::all_of(folded->begin(), folded->end(), [](const ConstantTensor& t) { return t.has_bytes(); })) {
      state_.folded_bytes += bytes;
      std::vector<ValueId> out;
      for (ConstantTensor& t : *folded)
        out.push_back(constant(std::move(t), out.empty() ? part_name(name) : part_name("")));
      keep_of_step(kind, attrs, operands, std::move(constants), out);
      return out;
    }
  }
  for (ValueId& v : operands) v = for_arithmetic(v);
  return builder_.add(kind, std::move(operands), std::move(attrs), part_name(name));
}

// Files what folded results are in the step's batch, where an operand is another there.
void NodeImport::keep_of_step(OpKind kind, const Attrs& attrs, const std::vector<ValueId>& operands,
                              std::vector<ConstantTensor> constants, const std::vector<ValueId>& results) {
  bool varies = false;
  for (size_t i = 0; i < operands.size(); ++i)
    if (const auto found = state_.of_step.find(operands[i].index); found != state_.of_step.end()) {
      constants[i] = found->second;
      varies = true;
    }
  if (!varies) return;
  std::optional<std::vector<ConstantTensor>> folded = evaluate(kind, attrs, constants);
  for (size_t i = 0; folded && i < folded->size() && i < results.size(); ++i)
    if ((*folded)[i].type == type(results[i]) && !same_elements((*folded)[i], *known(results[i])))
      state_.of_step[results[i].index] = std::move((*folded)[i]);
}

ValueId NodeImport::emit(OpKind kind, std::vector<ValueId> operands, Attrs attrs, std::string name) {
  const std::vector<ValueId> all = emit_all(kind, std::move(operands), std::move(attrs), std::move(name));
  PIPER_CHECK(!all.empty(), ir::op_name(kind), " has no result");
  return all[0];
}

ValueId NodeImport::reshape(ValueId x, std::vector<int64_t> to) {
  if (type(x).shape == to) return x;
  if (const ir::Op* back = made_by(x, OpKind::kReshape))
    if (type(back->operands[0]).shape == to) return back->operands[0];
  return emit(OpKind::kReshape, {x}, ir::ReshapeAttrs{std::move(to)});
}

ValueId NodeImport::permute(ValueId x, std::vector<int64_t> dims) {
  bool same = dims.size() == type(x).shape.size();
  for (size_t i = 0; i < dims.size(); ++i) same = same && dims[i] == static_cast<int64_t>(i);
  return same ? x : emit(OpKind::kPermute, {x}, ir::PermuteAttrs{std::move(dims)});
}

ValueId NodeImport::swap_last(ValueId x) {
  std::vector<int64_t> dims(type(x).shape.size());
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
  if (dims.size() < 2) {
    refuse("a matrix is expected");
    return x;
  }
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return permute(x, std::move(dims));
}

ValueId NodeImport::expand(ValueId x, std::vector<int64_t> to) {
  if (type(x).shape == to) return x;
  return emit(OpKind::kExpand, {x}, ir::ExpandAttrs{std::move(to)});
}

ValueId NodeImport::slice(ValueId x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  const std::vector<int64_t>& from = type(x).shape;
  if (dim >= 0 && dim < static_cast<int64_t>(from.size()) && start == 0 && step == 1 &&
      end == from[static_cast<size_t>(dim)])
    return x;
  return emit(OpKind::kSlice, {x}, ir::SliceAttrs{dim, start, end, step});
}

ValueId NodeImport::unsqueeze(ValueId x, int64_t dim) {
  Extents to = shape(x);
  dim = axis(dim, static_cast<int64_t>(to.size()) + 1);
  to.insert(to.begin() + dim, 1);
  return reshape(x, std::move(to));
}

ValueId NodeImport::cast(ValueId x, DType to) {
  return dtype(x) == to ? x : emit(OpKind::kCast, {x}, ir::CastAttrs{to});
}

ValueId NodeImport::index_select(ValueId x, int64_t dim, const std::vector<int64_t>& index) {
  if (!ok()) return x;
  const Extents from = shape(x);
  if (dim < 0 || dim >= static_cast<int64_t>(from.size())) {
    refuse("the axis " + std::to_string(dim) + " does not exist");
    return x;
  }
  const int64_t extent = from[static_cast<size_t>(dim)];
  bool run = true;  // consecutive: a slice
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= extent) {
      refuse("the index " + std::to_string(index[i]) + " lies outside an axis of extent " + std::to_string(extent));
      return x;
    }
    run = run && index[i] == index[0] + static_cast<int64_t>(i);
  }
  if (run && !index.empty()) return slice(x, dim, index[0], index[0] + static_cast<int64_t>(index.size()));
  return emit(OpKind::kIndexSelect, {x, constant_i64({static_cast<int64_t>(index.size())}, index)}, ir::DimAttrs{dim});
}

ValueId NodeImport::constant(ConstantTensor tensor, std::string name) {
  ir::WeightSource source;
  source.bytes = static_cast<int64_t>(tensor.data()->size());
  source.data = tensor.data();
  return graph().add_constant(part_name(name), std::move(tensor.type), std::move(source));
}

ValueId NodeImport::constant_i64(std::vector<int64_t> shape, const std::vector<int64_t>& data) {
  std::vector<std::byte> bytes(data.size() * sizeof(int64_t));
  if (!data.empty()) std::memcpy(bytes.data(), data.data(), bytes.size());
  return constant({{DType::kI64, std::move(shape)}, std::make_shared<const std::vector<std::byte>>(std::move(bytes))});
}

ValueId NodeImport::constant_f32(std::vector<int64_t> shape, const std::vector<float>& data) {
  std::vector<std::byte> bytes(data.size() * sizeof(float));
  if (!data.empty()) std::memcpy(bytes.data(), data.data(), bytes.size());
  return constant({{DType::kF32, std::move(shape)}, std::make_shared<const std::vector<std::byte>>(std::move(bytes))});
}

ValueId NodeImport::constant_bool(std::vector<int64_t> shape, const std::vector<bool>& data) {
  std::vector<std::byte> bytes(data.size());
  for (size_t i = 0; i < data.size(); ++i) bytes[i] = data[i] ? std::byte{1} : std::byte{0};
  return constant({{DType::kBool, std::move(shape)}, std::make_shared<const std::vector<std::byte>>(std::move(bytes))});
}

ValueId NodeImport::scalar(double value, DType dtype) {
  if (is_exact(dtype, value)) return builder_.scalar(value, dtype);
  refuse("the number " + std::to_string(value) + " in a tensor of integers, which it does not fit");
  return builder_.scalar(0, dtype);
}

bool NodeImport::may_make(int64_t bytes) {
  if (bytes > state_.limits.constant_bytes || bytes > state_.limits.total_bytes - state_.folded_bytes) {
    refuse("it makes a constant of " + std::to_string(bytes) + " bytes, which is too large");
    return false;
  }
  state_.folded_bytes += bytes;
  return true;
}

// ---- ATen calls

aten::Item NodeImport::for_arithmetic(aten::Item x) {
  if (x.is_tensor()) x.tensor = for_arithmetic(x.tensor);
  for (aten::Item& y : x.list) y = for_arithmetic(std::move(y));
  return x;
}

std::optional<aten::Item> NodeImport::of_step(const aten::Item& x) {
  aten::Item out = x;
  bool varies = false;
  if (const auto found = x.is_tensor() ? state_.of_step.find(x.tensor.index) : state_.of_step.end();
      found != state_.of_step.end()) {
    out.tensor = constant(found->second);
    varies = true;
  }
  for (aten::Item& y : out.list)
    if (std::optional<aten::Item> other = of_step(y)) {
      y = *std::move(other);
      varies = true;
    }
  if (!varies) return std::nullopt;
  return out;
}

bool NodeImport::is_known(const aten::Item& x) const {
  return (!x.is_tensor() || known(x.tensor)) &&
         std::all_of(x.list.begin(), x.list.end(), [&](const aten::Item& y) { return is_known(y); });
}

aten::Call NodeImport::as_call() {
  static const aten::Schema kNone;
  return aten::Call(state_.calls, kNone, OpKind::kReshape, {}, part_name(""), module_, scope_, prov_);
}

// What ops made that are evaluated already becomes a constant, as everywhere in this route.
std::vector<ValueId> NodeImport::finish(const aten::Call& call, const aten::Item& made) {
  if (const Status s = call.status(); !s.ok()) refuse(s.error().message, s.error().code);
  std::vector<ValueId> out;
  for (const aten::Item& x : made.is_list() ? made.list : std::vector<aten::Item>{made}) {
    ValueId v = x.is_tensor() ? x.tensor : ValueId();
    const auto found = v.valid() ? state_.calls.known.find(v.index) : state_.calls.known.end();
    if (found != state_.calls.known.end() && found->second.has_bytes()) v = constant(found->second);
    out.push_back(v);
  }
  return out;
}

std::vector<ValueId> NodeImport::call_all(const std::string& target, std::vector<Argument> arguments) {
  constexpr size_t kMostResults = 6;
  if (!ok()) return std::vector<ValueId>(kMostResults, harmless());
  const aten::TableRow* row = aten::find_row(target);
  PIPER_CHECK(row != nullptr, "no row for ", target);
  std::vector<aten::Item> items;
  for (Argument& a : arguments) items.push_back(std::move(a.item));
  Result<std::vector<aten::Item>> bound = aten::bind_arguments(row->schema, std::move(items), {});
  PIPER_CHECK(bound.ok(), "arguments of ", target);
  const auto made_of = [&](std::vector<aten::Item> given) {
    aten::Call call(state_.calls, row->schema, row->kind, std::move(given), part_name(""), module_, scope_, prov_);
    const aten::Item result = call.made_by(row->handler);
    return finish(call, result);
  };
  const aten::Item all = aten::Item::of_list(*bound);
  const std::optional<aten::Item> step = of_step(all);
  std::vector<ValueId> out;
  if (step && is_known(all)) {
    out = made_of(*std::move(bound));
    const std::vector<ValueId> others = made_of(step->list);
    for (size_t i = 0; ok() && i < out.size(); ++i) {
      if (!out[i].valid()) continue;
      const std::optional<ConstantTensor> own = known(out[i]), other = known(others[i]);
      if (!own || !other) out[i] = for_arithmetic(others[i]);
      else if (own->type == other->type && !same_elements(*own, *other)) state_.of_step[out[i].index] = *other;
    }
  } else {
    out = made_of(for_arithmetic(all).list);
  }
  out.resize(std::max(out.size(), kMostResults));
  return out;
}

ValueId NodeImport::call(const std::string& target, std::vector<Argument> arguments) {
  return call_all(target, std::move(arguments))[0];
}

void NodeImport::is_call(const std::string& target, std::vector<Argument> arguments) {
  set_all(call_all(target, std::move(arguments)));
}

// ---- results

// An op that the node made has the name of its result.
ValueId NodeImport::named(ValueId v, size_t i) {
  ir::Value& value = graph().value(v);
  if (value.kind == ir::ValueKind::kOpResult && v.index >= first_value_ && !node_.outputs[i].empty())
    value.name = node_.outputs[i];
  return v;
}

void NodeImport::set_all(const std::vector<ValueId>& all) {
  for (size_t i = 0; ok() && i < std::min(all.size(), node_.outputs.size()); ++i) {
    if (all[i].valid()) set(i, named(all[i], i));
    else if (is_read(i)) refuse("its result " + std::to_string(i) + " is not supported");
  }
}

void NodeImport::set(size_t i, ValueId v) {
  if (i < node_.outputs.size() && !node_.outputs[i].empty()) results_[node_.outputs[i]] = {v, false, {}};
}

void NodeImport::set_sequence(size_t i, std::vector<ValueId> items) {
  if (i < node_.outputs.size() && !node_.outputs[i].empty())
    results_[node_.outputs[i]] = {ValueId(), true, std::move(items)};
}

void NodeImport::result(OpKind kind, std::vector<ValueId> operands, Attrs attrs) {
  set(0, emit(kind, std::move(operands), std::move(attrs), first_output()));
}

}  // namespace piper::frontend::onnx
