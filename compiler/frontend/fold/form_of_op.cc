#include "compiler/frontend/fold/form_of_op.h"

#include <cmath>
#include <limits>

#include "compiler/frontend/fold/evaluator.h"
#include "compiler/ir/op_traits.h"

namespace piper::frontend {
namespace {

using ir::OpKind;
using ir::Shape;

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; }
bool is_whole(DType dtype) { return dtype == DType::kBool || dtype == DType::kI32 || dtype == DType::kI64; }

ConstantTensor scalar(DType dtype, double value) {
  eval::Buffer y({dtype, {}});
  eval::with_type(dtype, [&](auto zero) { *y.data<decltype(zero)>() = static_cast<decltype(zero)>(value); });
  return y.done();
}
Form form_of_element(DType dtype, double value) {
  if (is_float(dtype)) return std::isnan(value) ? nullptr : form::real(value);
  return form::number(static_cast<int64_t>(value));
}

// For what is broadcast from one shape to another: extents of 1 are read at 0.
std::vector<Form> broadcast_places(const Shape& from, const std::vector<Form>& at) {
  std::vector<Form> places;
  for (size_t d = 0; d < from.size(); ++d)
    places.push_back(from[d] == 1 ? form::number(0) : at[at.size() - from.size() + d]);
  return places;
}
std::vector<Form> axes_of(const Shape& shape) {
  std::vector<Form> axes;
  for (size_t d = 0; d < shape.size(); ++d) axes.push_back(form::axis(d, shape[d]));
  return axes;
}
Form broadcast(const Form& x, const Shape& from, const Shape& to) {
  return form::substituted(x, broadcast_places(from, axes_of(to)));
}
Form view(OpKind kind, const ir::Attrs& attrs, const Form& x, const Shape& from, const Shape& to) {
  if (x->is_number() || x->kind == FormNode::Kind::kReal) return x;
  const std::optional<std::vector<Form>> places = viewed_places(kind, attrs, from, to, axes_of(to));
  return places ? form::substituted(x, *places) : nullptr;
}

// An operator on each number of a selection of floats, and with each of another's.
template <class F>
Form of_each(const Form& x, const F& f) {
  if (x == nullptr) return nullptr;
  if (x->kind == FormNode::Kind::kReal) return f(x->real);
  if (x->kind != FormNode::Kind::kSelect) return nullptr;
  return form::select(x->operands[0], of_each(x->operands[1], f), of_each(x->operands[2], f));
}
Form on_floats(OpKind kind, const ir::Attrs& attrs, const std::vector<Form>& x, DType of) {
  const auto run = [&](std::vector<ConstantTensor> operands) -> Form {
    const auto made = evaluate(kind, attrs, operands);
    return made ? form_of((*made)[0]) : nullptr;
  };
  return of_each(x[0], [&](double a) -> Form {
    if (x.size() == 1) return run({scalar(of, a)});
    return of_each(x[1], [&](double b) { return run({scalar(of, a), scalar(of, b)}); });
  });
}

Form is_true(const Form& x) { return form::negation(form::is_zero(x)); }

Form on_integers(OpKind kind, const std::vector<Form>& x) {
  const auto difference = [&](size_t a, size_t b, int64_t more) { return form::sum(more, {{1, x[a]}, {-1, x[b]}}); };
  switch (kind) {
    case OpKind::kNeg: return form::sum(0, {{-1, x[0]}});
    case OpKind::kAbs: return x[0]->least >= 0 ? x[0] : nullptr;
    case OpKind::kLogicalNot: return form::is_zero(x[0]);
    case OpKind::kAdd: return form::sum(0, {{1, x[0]}, {1, x[1]}});
    case OpKind::kSub: return difference(0, 1, 0);
    case OpKind::kMul:
      if (x[0]->is_number()) return form::sum(0, {{x[0]->number, x[1]}});
      return x[1]->is_number() ? form::sum(0, {{x[1]->number, x[0]}}) : nullptr;
    case OpKind::kDiv: return x[1]->is_number() ? form::quotient(x[0], x[1]->number) : nullptr;
    case OpKind::kMaximum: return form::select(form::not_negative(difference(0, 1, 0)), x[0], x[1]);
    case OpKind::kMinimum: return form::select(form::not_negative(difference(0, 1, 0)), x[1], x[0]);
    case OpKind::kEq: return form::is_zero(difference(0, 1, 0));
    case OpKind::kNe: return form::negation(form::is_zero(difference(0, 1, 0)));
    case OpKind::kLe: return form::not_negative(difference(1, 0, 0));
    case OpKind::kLt: return form::not_negative(difference(1, 0, -1));
    case OpKind::kGe: return form::not_negative(difference(0, 1, 0));
    case OpKind::kGt: return form::not_negative(difference(0, 1, -1));
    case OpKind::kLogicalAnd: return form::all({is_true(x[0]), is_true(x[1])});
    case OpKind::kLogicalOr: return form::any({is_true(x[0]), is_true(x[1])});
    default: return nullptr;
  }
}

Form cast(const Form& x, DType from, DType to) {
  if (is_float(from)) return on_floats(OpKind::kCast, ir::CastAttrs{to}, {x}, from);
  if (to == DType::kBool) return is_true(x);
  if (!is_float(to)) return x;
  const auto as_float = [&](int64_t value) {
    return form::real(to == DType::kF32 ? static_cast<double>(static_cast<float>(value)) : static_cast<double>(value));
  };
  if (x->is_number()) return as_float(x->number);
  return x->is_predicate() ? form::select(x, as_float(1), as_float(0)) : nullptr;
}

// For parts of any functions.
Form apart(size_t dim, const std::vector<Form>& parts, const std::vector<ConstantTensor>& operands, const Shape& to) {
  std::vector<int64_t> extents;
  for (const ConstantTensor& operand : operands) extents.push_back(operand.type.shape[dim]);
  std::vector<Form> at = axes_of(to);
  const Form along = at[dim];
  return one_after_another(extents, along, [&](size_t i, const Form& place) {
    at[dim] = place;
    return form::substituted(parts[i], at);
  });
}
// For parts that mostly continue one function along the axis.
Form cat(size_t dim, const std::vector<Form>& parts, const std::vector<ConstantTensor>& operands, const Shape& to) {
  std::vector<Form> at = axes_of(to);
  Form whole;
  int64_t first = 0;  // place of the part
  bool one_place = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t extent = operands[i].type.shape[dim];
    if (extent == 0) continue;
    at[dim] = form::sum(-first, {{1, form::axis(dim, to[dim])}});
    const Form part = form::substituted(parts[i], at);
    if (part == nullptr) return nullptr;
    if (whole != nullptr && !form::equal(whole, part)) {
      // One place before it says as little as a point does of a line.
      at = axes_of(to);
      at[dim] = form::number(0);
      if (!one_place || !form::equal(form::substituted(whole, at), form::substituted(part, at)))
        return apart(dim, parts, operands, to);
    }
    one_place = first == 0 && extent == 1;
    whole = part;
    first += extent;
  }
  return whole;
}
// For what is the same along the axis.
Form running_sum(size_t dim, const Form& x, const Shape& shape) {
  if (x->is_real() || !x->is_number()) return nullptr;
  return form::sum(x->number, {{x->number, form::axis(dim, shape[dim])}});
}

// Whether arithmetic of the type has not wrapped.
bool holds(const Form& x, DType dtype) {
  if (x->is_real()) return is_float(dtype);
  if (dtype == DType::kBool) return x->is_predicate();
  return dtype == DType::kI64 || (dtype == DType::kI32 && x->least >= std::numeric_limits<int32_t>::min() &&
                                  x->most <= std::numeric_limits<int32_t>::max());
}

}  // namespace

Form form_of(const ConstantTensor& tensor) {
  if (tensor.form() != nullptr || tensor.is_table()) return tensor.form();
  const Shape& shape = tensor.type.shape;
  if (tensor.type.elements() == 0) return nullptr;
  Form form;
  eval::with_type(tensor.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* data = eval::elements<T>(tensor);
    if constexpr (std::is_floating_point_v<T>) {
      // Bits are compared: 0 and -0 are not one number.
      for (int64_t i = 1; i < tensor.type.elements(); ++i)
        // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
        if (std::memcmp(&data[i], &data[0], sizeof(T)) != 0) return;
      form = form_of_element(tensor.type.dtype, static_cast<double>(data[0]));
    } else {
      const Shape strides = ir::row_major_strides(shape);
      std::vector<FormNode::Term> terms;
      std::vector<int64_t> steps(shape.size(), 0);
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) continue;
        if (__builtin_sub_overflow(int64_t{data[strides[d]]}, int64_t{data[0]}, &steps[d])) return;
        terms.push_back({steps[d], form::axis(d, shape[d])});
      }
      const Form even = form::sum(data[0], std::move(terms));
      if (even == nullptr) return;
      // The last element shows most of what is uneven.
      int64_t last = data[0];
      for (size_t d = 0; d < shape.size(); ++d) last += steps[d] * (shape[d] - 1);
      bool same = data[tensor.type.elements() - 1] == last;
      if (!same) return;
      eval::for_each<1>(shape, {steps}, [&](int64_t i, const auto& at) { same = same && data[i] == data[0] + at[0]; });
      if (same) form = even;
    }
  });
  return form;
}

Form form_of(OpKind kind, const ir::Attrs& attrs, const std::vector<ConstantTensor>& operands,
             const ir::TensorType& result) {
  const DType to = result.dtype;
  if (result.elements() == 0 || (!is_float(to) && !is_whole(to))) return nullptr;
  if (kind == OpKind::kFill) {
    const double value = std::get<ir::FillAttrs>(attrs).value;
    return form_of_element(to, to == DType::kF32 ? static_cast<double>(static_cast<float>(value)) : value);
  }
  const bool views = is_view_or_copy(kind);
  const ir::AxisRule axes = ir::axis_rule(kind);
  const bool joins = kind == OpKind::kCat, sums = kind == OpKind::kCumsum;
  if (!views && !joins && !sums && axes != ir::AxisRule::kElement && axes != ir::AxisRule::kBroadcast) return nullptr;
  std::vector<Form> x;
  for (const ConstantTensor& operand : operands) {
    Form form = form_of(operand);
    if (form != nullptr && !views && !joins) form = broadcast(form, operand.type.shape, result.shape);
    if (form == nullptr) return nullptr;
    x.push_back(std::move(form));
  }
  if (x.empty()) return nullptr;
  if (views) return view(kind, attrs, x[0], operands[0].type.shape, result.shape);
  if (joins || sums) {
    const auto dim = static_cast<size_t>(std::get<ir::DimAttrs>(attrs).dim);
    const Form made = joins ? cat(dim, x, operands, result.shape) : running_sum(dim, x[0], result.shape);
    return made != nullptr && holds(made, to) ? made : nullptr;
  }
  return form_of_elements(kind, attrs, x, operands[0].type.dtype, to);
}

Form one_after_another(const std::vector<int64_t>& extents, const Form& place,
                       const std::function<Form(size_t part, const Form& place)>& form_of_part) {
  Form whole;
  int64_t end = 0;
  for (const int64_t extent : extents) end += extent;
  for (size_t i = extents.size(); i-- > 0;) {
    const int64_t first = end - extents[i];
    if (extents[i] > 0) {
      const Form part = form_of_part(i, extents[i] == 1 ? form::number(0) : form::sum(-first, {{1, place}}));
      if (part == nullptr) return nullptr;
      whole =
          whole == nullptr ? part : form::select(form::not_negative(form::sum(end - 1, {{-1, place}})), part, whole);
      if (whole == nullptr) return nullptr;
    }
    end = first;
  }
  return whole;
}

bool is_view_or_copy(OpKind kind) {
  for (OpKind view :
       {OpKind::kReshape, OpKind::kPermute, OpKind::kExpand, OpKind::kSlice, OpKind::kDetach, OpKind::kCopy})
    if (kind == view) return true;
  return false;
}

std::optional<std::vector<Form>> viewed_places(OpKind kind, const ir::Attrs& attrs, const Shape& from, const Shape& to,
                                               const std::vector<Form>& at) {
  std::vector<Form> places(from.size(), form::number(0));
  switch (kind) {
    case OpKind::kExpand: return broadcast_places(from, at);
    case OpKind::kReshape: {
      size_t of_result = 0;
      for (size_t d = 0; d < from.size(); ++d) {
        if (from[d] == 1) continue;
        while (of_result < to.size() && to[of_result] == 1) ++of_result;
        if (of_result == to.size() || to[of_result] != from[d]) return std::nullopt;
        places[d] = at[of_result++];
      }
      return places;
    }
    case OpKind::kPermute: {
      const auto& dims = std::get<ir::PermuteAttrs>(attrs).dims;
      for (size_t d = 0; d < dims.size(); ++d) places[static_cast<size_t>(dims[d])] = at[d];
      return places;
    }
    case OpKind::kSlice: {
      const auto& slice = std::get<ir::SliceAttrs>(attrs);
      places = at;
      const auto dim = static_cast<size_t>(slice.dim);
      places[dim] = form::sum(slice.start, {{slice.step, at[dim]}});
      return places;
    }
    default: return at;  // detach, copy
  }
}

Form form_of_elements(OpKind kind, const ir::Attrs& attrs, const std::vector<Form>& x, DType from, DType to) {
  Form made;
  if (kind == OpKind::kCast) made = cast(x[0], from, to);
  else if (kind == OpKind::kWhere) made = form::select(x[0], x[1], x[2]);
  else if (!is_float(from)) made = on_integers(kind, x);
  else if (x.size() <= 2) made = on_floats(kind, attrs, x, from);
  return made != nullptr && holds(made, to) ? made : nullptr;
}

}  // namespace piper::frontend
