// The walk goes from the mask to what it is made of, with the place that is read of each value. It ends at constants of
// a form, and at what does not depend on query and key both: that is a vector, and stays computed as it is. Whether a
// value is written out does not matter, so that one model bound to two batches has one form.
#include "compiler/frontend/fold/attention_mask.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "compiler/frontend/fold/form_of_op.h"
#include "compiler/frontend/fold/recognise_mask.h"
#include "compiler/ir/op_traits.h"

namespace piper::frontend {
namespace {

using ir::OpKind;
using ir::ValueId;

enum Axis : size_t { kBatch, kHead, kQuery, kKey };
// Masks are made by a few dozen operators.
constexpr int kMostVisits = 256;

struct Attending {
  Form where;             // null where another number than those two is added to scores
  bool finitely = false;  // a query that attends nowhere by such numbers does so everywhere
};
// For a mask with such elements.
Attending where_it_attends(const Form& element) {
  if (element == nullptr || !element->is_real()) return {element};
  if (element->kind == FormNode::Kind::kReal) {
    if (element->real == 0) return {form::number(1)};
    if (never_attends(element->real)) return {form::number(0), std::isfinite(element->real)};
    return {};
  }
  const Form& p = element->operands[0];
  const Attending then = where_it_attends(element->operands[1]), otherwise = where_it_attends(element->operands[2]);
  if (then.where == nullptr || otherwise.where == nullptr) return {};
  return {form::any({form::all({p, then.where}), form::all({form::negation(p), otherwise.where})}),
          then.finitely || otherwise.finitely};
}

class MaskWalk {
 public:
  MaskWalk(const KnownValues& known, const Scores& scores) : known_(known), scores_(scores) {}

  std::optional<AttentionMask> run(ValueId mask) {
    const std::vector<int64_t> extents{scores_.batch, scores_.heads, scores_.queries, scores_.keys};
    const std::vector<int64_t>& shape = known_.graph.type(mask).shape;
    if (shape.size() > extents.size()) return std::nullopt;
    Places at;
    for (size_t d = 0; d < shape.size(); ++d) {
      const size_t axis = d + extents.size() - shape.size();
      at.push_back(shape[d] == 1 ? form::number(0) : form::axis(axis, extents[axis]));
    }
    const auto [where, finitely] = where_it_attends(form_of_value(mask, at));
    if (where == nullptr || form::depends_on(where, kBatch) || form::depends_on(where, kHead)) return std::nullopt;
    const Form none = form::number(0), query = form::axis(0, scores_.queries);
    if (finitely && !(scores_.queries <= scores_.keys && is_true(form::substituted(where, {none, none, query, query}))))
      return std::nullopt;
    return finished(form::substituted(where, {none, none, query, form::axis(1, scores_.keys)}));
  }

 private:
  static bool is_true(const Form& x) { return x->is_number() && x->number == 1; }
  using Places = std::vector<Form>;  // one for each axis of a value: forms of the axes of the scores

  Form form_of_value(ValueId v, const Places& at) {
    v = known_.same(v);
    if (++visits_ > kMostVisits || std::count(at.begin(), at.end(), nullptr) > 0) return nullptr;
    const ir::TensorType& type = known_.graph.type(v);
    if (const std::optional<ConstantTensor>& constant = known_.constant(v))
      if (Form form = form_of(*constant); form != nullptr) return form::substituted(form, at);
    // Two views of a vector are one vector.
    if (const ir::Op* view = view_of(v)) {
      const std::optional<Places> places =
          viewed_places(view->kind, view->attrs, shape(view->operands[0]), type.shape, at);
      if (places)
        if (Form form = form_of_value(view->operands[0], *places); form != nullptr) return form;
    }
    const bool is_made = known_.graph.value(v).kind == ir::ValueKind::kOpResult;
    const auto form_of_made = [&] { return form_of_result(known_.graph.op(known_.graph.value(v).producer), type, at); };
    const bool of_query = depends(at, kQuery), of_key = depends(at, kKey);
    if (!(of_query && of_key) && type.dtype != DType::kF32 && type.dtype != DType::kF64) {
      // What is known is read only where it is no arithmetic of places.
      if (is_made && known_.constant(v))
        if (Form form = form_of_made(); form != nullptr && !form->reads) return form;
      if (Form element = element_of_vector(v, at); element != nullptr) return element;
    }
    return is_made ? form_of_made() : nullptr;
  }

  Form form_of_result(const ir::Op& op, const ir::TensorType& type, const Places& at) {
    if (op.phase != ir::Phase::kForward || op.results.size() != 1) return nullptr;
    if (op.kind == OpKind::kCat) return form_of_parts(op, at);
    const ir::AxisRule rule = ir::axis_rule(op.kind);
    if (rule != ir::AxisRule::kElement && rule != ir::AxisRule::kBroadcast) return nullptr;
    std::vector<Form> operands;
    for (const ValueId operand : op.operands) {
      if (!operand.valid()) return nullptr;
      const std::vector<int64_t>& from = shape(operand);
      Places of_operand;
      for (size_t d = 0; d < from.size(); ++d)
        of_operand.push_back(from[d] == 1 ? form::number(0) : at[d + at.size() - from.size()]);
      operands.push_back(form_of_value(operand, of_operand));
      if (operands.back() == nullptr) return nullptr;
    }
    return form_of_elements(op.kind, op.attrs, operands, known_.graph.type(op.operands[0]).dtype, type.dtype);
  }

  // For parts one after another. Vectors end where their part does, so parts that read them have no form.
  Form form_of_parts(const ir::Op& cat, const Places& at) {
    const auto dim = static_cast<size_t>(std::get<ir::DimAttrs>(cat.attrs).dim);
    std::vector<int64_t> extents;
    for (const ValueId part : cat.operands) extents.push_back(shape(part)[dim]);
    return one_after_another(extents, at[dim], [&](size_t i, const Form& place) -> Form {
      Places of_part = at;
      of_part[dim] = place;
      const Form part = form_of_value(cat.operands[i], of_part);
      return part == nullptr || part->reads ? nullptr : part;
    });
  }

  const ir::Op* view_of(ValueId v) const {
    if (known_.graph.value(v).kind != ir::ValueKind::kOpResult) return nullptr;
    const ir::Op& op = known_.graph.op(known_.graph.value(v).producer);
    return op.phase == ir::Phase::kForward && is_view_or_copy(op.kind) ? &op : nullptr;
  }

  // An element of a value that is a vector for each sample, or one vector.
  Form element_of_vector(ValueId v, const Places& at) {
    const std::vector<int64_t>& extents = shape(v);
    MaskVector vector{v, false};
    Form place;
    for (size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] == 1) continue;
      const bool is_batch = place == nullptr && !vector.batched && extents[d] == scores_.batch &&
                            form::equal(at[d], form::axis(kBatch, scores_.batch));
      if (is_batch) vector.batched = true;
      else if (place != nullptr || form::depends_on(at[d], kBatch) || form::depends_on(at[d], kHead)) return nullptr;
      else place = at[d];
    }
    vectors_.insert_or_assign(v.index, vector);
    return form::read(v.index, place == nullptr ? form::number(0) : place, known_.graph.type(v).dtype == DType::kBool);
  }

  std::optional<AttentionMask> finished(const Form& where) const {
    if (where == nullptr || !where->is_predicate()) return std::nullopt;
    std::set<size_t> read;
    collect(where, read);
    AttentionMask mask;
    std::vector<size_t> numbers(read.empty() ? 0 : *read.rbegin() + 1);
    for (const size_t v : read) {
      numbers[v] = mask.vectors.size();
      mask.vectors.push_back(vectors_.at(static_cast<uint32_t>(v)));
      const int64_t places = places_of(mask.vectors.back());
      if (mask.places > 1 && places > 1 && places != mask.places) return std::nullopt;
      mask.places = std::max(mask.places, places);
    }
    mask.where = read.empty() ? where : form::renumbered(where, numbers);
    return mask;
  }
  int64_t places_of(const MaskVector& vector) const {
    const int64_t elements = known_.graph.type(vector.value).elements();
    return vector.batched ? elements / scores_.batch : elements;
  }
  static void collect(const Form& x, std::set<size_t>& read) {
    if (x->kind == FormNode::Kind::kRead) read.insert(static_cast<size_t>(x->number));
    for (const Form& operand : x->operands) collect(operand, read);
    for (const FormNode::Term& term : x->terms) collect(term.form, read);
  }

  const std::vector<int64_t>& shape(ValueId v) const { return known_.graph.type(v).shape; }
  static bool depends(const Places& at, size_t axis) {
    return std::any_of(at.begin(), at.end(), [&](const Form& place) { return form::depends_on(place, axis); });
  }

  const KnownValues& known_;
  const Scores scores_;
  std::map<uint32_t, MaskVector> vectors_;  // by value
  int visits_ = 0;
};

}  // namespace

std::optional<AttentionMask> attention_mask(const KnownValues& known, ValueId mask, const Scores& scores) {
  return MaskWalk(known, scores).run(mask);
}

}  // namespace piper::frontend
