// Storage of the model graph: values, ops, names and scopes.
#include "compiler/ir/graph.h"

#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::ir {
namespace {

// A value that no op makes.
Value leaf(ValueKind kind, TensorType type, size_t payload, std::string name) {
  Value v;
  v.kind = kind;
  v.type = std::move(type);
  v.payload = static_cast<uint32_t>(payload);
  v.name = std::move(name);
  return v;
}

}  // namespace

int64_t TensorType::elements() const { return ir::elements(shape); }

std::string to_string(const TensorType& type) {
  std::string text(dtype_name(type.dtype));
  text += '[';
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i) text += ", ";
    text += std::to_string(type.shape[i]);
  }
  return text + "]";
}

const std::string& Graph::scope(ScopeId id) const {
  static const std::string kRoot;
  return id.valid() ? scopes_[id.index] : kRoot;
}

ScopeId Graph::intern_scope(std::string_view module_path) {
  auto [place, added] = scope_index_.try_emplace(std::string(module_path), static_cast<uint32_t>(scopes_.size()));
  if (added) scopes_.emplace_back(module_path);
  return ScopeId(place->second);
}

std::string Graph::unique_name(std::string wish) {
  PIPER_CHECK(!wish.empty(), "a value without a name");
  auto [place, added] = name_index_.try_emplace(wish, 1u);
  if (added) return wish;
  for (;;) {
    std::string name = wish + "_" + std::to_string(++place->second);
    // The map may grow in the insertion below, which keeps references but not this iterator.
    uint32_t count = place->second;
    if (name_index_.try_emplace(name, 1u).second) return name;
    place = name_index_.find(wish);
    place->second = count;
  }
}

ValueId Graph::add_input(std::string name, TensorType type, bool batched) {
  const ValueId id(values_.size());
  values_.push_back(leaf(ValueKind::kInput, std::move(type), inputs_.size(), unique_name(name)));
  inputs_.push_back({id, std::move(name), batched});
  return id;
}

ValueId Graph::add_parameter(std::vector<std::string> names, TensorType type, bool trainable, WeightSource source) {
  PIPER_CHECK(!names.empty(), "a parameter without a name");
  const ValueId id(values_.size());
  values_.push_back(leaf(ValueKind::kParameter, std::move(type), parameters_.size(), unique_name(names[0])));
  parameters_.push_back({id, std::move(names), trainable, {}, {}, std::move(source)});
  return id;
}

ValueId Graph::add_buffer(std::vector<std::string> names, TensorType type, WeightSource source) {
  PIPER_CHECK(!names.empty(), "a buffer without a name");
  const ValueId id(values_.size());
  values_.push_back(leaf(ValueKind::kBuffer, std::move(type), buffers_.size(), unique_name(names[0])));
  buffers_.push_back({id, std::move(names), false, {}, {}, std::move(source)});
  return id;
}

ValueId Graph::add_constant(std::string name, TensorType type, WeightSource source) {
  const ValueId id(values_.size());
  values_.push_back(leaf(ValueKind::kConstant, std::move(type), constants_.size(),
                         unique_name(name.empty() ? "constant" : std::move(name))));
  constants_.push_back({id, std::move(source)});
  return id;
}

ValueId Graph::seed_step() {
  if (!seed_step_.valid()) {
    seed_step_ = ValueId(values_.size());
    values_.push_back(leaf(ValueKind::kSeedStep, {DType::kI64, {2}}, 0, unique_name("seed_step")));
  }
  return seed_step_;
}

ValueId Graph::sample_offset() {
  if (!sample_offset_.valid()) {
    sample_offset_ = ValueId(values_.size());
    values_.push_back(leaf(ValueKind::kSampleOffset, {DType::kI64, {1}}, 0, unique_name("sample_offset")));
  }
  return sample_offset_;
}

ValueId Graph::place() {
  if (!place_.valid()) {
    place_ = ValueId(values_.size());
    values_.push_back(leaf(ValueKind::kPlace, {DType::kI64, {1}}, 0, unique_name("place")));
  }
  return place_;
}

ValueId Graph::loss_scale() {
  if (!loss_scale_.valid()) {
    loss_scale_ = ValueId(values_.size());
    values_.push_back(leaf(ValueKind::kLossScale, {DType::kF32, {}}, 0, unique_name("loss_scale")));
  }
  return loss_scale_;
}

OpId Graph::append(OpKind kind, Attrs attrs, std::vector<ValueId> operands, std::vector<TensorType> results,
                   ScopeId scope, ProvId prov, std::string name) {
  OpId id(ops_.size());
  for (ValueId operand : operands)
    PIPER_CHECK(!operand.valid() || operand.index < values_.size(), "operand of ", op_name(kind),
                " is no value of this graph");
  Op op;
  op.kind = kind;
  op.attrs = std::move(attrs);
  op.operands = std::move(operands);
  op.scope = scope;
  op.prov = prov;
  std::string base = name.empty() ? std::string(op_name(kind)) : std::move(name);
  for (size_t i = 0; i < results.size(); ++i) {
    Value v;
    v.type = std::move(results[i]);
    v.producer = id;
    v.result_index = static_cast<uint32_t>(i);
    v.name = unique_name(i == 0 ? base : base + "." + std::to_string(i));
    if (i == 0) base = v.name;
    op.results.push_back(ValueId(values_.size()));
    values_.push_back(std::move(v));
  }
  ops_.push_back(std::move(op));
  return id;
}

void Graph::remove_ops(const std::vector<bool>& drop) {
  size_t kept = 0;
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (ValueId result : ops_[i].results) values_[result.index].producer = drop[i] ? OpId() : OpId(kept);
    if (drop[i]) continue;
    if (kept < i) ops_[kept] = std::move(ops_[i]);
    ++kept;
  }
  ops_.erase(ops_.begin() + static_cast<ptrdiff_t>(kept), ops_.end());
}

void Graph::sort_ops() {
  std::vector<size_t> order(ops_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  sort_ops(order);
}

void Graph::sort_ops(const std::vector<size_t>& wanted) {
  PIPER_CHECK(wanted.size() == ops_.size(), wanted.size(), " places for ", ops_.size(), " ops");
  using Place = std::pair<size_t, size_t>;  // wanted, index
  std::vector<size_t> waits_for(ops_.size(), 0);
  const Uses readers = uses();
  for (const Op& op : ops_)
    for (ValueId result : op.results)
      for (OpId reader : readers[result.index]) ++waits_for[reader.index];
  std::priority_queue<Place, std::vector<Place>, std::greater<>> ready;  // the smallest first
  for (size_t i = 0; i < ops_.size(); ++i)
    if (waits_for[i] == 0) ready.emplace(wanted[i], i);
  std::vector<Op> sorted;
  sorted.reserve(ops_.size());
  while (!ready.empty()) {
    Op& op = ops_[ready.top().second];
    ready.pop();
    for (ValueId result : op.results) {
      for (OpId reader : readers[result.index])
        if (--waits_for[reader.index] == 0) ready.emplace(wanted[reader.index], reader.index);
      values_[result.index].producer = OpId(sorted.size());
    }
    sorted.push_back(std::move(op));
  }
  PIPER_CHECK(sorted.size() == ops_.size(), "a cycle among ops");
  ops_ = std::move(sorted);
}

void Graph::move_ops_before_readers() {
  std::vector<size_t> order, wanted;  // the last wanted is placed first
  std::vector<bool> placed(ops_.size(), false);
  size_t reads = 0;
  for (const Op& op : ops_) reads += op.operands.size();
  for (size_t i = 0; i < ops_.size(); ++i) {
    wanted.assign(1, i);
    while (!wanted.empty()) {
      const size_t at = wanted.back(), known = wanted.size();
      PIPER_CHECK(known <= reads + 1, "a cycle among ops");
      for (ValueId operand : ops_[at].operands)
        if (!placed[at] && operand.valid() && values_[operand.index].kind == ValueKind::kOpResult &&
            !placed[values_[operand.index].producer.index])
          wanted.push_back(values_[operand.index].producer.index);
      if (wanted.size() > known) continue;
      wanted.pop_back();
      if (!placed[at]) order.push_back(at);
      placed[at] = true;
    }
  }
  std::vector<Op> sorted;
  sorted.reserve(ops_.size());
  for (size_t at : order) {
    for (ValueId result : ops_[at].results) values_[result.index].producer = OpId(sorted.size());
    sorted.push_back(std::move(ops_[at]));
  }
  ops_ = std::move(sorted);
}

bool Graph::number_values_like(const Graph& other) {
  std::unordered_map<std::string_view, uint32_t> wanted;
  for (size_t v = 0; v < other.num_values(); ++v) wanted.emplace(other.values_[v].name, static_cast<uint32_t>(v));
  std::vector<ValueId> renumbered;  // [value]
  size_t shared = 0, next = other.num_values();
  for (const Value& value : values_) {
    const auto twin = wanted.find(value.name);
    renumbered.push_back(ValueId(twin == wanted.end() ? next++ : twin->second));
    shared += twin != wanted.end();
  }
  if (shared != other.num_values()) return false;
  const auto renumber = [&](ValueId& id) {
    if (id.valid()) id = renumbered[id.index];
  };
  std::vector<Value> values(values_.size());
  for (size_t v = 0; v < values_.size(); ++v) values[renumbered[v].index] = std::move(values_[v]);
  values_ = std::move(values);
  for (Op& op : ops_) {
    for (ValueId& operand : op.operands) renumber(operand);
    for (ValueId& result : op.results) renumber(result);
  }
  for (Parameter& parameter : parameters_) renumber(parameter.value);
  for (Parameter& buffer : buffers_) renumber(buffer.value);
  for (Input& input : inputs_) renumber(input.value);
  for (Constant& constant : constants_) renumber(constant.value);
  for (Output& output : outputs) renumber(output.value);
  for (ValueId& term : loss_terms) renumber(term);
  for (ValueId& rows : dropped) renumber(rows);
  renumber(loss);
  renumber(seed_step_);
  renumber(sample_offset_);
  renumber(place_);
  renumber(loss_scale_);
  return true;
}

std::vector<ValueId> Graph::all_losses() const {
  std::vector<ValueId> all = loss_terms;
  if (loss.valid()) all.push_back(loss);
  return all;
}

Uses Graph::uses() const {
  return Uses(values_.size(), [this](const auto& add) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      const std::vector<ValueId>& operands = ops_[i].operands;
      for (auto operand = operands.begin(); operand != operands.end(); ++operand)
        if (operand->valid() && std::find(operands.begin(), operand, *operand) == operand) add(operand->index, OpId(i));
    }
  });
}

}  // namespace piper::ir
