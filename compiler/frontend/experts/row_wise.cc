#include "compiler/frontend/experts/row_wise.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/axis_map.h"
#include "compiler/ir/op_traits.h"
#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"

namespace piper::frontend::experts {
namespace {

using ir::AxisRule;
using ir::Shape;

bool same_prefix(const Shape& a, const Shape& b, size_t prefix) {
  return a.size() >= prefix && b.size() >= prefix &&
         std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(prefix), b.begin());
}

// The prefix of `to`, a reshape of a value with rows in `prefix` axes of `from`; 0 where rows are cut or merged.
size_t reshaped_prefix(const Shape& from, size_t prefix, const Shape& to) {
  const int64_t rows = ir::elements_before(from, prefix);
  int64_t reached = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    reached *= to[i];
    if (reached == rows) return i + 1;
  }
  return 0;
}

bool all_behind(const Shape& dims, size_t prefix) {
  return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d >= static_cast<int64_t>(prefix); });
}

// Whether the leading axes of operand 0 are those of the result, each by itself.
bool keeps_rows(const ir::Graph& graph, const ir::Op& op, size_t prefix) {
  const ir::AxisMap axes(graph, op);
  for (size_t d = 0; d < prefix; ++d) {
    const ir::OpAxis* axis = axes.of_operand(0, static_cast<int64_t>(d));
    const ir::AxisPlace* to = axis == nullptr ? nullptr : axis->in_result(0);
    if (to == nullptr || axis->role != ir::AxisRole::kEach || axis->operands[0].repeats ||
        to->axis != static_cast<int64_t>(d))
      return false;
  }
  return true;
}

Shape without_prefix(const Shape& shape, size_t prefix, int64_t num_rows) {
  Shape out(shape.begin() + static_cast<std::ptrdiff_t>(prefix), shape.end());
  out.insert(out.begin(), num_rows);
  return out;
}

// Element-wise operators, and cat: operands are aligned at the last axis.
std::optional<RowWise> aligned(const ir::Graph& graph, const ir::Op& op, const std::vector<size_t>& rows) {
  const Shape& y = graph.type(op.results[0]).shape;
  RowWise out;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (rows[i] == 0) continue;
    const Shape& x = graph.type(op.operands[i]).shape;
    if (x.size() != y.size() || !same_prefix(x, y, rows[i]) || (out.prefix != 0 && out.prefix != rows[i]))
      return std::nullopt;
    out.prefix = rows[i];
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Role role = Role::kShared;
    if (op.operands[i].valid()) {
      const Shape& x = graph.type(op.operands[i]).shape;
      const size_t missing = y.size() - x.size();
      bool row_axes = false;
      for (size_t d = missing; d < out.prefix; ++d) row_axes = row_axes || x[d - missing] != 1;
      role = rows[i] != 0 ? Role::kRows : row_axes ? Role::kOther : Role::kShared;
      // An operand of all rows that no product has made.
      if (role == Role::kOther && missing == 0 && same_prefix(x, y, out.prefix)) role = Role::kRows;
    }
    out.roles.push_back(role);
  }
  return out;
}

}  // namespace

std::optional<RowWise> row_wise(const ir::Graph& graph, const ir::Op& op, const std::vector<size_t>& rows) {
  if (op.results.empty() || op.operands.empty()) return std::nullopt;
  const AxisRule rule = ir::axis_rule(op.kind);
  if (rule == AxisRule::kElement || rule == AxisRule::kBroadcast) return aligned(graph, op, rows);
  if (rule == AxisRule::kCat) {
    std::optional<RowWise> out = aligned(graph, op, rows);
    const bool fits = out && all_behind({std::get<ir::DimAttrs>(op.attrs).dim}, out->prefix) &&
                      std::all_of(out->roles.begin(), out->roles.end(), [](Role r) { return r == Role::kRows; });
    return fits ? out : std::nullopt;
  }
  // The others have rows in operand 0 alone.
  for (size_t i = 1; i < rows.size(); ++i)
    if (rows[i] != 0) return std::nullopt;
  const size_t prefix = rows[0];
  const Shape &x = graph.type(op.operands[0]).shape, &y = graph.type(op.results[0]).shape;
  RowWise out{prefix, std::vector<Role>(op.operands.size(), Role::kShared)};
  out.roles[0] = Role::kRows;
  bool fits = false;
  switch (rule) {
    case AxisRule::kReshape:
      out.prefix = reshaped_prefix(x, prefix, y);
      fits = out.prefix != 0;
      break;
    case AxisRule::kPermute:
    case AxisRule::kExpand:
    case AxisRule::kSlice:
    case AxisRule::kReduce:
    case AxisRule::kScan:
    case AxisRule::kLinear:
    case AxisRule::kRowNorm: fits = keeps_rows(graph, op, prefix); break;
    // Not met between the products of experts: taken for operators that mix rows.
    default: break;
  }
  return fits ? std::optional<RowWise>(std::move(out)) : std::nullopt;
}

ir::Attrs merged_attrs(const ir::Graph& graph, const ir::Op& op, size_t prefix, size_t operand_prefix,
                       int64_t num_rows) {
  ir::Attrs attrs = op.attrs;
  const int64_t shift = static_cast<int64_t>(operand_prefix) - 1;
  switch (ir::axis_rule(op.kind)) {
    case AxisRule::kReshape:
      std::get<ir::ReshapeAttrs>(attrs).shape = without_prefix(graph.type(op.results[0]).shape, prefix, num_rows);
      break;
    case AxisRule::kExpand:
      std::get<ir::ExpandAttrs>(attrs).shape = without_prefix(graph.type(op.results[0]).shape, prefix, num_rows);
      break;
    case AxisRule::kPermute: {
      Shape& dims = std::get<ir::PermuteAttrs>(attrs).dims;
      dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(operand_prefix));
      for (int64_t& d : dims) d -= shift;
      dims.insert(dims.begin(), 0);
      break;
    }
    case AxisRule::kSlice: std::get<ir::SliceAttrs>(attrs).dim -= shift; break;
    case AxisRule::kReduce:
      for (int64_t& d : std::get<ir::ReduceAttrs>(attrs).dims) d -= shift;
      break;
    case AxisRule::kCat:
    case AxisRule::kScan: std::get<ir::DimAttrs>(attrs).dim -= shift; break;
    case AxisRule::kElement:
    case AxisRule::kBroadcast:
    case AxisRule::kLinear:
    case AxisRule::kRowNorm: break;  // no attribute names an axis of the result
    default: PIPER_CHECK(false, "row_wise() refuses ", ir::op_name(op.kind));
  }
  return attrs;
}

}  // namespace piper::frontend::experts
