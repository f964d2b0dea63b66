// The constant evaluator: type inference first, then the function that the operator's row names.
#include <algorithm>
#include <memory>
#include <utility>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/frontend/fold/form_of_op.h"
#include "compiler/ir/attrs_text.h"
#include "compiler/ir/op_traits.h"

namespace piper::frontend {
namespace {

// What is larger is not written out.
constexpr int64_t kMostBytes = int64_t{1} << 28;
// What operators make and is larger is not stored in a plan: the run makes it.
constexpr int64_t kMostStoredBytes = int64_t{1} << 20;
// A result of more elements is a form, if it has one, or a table: masks of sequences, not the arithmetic of shapes.
constexpr int64_t kMostElements = int64_t{1} << 16;

eval::Evaluated run(const eval::Call& c) {
  switch (c.kind) {
#define PIPER_OP(enumerator, name, attrs, types, axes, precision, folding, derivative) \
  case ir::OpKind::enumerator: return eval::folding(c);
#include "compiler/ir/ops.def"
#undef PIPER_OP
  }
  return std::nullopt;
}

}  // namespace

struct ConstantTensor::Recipe {
  ir::OpKind kind;
  ir::Attrs attrs;
  std::vector<ConstantTensor> operands;
  ir::TensorType result;
  std::optional<ir::WeightSource::Range> range;  // instead of an operator
  mutable ir::ConstantData made;
};
namespace {

ir::ConstantData written_out(const ir::WeightSource::Range& range, const ir::TensorType& type) {
  eval::Buffer numbers(type);
  auto* const data = numbers.data<int64_t>();
  for (int64_t i = 0; i < type.elements(); ++i) data[i] = range.start + i * range.step;
  return numbers.done().data();
}

// For a form that reads nothing.
ConstantTensor written_out(const Form& form, const ir::TensorType& type) {
  eval::Buffer numbers(type);
  eval::with_type(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const data = numbers.data<T>();
    std::vector<int64_t> place(type.shape.size(), 0);
    for (int64_t i = 0; i < type.elements(); ++i) {
      data[i] =
          form->is_real() ? static_cast<T>(form::value_at(form, place)) : static_cast<T>(form::integer_at(form, place));
      for (size_t d = place.size(); d > 0; --d) {
        if (++place[d - 1] < type.shape[d - 1]) break;
        place[d - 1] = 0;
      }
    }
  });
  return numbers.done();
}

}  // namespace

const ir::ConstantData& ConstantTensor::data() const {
  if (data_ != nullptr || recipe_ == nullptr) return data_;
  if (recipe_->made == nullptr && recipe_->range) recipe_->made = written_out(*recipe_->range, recipe_->result);
  if (recipe_->made == nullptr) {
    const std::vector<ir::TensorType> results{recipe_->result};
    const auto made = run({recipe_->kind, recipe_->attrs, recipe_->operands, results});
    PIPER_CHECK(made.has_value() && made->size() == 1, "a form of an operator that is not evaluated");
    recipe_->made = (*made)[0].data();
  }
  return recipe_->made;
}
bool ConstantTensor::is_table() const { return data_ == nullptr && form_ == nullptr && recipe_ != nullptr; }
bool ConstantTensor::has_bytes() const { return data_ != nullptr || (recipe_ != nullptr && recipe_->made != nullptr); }
bool ConstantTensor::is_of_bytes() const {
  if (has_bytes()) return true;
  if (recipe_ == nullptr || type.bytes() > kMostBytes) return false;
  return std::all_of(recipe_->operands.begin(), recipe_->operands.end(),
                     [](const ConstantTensor& operand) { return operand.is_of_bytes(); });
}

bool ConstantTensor::is_stored() const {
  return data_ != nullptr || (is_of_bytes() && type.bytes() <= kMostStoredBytes);
}

std::optional<ConstantTensor> repeated_part(const ConstantTensor& tensor) {
  if (tensor.form() == nullptr) return std::nullopt;
  std::vector<size_t> axes;
  int64_t elements = tensor.type.elements();
  for (size_t d = 0; d < tensor.type.shape.size(); ++d)
    if (tensor.type.shape[d] > 1 && !form::depends_on(tensor.form(), d)) {
      axes.push_back(d);
      elements /= tensor.type.shape[d];
    }
  if (axes.empty() || elements <= kMostElements) return std::nullopt;
  return ConstantTensor::first_of(tensor, axes);
}

// For element-wise operators and expansions the first of their operands; so nothing is written that is not read.
std::optional<ConstantTensor> ConstantTensor::first_of(const ConstantTensor& tensor, const std::vector<size_t>& axes) {
  const auto made = [](ir::OpKind kind, const ir::Attrs& attrs, const std::vector<ConstantTensor>& operands) {
    const auto results = evaluate(kind, attrs, operands);
    return results ? std::optional<ConstantTensor>((*results)[0]) : std::nullopt;
  };
  const auto is_element_wise = [](ir::OpKind kind) {
    const ir::AxisRule rule = ir::axis_rule(kind);
    return rule == ir::AxisRule::kElement || rule == ir::AxisRule::kBroadcast;
  };
  const Recipe* const recipe = tensor.has_bytes() ? nullptr : tensor.recipe_.get();
  if (recipe != nullptr && !recipe->range && (is_element_wise(recipe->kind) || recipe->kind == ir::OpKind::kExpand)) {
    std::vector<ConstantTensor> operands;
    for (const ConstantTensor& operand : recipe->operands) {
      const size_t lead = tensor.type.shape.size() - operand.type.shape.size();
      std::vector<size_t> of_operand;
      for (const size_t d : axes)
        if (d >= lead && operand.type.shape[d - lead] > 1) of_operand.push_back(d - lead);
      const std::optional<ConstantTensor> first = first_of(operand, of_operand);
      if (!first) return std::nullopt;
      operands.push_back(*first);
    }
    if (recipe->kind != ir::OpKind::kExpand) return made(recipe->kind, recipe->attrs, operands);
    ir::ExpandAttrs attrs{tensor.type.shape};
    for (const size_t d : axes) attrs.shape[d] = 1;
    return made(recipe->kind, attrs, operands);
  }
  std::optional<ConstantTensor> first = tensor;
  for (const size_t d : axes)
    if (first) first = made(ir::OpKind::kSlice, ir::SliceAttrs{static_cast<int64_t>(d), 0, 1, 1}, {*first});
  return first;
}

bool ConstantTensor::are_made_alike(const ConstantTensor& a, const ConstantTensor& b) {
  if (!a.is_table() || !b.is_table()) return false;
  const Recipe &x = *a.recipe_, &y = *b.recipe_;
  return &x == &y || (x.kind == y.kind && ir::equal(x.attrs, y.attrs) &&
                      std::equal(x.operands.begin(), x.operands.end(), y.operands.begin(), y.operands.end(),
                                 [](const auto& p, const auto& q) { return same_elements(p, q); }));
}

bool same_elements(const ConstantTensor& a, const ConstantTensor& b) {
  if (!(a.type == b.type)) return false;
  if (form::equal(a.form(), b.form()) || ConstantTensor::are_made_alike(a, b)) return true;
  if (!a.is_of_bytes() || !b.is_of_bytes()) return false;
  const std::vector<std::byte>&x = *a.data(), &y = *b.data();
  return &x == &y || (x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0));
}

// Whether its extents may be those of the batch: nothing may hang on them.
bool ConstantTensor::may_have_samples() const {
  if (recipe_ == nullptr) return false;
  if (recipe_->range) return recipe_->range->may_be_of_batch;
  return recipe_->kind == ir::OpKind::kExpand || recipe_->kind == ir::OpKind::kFill ||
         std::any_of(recipe_->operands.begin(), recipe_->operands.end(),
                     [](const ConstantTensor& operand) { return operand.may_have_samples(); });
}

bool ConstantTensor::is_counted() const {
  if (data_ != nullptr || form_ == nullptr || recipe_ == nullptr) return false;
  if (recipe_->range) return !recipe_->range->may_be_of_batch;
  return type.dtype == DType::kI64 && !may_have_samples() &&
         std::any_of(recipe_->operands.begin(), recipe_->operands.end(),
                     [](const ConstantTensor& operand) { return operand.is_counted(); });
}

// Whether an operator makes a large tensor of floats of small ones, element by element or by copies.
bool ConstantTensor::makes_table(ir::OpKind kind, const ir::Attrs& attrs, const std::vector<ConstantTensor>& operands,
                                 const ir::TensorType& result) {
  if (!is_floating(result.dtype) || result.bytes() > kMostBytes) return false;
  if (result.shape.size() > 2 ? result.shape[0] != 1
                              : kind == ir::OpKind::kExpand || kind == ir::OpKind::kFill ||
                                    std::any_of(operands.begin(), operands.end(),
                                                [](const auto& operand) { return operand.may_have_samples(); }))
    return false;
  int64_t given = 0;
  for (const ConstantTensor& operand : operands) {
    if (!operand.is_of_bytes()) return false;
    if (!operand.is_table() && !operand.is_counted()) given += operand.type.bytes();
  }
  if (given > result.bytes() / 4) return false;
  if (is_view_or_copy(kind) || kind == ir::OpKind::kCat) return true;
  const ir::AxisRule rule = ir::axis_rule(kind);
  if (rule != ir::AxisRule::kElement && rule != ir::AxisRule::kBroadcast) return false;
  // One element says whether it knows the types.
  std::vector<ConstantTensor> elements;
  for (const ConstantTensor& operand : operands)
    elements.push_back({{operand.type.dtype, {}},
                        std::make_shared<const std::vector<std::byte>>(dtype_bytes(operand.type.dtype), std::byte{0})});
  const std::vector<ir::TensorType> element{{result.dtype, {}}};
  return run({kind, attrs, elements, element}).has_value();
}

std::optional<std::vector<ConstantTensor>> evaluate(ir::OpKind kind, const ir::Attrs& attrs,
                                                    const std::vector<ConstantTensor>& operands) {
  std::vector<const ir::TensorType*> types;
  for (const ConstantTensor& operand : operands) types.push_back(&operand.type);
  Result<std::vector<ir::TensorType>> results = ir::infer_types(kind, attrs, types);
  if (!results.ok()) return std::nullopt;
  if (results->size() == 1 && (*results)[0].elements() > kMostElements) {
    const ir::TensorType& type = (*results)[0];
    Form form = form_of(kind, attrs, operands, type);
    if (form != nullptr || ConstantTensor::makes_table(kind, attrs, operands, type)) {
      auto recipe =
          std::make_shared<const ConstantTensor::Recipe>(ConstantTensor::Recipe{kind, attrs, operands, type, {}, {}});
      return std::vector<ConstantTensor>{{type, std::move(form), std::move(recipe)}};
    }
  }
  // A few elements of a large form are made without the others.
  const bool of_large = std::any_of(operands.begin(), operands.end(), [](const ConstantTensor& operand) {
    return operand.form() != nullptr && !operand.has_bytes();
  });
  if (of_large && results->size() == 1 && (*results)[0].elements() <= kMostElements)
    if (const Form form = form_of(kind, attrs, operands, (*results)[0]); form != nullptr && !form->reads)
      return std::vector<ConstantTensor>{written_out(form, (*results)[0])};
  for (const ir::TensorType& type : *results)
    if (type.bytes() > kMostBytes) return std::nullopt;
  for (const ConstantTensor& operand : operands)
    if (!operand.is_of_bytes()) return std::nullopt;
  return run({kind, attrs, operands, *results});
}

std::optional<ConstantTensor> constant_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Value& v = graph.value(value);
  if (v.kind != ir::ValueKind::kConstant) return std::nullopt;
  const ir::WeightSource& source = graph.constants()[v.payload].source;
  if (source.range) {
    Form form = form::sum(source.range->start, {{source.range->step, form::axis(0, v.type.shape[0])}});
    if (form == nullptr || v.type.elements() <= kMostElements)
      return ConstantTensor{v.type, written_out(*source.range, v.type)};
    auto recipe = std::make_shared<const ConstantTensor::Recipe>(
        ConstantTensor::Recipe{ir::OpKind::kFill, {}, {}, v.type, source.range, {}});
    return ConstantTensor{v.type, std::move(form), std::move(recipe)};
  }
  if (!source.data || !source.permutation.empty()) return std::nullopt;
  if (static_cast<int64_t>(source.data->size()) != v.type.bytes()) return std::nullopt;
  return ConstantTensor{v.type, source.data};
}

}  // namespace piper::frontend
