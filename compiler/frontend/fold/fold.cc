// Folds constants, simplifies, drops what nothing reads.
#include "compiler/frontend/fold.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/frontend/fold/recognise_mask.h"
#include "compiler/ir/copy_graph.h"

namespace piper::frontend {
namespace {

using ir::OpKind;
using ir::ValueId;

bool is_view(OpKind kind) {
  for (OpKind view : {OpKind::kReshape, OpKind::kPermute, OpKind::kExpand, OpKind::kSlice, OpKind::kDetach})
    if (kind == view) return true;
  return false;
}

// Whether two of the corners of a tensor are two numbers.
bool corners_differ(const Form& form, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> first(shape.size(), 0);
  const double number = form::value_at(form, first);
  for (size_t corner = 1; corner < size_t{1} << std::min<size_t>(shape.size(), 8); ++corner) {
    std::vector<int64_t> place = first;
    for (size_t d = 0; d < shape.size(); ++d)
      if ((corner >> d & 1) != 0) place[d] = shape[d] - 1;
    if (form::value_at(form, place) != number) return true;
  }
  return false;
}

// The number that all elements are.
std::optional<double> splat(const ConstantTensor& t) {
  std::optional<double> value;
  if (t.type.elements() == 0) return value;
  if (const Form& form = t.form(); form != nullptr) {
    if (form->is_number() || form->kind == FormNode::Kind::kReal) return form::value_at(form, {});
    if (!t.is_of_bytes() || corners_differ(form, t.type.shape)) return value;
  }
  bool same = true;
  eval::with_type(t.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* data = eval::elements<T>(t);
    // Bits are compared: 0 and -0 are not one number, and a NaN is itself.
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    for (int64_t i = 1; i < t.type.elements() && same; ++i) same = std::memcmp(&data[i], &data[0], sizeof(T)) == 0;
    if (same) value = static_cast<double>(data[0]);
  });
  return value;
}

// The bytes of the element that all of a tensor are.
std::vector<std::byte> one_element(const ConstantTensor& t) {
  const Form& form = t.form();
  if (form == nullptr || t.has_bytes())
    return {t.data()->begin(), t.data()->begin() + static_cast<std::ptrdiff_t>(dtype_bytes(t.type.dtype))};
  eval::Buffer element({t.type.dtype, {}});
  eval::with_type(t.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    *element.data<T>() = form->is_real() ? static_cast<T>(form->real) : static_cast<T>(form->number);
  });
  return std::move(element.bytes);
}

class Folder {
 public:
  explicit Folder(const ir::Graph& graph)
      : from_(graph),
        known_(graph.num_values()),
        same_as_(graph.num_values()),
        copy_(graph, to_, ir::CopyGraph::Constants::kLeft) {}

  ir::Graph run() {
    for (size_t i = 0; i < from_.num_values(); ++i) {
      same_as_[i] = ValueId(i);
      known_[i] = constant_of(from_, ValueId(i));
    }
    for (size_t i = 0; i < from_.num_ops(); ++i) look_at(from_.op(ir::OpId(i)));
    mark_live();
    copy();
    return std::move(to_);
  }

 private:
  ValueId resolve(ValueId v) const {
    while (v.valid() && same_as_[v.index] != v) v = same_as_[v.index];
    return v;
  }
  const std::optional<ConstantTensor>& known(ValueId v) const { return known_[resolve(v).index]; }
  // Whether the value becomes a constant where it is read; what is too large for one is computed by the run.
  bool is_constant(ValueId v) const {
    if (!known_[v.index]) return false;
    if (known_[v.index]->is_of_bytes() || splat(*known_[v.index])) return true;
    const std::optional<ConstantTensor> part = repeated_part(*known_[v.index]);
    return part && part->is_of_bytes();
  }
  bool all_equal(ValueId v, double wanted) const {
    if (!v.valid() || !known(v)) return false;
    std::optional<double> value = splat(*known(v));
    return value && *value == wanted;
  }

  // Decides what one op's results are: constants, another value, or its own.
  void look_at(const ir::Op& op) {
    if (op.phase != ir::Phase::kForward || ir::has_effect(op)) return;
    bool computes = false;  // a number; what has no elements is known, whatever it is made of
    for (ValueId result : op.results) {
      const ir::TensorType& type = from_.type(result);
      if (type.elements() > 0) computes = true;
      else known_[result.index] = {type, std::make_shared<const std::vector<std::byte>>()};
    }
    if (!computes) return;
    bool constant = true;
    std::vector<ConstantTensor> operands;
    for (ValueId operand : op.operands) {
      constant = constant && operand.valid() && known(operand).has_value();
      if (!constant) break;
      operands.push_back(*known(operand));
    }
    if (constant) {
      if (auto results = evaluate(op.kind, op.attrs, operands)) {
        for (size_t i = 0; i < op.results.size(); ++i) known_[op.results[i].index] = (*results)[i];
        return;
      }
    }
    if (op.results.size() != 1) return;
    ValueId same = simplified(op);
    if (same.valid() && from_.type(same) == from_.type(op.results[0])) same_as_[op.results[0].index] = resolve(same);
  }

  // The operand that the result equals, by the operator's algebra; its type is compared by the caller.
  ValueId simplified(const ir::Op& op) const {
    const std::vector<ValueId>& x = op.operands;
    switch (op.kind) {
      case OpKind::kExpand:
        if (std::get<ir::ExpandAttrs>(op.attrs).samples >= 0) return {};
        [[fallthrough]];
      case OpKind::kReshape:
      case OpKind::kSlice:
      case OpKind::kCast: return x[0];  // nothing changes where the types agree
      case OpKind::kPermute: {
        const auto& dims = std::get<ir::PermuteAttrs>(op.attrs).dims;
        return std::is_sorted(dims.begin(), dims.end()) ? x[0] : ValueId();
      }
      case OpKind::kAdd: return all_equal(x[1], 0) ? x[0] : all_equal(x[0], 0) ? x[1] : ValueId();
      case OpKind::kSub: return all_equal(x[1], 0) ? x[0] : ValueId();
      case OpKind::kMul: return all_equal(x[1], 1) ? x[0] : all_equal(x[0], 1) ? x[1] : ValueId();
      case OpKind::kDiv: return all_equal(x[1], 1) ? x[0] : ValueId();
      case OpKind::kPowScalar: return std::get<ir::ExponentAttrs>(op.attrs).exponent == 1 ? x[0] : ValueId();
      case OpKind::kWhere: return all_equal(x[0], 1) ? x[1] : all_equal(x[0], 0) ? x[2] : ValueId();
      case OpKind::kLogicalAnd: return all_equal(x[1], 1) ? x[0] : all_equal(x[0], 1) ? x[1] : ValueId();
      case OpKind::kLogicalOr: return all_equal(x[1], 0) ? x[0] : all_equal(x[0], 0) ? x[1] : ValueId();
      case OpKind::kSum:
      case OpKind::kMean: return std::get<ir::ReduceAttrs>(op.attrs).dims.empty() ? x[0] : ValueId();
      case OpKind::kCat: {
        const std::vector<ValueId> parts = read_operands(op);
        return parts.size() == 1 ? parts[0] : ValueId();
      }
      case OpKind::kDropout: return std::get<ir::DropoutAttrs>(op.attrs).p == 0 ? x[0] : ValueId();
      default: return ValueId();
    }
  }

  // The mask operand of attention that a pattern replaces, with the causal flag it leaves.
  std::optional<bool> replaced_mask(const ir::Op& op) const {
    if (op.kind != OpKind::kSdpa || op.operands.size() < 4 || !op.operands[3].valid()) return std::nullopt;
    const std::optional<ConstantTensor>& mask = known(op.operands[3]);
    if (!mask) return std::nullopt;
    const bool causal = std::get<ir::SdpaAttrs>(op.attrs).is_causal;
    const int64_t queries = from_.type(op.operands[0]).shape[2], keys = from_.type(op.operands[1]).shape[2];
    auto [verdict, is_new] =
        verdicts_.try_emplace({resolve(op.operands[3]).index, causal, queries, keys}, MaskPattern::kOther);
    if (is_new) verdict->second = recognise_mask(*mask, causal, queries, keys);
    switch (verdict->second) {
      case MaskPattern::kFull: return false;
      case MaskPattern::kCausal: return true;
      case MaskPattern::kOther: return std::nullopt;
    }
    return std::nullopt;
  }

  std::vector<ValueId> read_operands(const ir::Op& op) const {
    std::vector<ValueId> operands = op.operands;
    if (replaced_mask(op)) operands.resize(3);
    if (op.kind == OpKind::kCat)
      operands.erase(
          std::remove_if(operands.begin(), operands.end(), [&](ValueId v) { return from_.type(v).elements() == 0; }),
          operands.end());
    return operands;
  }

  void mark_live() {
    live_.assign(from_.num_ops(), false);
    std::vector<bool> read(from_.num_values(), false);
    auto need = [&](ValueId v) {
      v = resolve(v);
      if (v.valid() && !is_constant(v)) read[v.index] = true;
    };
    for (const ir::Graph::Output& output : from_.outputs) need(output.value);
    for (ValueId loss : from_.all_losses()) need(loss);
    for (size_t i = from_.num_ops(); i-- > 0;) {
      const ir::Op& op = from_.op(ir::OpId(i));
      bool live = ir::has_effect(op) || op.phase != ir::Phase::kForward;
      for (ValueId result : op.results) live = live || read[result.index];
      live_[i] = live;
      if (!live) continue;
      for (ValueId operand : read_operands(op)) need(operand);
    }
  }

  void copy() {
    for (size_t i = 0; i < from_.num_ops(); ++i)
      if (live_[i]) copy_op(ir::OpId(i));
    for (const ir::Graph::Output& output : from_.outputs) copy_.place(output.value, moved(output.value));
    for (ValueId loss : from_.all_losses()) copy_.place(loss, moved(loss));
    copy_.finish();
  }

  void copy_op(ir::OpId id) {
    const ir::Op& op = from_.op(id);
    std::vector<ValueId> operands;
    for (ValueId operand : read_operands(op)) operands.push_back(operand.valid() ? moved(operand) : operand);
    ir::Attrs attrs = op.attrs;
    if (std::optional<bool> causal = replaced_mask(op)) std::get<ir::SdpaAttrs>(attrs).is_causal = *causal;
    copy_.append_like(id, op.kind, std::move(attrs), std::move(operands));
  }

  // The value in the new graph; a constant is made at its first use.
  ValueId moved(ValueId old) {
    const ValueId v = resolve(old);
    if (!copy_.is_moved(v)) {
      const ir::Value& value = from_.value(v);
      if (is_constant(v) && value.kind == ir::ValueKind::kOpResult) make_constant(v);
      else if (is_constant(v)) copy_.place(v, add(value.name, *known_[v.index]));
      else if (value.kind == ir::ValueKind::kConstant)
        copy_.place(v, to_.add_constant(value.name, value.type, from_.constants()[value.payload].source));
    }
    return copy_.moved(v);
  }

  // What repeats numbers stays a view of them. Whether it does must not hang on extents: the same model bound
  // to another batch has to keep the same values.
  void make_constant(ValueId v) {
    const ConstantTensor& t = *known_[v.index];
    const ir::OpId producer = from_.value(v).producer;
    const ir::Op& op = from_.op(producer);
    if (!t.type.shape.empty() && t.type.elements() > 0 && op.results.size() == 1) {
      if (t.type.elements() > 1 ? splat(t).has_value() : is_repeated(v)) {
        auto first = std::make_shared<const std::vector<std::byte>>(one_element(t));
        ValueId element = add(from_.value(v).name + ".element", {{t.type.dtype, {}}, std::move(first)});
        ir::ExpandAttrs attrs{t.type.shape};
        if (op.kind == OpKind::kExpand) attrs.samples = std::get<ir::ExpandAttrs>(op.attrs).samples;
        copy_.append_like(producer, OpKind::kExpand, std::move(attrs), {element});
        return;
      }
      if (is_view(op.kind) && is_repeated(v)) {
        copy_.append_like(producer, op.kind, op.attrs, {moved(op.operands[0])});
        return;
      }
    }
    if (const std::optional<ConstantTensor> part = repeated_part(t); part && part->is_of_bytes()) {
      ir::ExpandAttrs attrs{t.type.shape};
      copy_.append_like(producer, OpKind::kExpand, std::move(attrs), {add(from_.value(v).name + ".part", *part)});
      return;
    }
    copy_.place(v, add(from_.value(v).name, t));
  }

  // Whether the value is filled, or a view of what an expand or a fill repeats.
  bool is_repeated(ValueId v) const {
    for (v = resolve(v); from_.value(v).kind == ir::ValueKind::kOpResult;) {
      const ir::Op& op = from_.op(from_.value(v).producer);
      if (op.kind == OpKind::kExpand || op.kind == OpKind::kFill) return true;
      if (!is_view(op.kind) || (op.kind == OpKind::kReshape && !keeps_axes(op))) return false;
      v = resolve(op.operands[0]);
    }
    return false;
  }

  // A reshape that only adds or drops axes of extent 1; any other would copy what is repeated, in every step.
  bool keeps_axes(const ir::Op& reshape) const {
    std::vector<int64_t> before = from_.type(reshape.operands[0]).shape, after = from_.type(reshape.results[0]).shape;
    for (auto* shape : {&before, &after}) shape->erase(std::remove(shape->begin(), shape->end(), 1), shape->end());
    return before == after;
  }

  // One constant for all that have the same type and bytes: layers repeat masks and positions. What shares its bytes
  // with a constant is known by them.
  ValueId add(std::string name, const ConstantTensor& t) {
    auto [shared, is_unseen] = constants_of_bytes_.try_emplace({t.data(), ir::to_string(t.type)});
    if (!is_unseen) return shared->second;
    std::string key = ir::to_string(t.type) + ":";
    key.append(reinterpret_cast<const char*>(t.data()->data()), t.data()->size());
    auto [place, is_new] = constants_.try_emplace(std::move(key));
    if (is_new) {
      ir::WeightSource source;
      source.bytes = static_cast<int64_t>(t.data()->size());
      source.data = t.data();
      place->second = to_.add_constant(std::move(name), t.type, std::move(source));
    }
    return shared->second = place->second;
  }

  const ir::Graph& from_;
  ir::Graph to_;
  std::vector<std::optional<ConstantTensor>> known_;  // [value] bytes, where constant
  std::vector<ValueId> same_as_;                      // [value] the value it equals
  ir::CopyGraph copy_;
  mutable std::map<std::tuple<uint32_t, bool, int64_t, int64_t>, MaskPattern> verdicts_;  // by mask, is_causal, S, T
  std::vector<bool> live_;                                                                // [op]
  std::unordered_map<std::string, ValueId> constants_;  // type and bytes -> constant of to_
  std::map<std::pair<ir::ConstantData, std::string>, ValueId> constants_of_bytes_;
};

}  // namespace

ir::Graph fold(const ir::Graph& graph) { return Folder(graph).run(); }

}  // namespace piper::frontend
