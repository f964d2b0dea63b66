// Folds constants, simplifies, drops what nothing reads.
#include "compiler/frontend/fold.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "compiler/frontend/fold/attention_mask.h"
#include "compiler/frontend/fold/evaluator.h"
#include "compiler/frontend/fold/recognise_mask.h"
#include "compiler/ir/copy_graph.h"
#include "compiler/ir/op_traits.h"
#include "schemas/forms/attends.h"
#include "schemas/forms/form_program.h"

namespace piper::frontend {
namespace {

using ir::OpKind;
using ir::ValueId;

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
  if (t.type.elements() == 0 || t.is_table()) return value;
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
    if (!known_[v.index] || known_[v.index]->is_table()) return false;
    if (splat(*known_[v.index])) return true;
    if (known_[v.index]->is_counted()) return false;
    if (known_[v.index]->is_stored()) return true;
    const std::optional<ConstantTensor> part = repeated_part(*known_[v.index]);
    return part && part->is_stored();
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
  ValueId simplified(const ir::Op& op) {
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

  // What attention has instead of its mask operand.
  struct ReplacedMask {
    bool causal = false;
    std::string attends;
    std::vector<MaskVector> vectors;
    int64_t places = 0;
    ValueId operand;  // of the new graph, once it is made
  };

  ReplacedMask* replaced_mask(const ir::Op& op) {
    if (op.kind != OpKind::kSdpa || op.operands.size() < 4 || !op.operands[3].valid()) return nullptr;
    if (!std::get<ir::SdpaAttrs>(op.attrs).attends.empty()) return nullptr;
    const bool causal = std::get<ir::SdpaAttrs>(op.attrs).is_causal;
    const std::vector<int64_t>& q = from_.type(op.operands[0]).shape;
    const Scores scores{q[0], q[1], q[2], from_.type(op.operands[1]).shape[2]};
    auto [found, is_new] = masks_.try_emplace({resolve(op.operands[3]).index, causal, scores.queries, scores.keys});
    if (is_new) found->second = replacement_of(op.operands[3], causal, scores);
    return found->second ? &*found->second : nullptr;
  }

  std::optional<ReplacedMask> replacement_of(ValueId mask, bool causal, const Scores& scores) const {
    const KnownValues values{from_, [this](ValueId v) { return resolve(v); },
                             [this](ValueId v) -> const std::optional<ConstantTensor>& { return known_[v.index]; }};
    const Form query = form::axis(0, scores.queries), key = form::axis(1, scores.keys);
    const Form lower = form::not_negative(form::sum(0, {{1, query}, {-1, key}}));
    if (std::optional<AttentionMask> read = attention_mask(values, mask, scores)) {
      const Form where = causal ? form::all({read->where, lower}) : read->where;
      if (where->is_number() && where->number == 1) return ReplacedMask{};
      if (form::equal(where, lower)) return ReplacedMask{true, {}, {}, 0, {}};
      // What one of the two decides alone is a row, or a column, and costs nothing as it is.
      if (form::depends_on(where, 0) && form::depends_on(where, 1) && form::program_of(where))
        return ReplacedMask{
            false, form::attends_text(where, scores.queries, scores.keys), std::move(read->vectors), read->places, {}};
    }
    const std::optional<ConstantTensor>& constant = known(mask);
    switch (constant ? recognise_mask(*constant, causal, scores.queries, scores.keys) : MaskPattern::kOther) {
      case MaskPattern::kFull: return ReplacedMask{};
      case MaskPattern::kCausal: return ReplacedMask{true, {}, {}, 0, {}};
      case MaskPattern::kOther: break;
    }
    return std::nullopt;
  }

  // The vectors that a mask reads, i64 [batch or 1, 1, vectors, places], made once for all layers.
  ValueId operand_of(ReplacedMask& mask, const ir::Op& reader, int64_t batch) {
    if (mask.operand.valid() || mask.vectors.empty()) return mask.operand;
    const ValueId of = resolve(reader.operands[3]);
    const bool made = from_.value(of).kind == ir::ValueKind::kOpResult;
    const ir::Op& origin = made ? from_.op(from_.value(of).producer) : reader;
    ir::GraphBuilder b(to_, copy_.moved_scope(origin.scope), origin.prov);
    const bool batched =
        std::any_of(mask.vectors.begin(), mask.vectors.end(), [](const MaskVector& vector) { return vector.batched; });
    std::vector<ValueId> rows;
    for (const MaskVector& vector : mask.vectors) {
      ValueId row = moved(vector.value);
      if (to_.type(row).dtype != DType::kI64) row = b.add1(OpKind::kCast, {row}, ir::CastAttrs{DType::kI64});
      const int64_t samples = vector.batched ? batch : 1;
      row = b.reshape(row, {samples, 1, 1, to_.type(row).elements() / samples});
      const std::vector<int64_t> shape{batched ? batch : 1, 1, 1, mask.places};
      if (to_.type(row).shape != shape) {
        ir::ExpandAttrs attrs{shape};
        if (samples != shape[0]) attrs.samples = 0;
        row = b.add1(OpKind::kExpand, {row}, std::move(attrs));
      }
      rows.push_back(row);
    }
    mask.operand = rows.size() == 1 ? rows[0] : b.add1(OpKind::kCat, rows, ir::DimAttrs{2});
    return mask.operand;
  }

  std::vector<ValueId> read_operands(const ir::Op& op) {
    std::vector<ValueId> operands = op.operands;
    if (const ReplacedMask* mask = replaced_mask(op)) {
      operands.erase(operands.begin() + 3);
      for (const MaskVector& vector : mask->vectors) operands.push_back(vector.value);
    }
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
    for (const ir::Graph::Output& output : from_.outputs) copy_.place(output.value, with_all_parameters(output.value));
    for (ValueId loss : from_.all_losses())
      if (!copy_.is_moved(loss)) copy_.place(loss, moved(loss));
    copy_.finish();
  }

  // The copy of an output. A number that may be a loss, of which a parameter has been folded away (it depends on it by
  // what has no elements, or is never chosen), still gives it a gradient, of zeros, as PyTorch does.
  ValueId with_all_parameters(ValueId output) {
    ValueId copied = moved(output);
    const ir::TensorType type = from_.type(output);
    if (!type.shape.empty() || !is_floating(type.dtype) || from_.value(output).kind != ir::ValueKind::kOpResult)
      return copied;
    const std::vector<bool> before = trained_below(from_, output), after = trained_below(to_, copied);
    const ir::Op& op = from_.op(from_.value(output).producer);
    ir::GraphBuilder b(to_, copy_.moved_scope(op.scope), op.prov);
    for (size_t p = 0; p < before.size(); ++p) {
      if (!before[p] || after[p]) continue;
      const ValueId parameter = to_.parameters()[p].value;
      std::vector<int64_t> dims(to_.type(parameter).shape.size());
      std::iota(dims.begin(), dims.end(), int64_t{0});
      const DType own = to_.type(parameter).dtype;
      ValueId zero = b.add1(OpKind::kWhere, {b.scalar(0, DType::kBool), parameter, b.scalar(0, own)});
      if (!dims.empty()) zero = b.add1(OpKind::kSum, {zero}, ir::ReduceAttrs{std::move(dims), false});
      copied = b.add1(OpKind::kAdd, {copied, b.cast(zero, type.dtype)});
    }
    PIPER_CHECK(b.status().ok(), "zeros of parameters do not fit");
    return copied;
  }

  // [parameter] whether it is trained and `output` is made of it without a detach.
  static std::vector<bool> trained_below(const ir::Graph& graph, ValueId output) {
    std::vector<bool> below(graph.num_values());
    below[output.index] = true;
    for (size_t i = graph.num_ops(); i-- > 0;) {
      const ir::Op& op = graph.op(ir::OpId(i));
      if (op.kind == OpKind::kDetach) continue;
      if (std::none_of(op.results.begin(), op.results.end(), [&](ValueId v) { return below[v.index]; })) continue;
      for (ValueId operand : op.operands)
        if (operand.valid() && is_floating(graph.type(operand).dtype)) below[operand.index] = true;
    }
    std::vector<bool> found;
    for (const ir::Parameter& p : graph.parameters()) found.push_back(p.trainable && below[p.value.index]);
    return found;
  }

  void copy_op(ir::OpId id) {
    const ir::Op& op = from_.op(id);
    reader_ = &op;
    std::vector<ValueId> operands;
    for (ValueId operand : read_operands(op)) operands.push_back(operand.valid() ? moved(operand, &op) : operand);
    ir::Attrs attrs = op.attrs;
    if (ReplacedMask* mask = replaced_mask(op)) {
      const bool has_sink = op.operands.size() > 4;
      const ValueId sink = has_sink ? operands[3] : ValueId();
      operands.resize(3);
      if (has_sink || !mask->vectors.empty())
        operands.push_back(operand_of(*mask, op, from_.type(op.operands[0]).shape[0]));
      if (has_sink) operands.push_back(sink);
      auto& replaced = std::get<ir::SdpaAttrs>(attrs);
      replaced.is_causal = mask->causal;
      replaced.attends = mask->attends;
    }
    copy_.append_like(id, op.kind, std::move(attrs), std::move(operands));
  }

  // The value in the new graph; a constant is made at its first use, which `reader` is.
  ValueId moved(ValueId old, const ir::Op* reader = nullptr) {
    const ValueId v = resolve(old);
    if (!copy_.is_moved(v)) {
      const ir::Value& value = from_.value(v);
      if (is_constant(v) && value.kind == ir::ValueKind::kOpResult) make_constant(v);
      else if (is_constant(v) && reader != nullptr && is_of_one_number(v)) copy_.place(v, repeated(v, *reader));
      else if (is_constant(v)) copy_.place(v, add(value.name, *known_[v.index]));
      else if (value.kind == ir::ValueKind::kConstant) copy_.place(v, constant(value));
    }
    return copy_.moved(v);
  }
  ValueId constant(const ir::Value& value) {
    const ir::WeightSource& source = from_.constants()[value.payload].source;
    return source.range ? counted(value.type.shape[0], *source.range)
                        : to_.add_constant(value.name, value.type, source);
  }
  // Counted by the run, for the operator that is copied.
  ValueId counted(int64_t count, const ir::WeightSource::Range& range) {
    PIPER_CHECK(reader_ != nullptr, "a large range that no operator reads");
    ir::GraphBuilder b(to_, copy_.moved_scope(reader_->scope), reader_->prov);
    const ValueId steps = b.add1(OpKind::kExpand, {b.constant_i64({}, {range.step})}, ir::ExpandAttrs{{count}});
    const ValueId sums = b.add1(OpKind::kCumsum, {steps}, ir::DimAttrs{0});
    return b.add1(OpKind::kAdd, {sums, b.constant_i64({}, {range.start - range.step})});
  }

  // As of what operators make: an importer may have folded them, for one size of the batch and not for another.
  bool is_of_one_number(ValueId v) const {
    const ConstantTensor& t = *known_[v.index];
    return !t.type.shape.empty() && t.type.elements() > 1 && splat(t).has_value();
  }
  ValueId repeated(ValueId v, const ir::Op& reader) {
    const ValueId element = element_of(v);
    ir::GraphBuilder b(to_, copy_.moved_scope(reader.scope), reader.prov);
    return b.add1(OpKind::kExpand, {element}, ir::ExpandAttrs{known_[v.index]->type.shape});
  }
  ValueId element_of(ValueId v) {
    const ConstantTensor& t = *known_[v.index];
    auto first = std::make_shared<const std::vector<std::byte>>(one_element(t));
    return add(from_.value(v).name + ".element", {{t.type.dtype, {}}, std::move(first)});
  }

  // What repeats numbers stays a view of them. Whether it does must not hang on extents: the same model bound
  // to another batch has to keep the same values.
  void make_constant(ValueId v) {
    const ConstantTensor& t = *known_[v.index];
    const ir::OpId producer = from_.value(v).producer;
    const ir::Op& op = from_.op(producer);
    if (!t.type.shape.empty() && t.type.elements() > 0 && op.results.size() == 1) {
      if (t.type.elements() > 1 ? splat(t).has_value() : is_repeated(v)) {
        ir::ExpandAttrs attrs{t.type.shape};
        if (op.kind == OpKind::kExpand) attrs.samples = std::get<ir::ExpandAttrs>(op.attrs).samples;
        copy_.append_like(producer, OpKind::kExpand, std::move(attrs), {element_of(v)});
        return;
      }
      if (ir::may_be_view(op.kind) && is_repeated(v)) {
        copy_.append_like(producer, op.kind, op.attrs, {moved(op.operands[0])});
        return;
      }
    }
    if (const std::optional<ConstantTensor> part = repeated_part(t); part && part->is_stored()) {
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
      if (!ir::may_be_view(op.kind) || (op.kind == OpKind::kReshape && !keeps_axes(op))) return false;
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
  const ir::Op* reader_ = nullptr;  // what is being copied
  // By mask, is_causal, queries and keys; nullopt: the mask stays.
  std::map<std::tuple<uint32_t, bool, int64_t, int64_t>, std::optional<ReplacedMask>> masks_;
  std::vector<bool> live_;                              // [op]
  std::unordered_map<std::string, ValueId> constants_;  // type and bytes -> constant of to_
  std::map<std::pair<ir::ConstantData, std::string>, ValueId> constants_of_bytes_;
};

}  // namespace

ir::Graph fold(const ir::Graph& graph) { return Folder(graph).run(); }

}  // namespace piper::frontend
