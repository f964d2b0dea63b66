#include "compiler/emit/layout.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/op_traits.h"
#include "compiler/ir/shapes.h"

namespace piper::emit {
namespace {

using ir::Layout;
using ir::OpKind;

// Strides of `to` over the storage of (from, strides), or nothing where no strides express it.
// Walks both shapes from the last axis, matching groups of axes that are dense in memory.
std::optional<std::vector<int64_t>> reshape_strides(const std::vector<int64_t>& from,
                                                    const std::vector<int64_t>& strides,
                                                    const std::vector<int64_t>& to) {
  std::vector<int64_t> result(to.size(), 1);
  for (int64_t extent : from)
    if (extent == 0) return ir::row_major_strides(to);
  int64_t view_axis = static_cast<int64_t>(to.size()) - 1;
  int64_t base = from.empty() ? 1 : strides.back();
  int64_t in_chunk = 1, out_chunk = 1;
  for (int64_t axis = static_cast<int64_t>(from.size()) - 1; axis >= 0; --axis) {
    in_chunk *= from[axis];
    const bool group_ends = axis == 0 || (from[axis - 1] != 1 && strides[axis - 1] != in_chunk * base);
    if (!group_ends) continue;
    while (view_axis >= 0 && (out_chunk < in_chunk || to[view_axis] == 1)) {
      result[view_axis] = out_chunk * base;
      out_chunk *= to[view_axis];
      --view_axis;
    }
    if (out_chunk != in_chunk) return std::nullopt;
    if (axis > 0) {
      base = strides[axis - 1];
      in_chunk = out_chunk = 1;
    }
  }
  for (; view_axis >= 0; --view_axis) {
    if (to[view_axis] != 1) return std::nullopt;
    result[view_axis] = 1;
  }
  return result;
}

std::vector<int64_t> root_strides(const ir::Graph& graph, ir::ValueId id) {
  const ir::Value& value = graph.value(id);
  const std::vector<int64_t>& shape = value.type.shape;
  if (value.kind == ir::ValueKind::kOpResult && shape.size() == 4) {
    const OpKind kind = graph.op(value.producer).kind;
    const bool heads_inside = ((kind == OpKind::kSdpa || kind == OpKind::kAttentionSink) && value.result_index == 0) ||
                              kind == OpKind::kSdpaBackward;
    if (heads_inside) {
      const int64_t heads = shape[1], rows = shape[2], width = shape[3];
      return {rows * heads * width, width, heads * width, 1};
    }
  }
  return ir::row_major_strides(shape);
}

// Whether every op that reads `value` is of the same chunk as `op`.
bool read_in_own_chunk_only(const ir::Graph& graph, const ir::Uses& uses, ir::OpId op) {
  for (ir::OpId user : uses[graph.op(op).results[0].index])
    if (graph.op(user).chunk != graph.op(op).chunk) return false;
  return true;
}

// Whether a view of a number of the step, `root`, is read by another chunk, which has no such number.
bool leaves_with_step_value(const ir::Graph& graph, const ir::Uses& uses, ir::ValueId root, ir::OpId op) {
  const ir::Value& value = graph.value(root);
  return value.kind == ir::ValueKind::kOpResult && graph.op(value.producer).phase == ir::Phase::kCountFinish &&
         graph.op(op).phase != ir::Phase::kCountFinish && !read_in_own_chunk_only(graph, uses, op);
}

// What ranks send each other lies in one piece: parts are ranges of bytes.
bool is_exchanged(const ir::Graph& graph, const ir::Uses& uses, ir::ValueId value) {
  for (ir::OpId user : uses[value.index]) {
    const ir::Op& op = graph.op(user);
    if (ir::is_communication(op.kind)) return true;
    if (op.kind == OpKind::kEnter && is_exchanged(graph, uses, op.results[0])) return true;
  }
  return false;
}

// Whether a reduce_scatter alone sends a value, whose parts then are ranges of what it is a view of.
bool is_scattered(const ir::Graph& graph, const ir::Uses& uses, ir::ValueId value) {
  return !uses[value.index].empty() &&
         std::all_of(uses[value.index].begin(), uses[value.index].end(),
                     [&](ir::OpId user) { return graph.op(user).kind == OpKind::kReduceScatter; });
}

// All elements of what a program makes, in their order.
bool is_in_one_piece(const ir::Graph& graph, const Layout& view, const ir::TensorType& type) {
  const std::vector<int64_t> strides = ir::row_major_strides(type.shape);
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (type.shape[axis] != 1 && view.strides[axis] != strides[axis]) return false;
  return view.offset == 0 && graph.value(view.root).kind == ir::ValueKind::kOpResult &&
         graph.type(view.root).bytes() == type.bytes();
}

}  // namespace

std::vector<Layout> lay_out(const ir::Graph& graph, const std::vector<Layout>* like) {
  std::vector<Layout> layouts(graph.num_values());
  const auto uses = graph.uses();
  auto make_root = [&](ir::ValueId id) { layouts[id.index] = {id, 0, root_strides(graph, id)}; };
  for (size_t i = 0; i < graph.num_values(); ++i)
    if (graph.value(ir::ValueId(i)).kind != ir::ValueKind::kOpResult) make_root(ir::ValueId(i));
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    for (ir::ValueId result : op.results) make_root(result);
    if (op.results.size() != 1 || op.operands.empty()) continue;
    const ir::ValueId in = op.operands[0], out = op.results[0];
    const std::vector<int64_t>& shape = graph.type(out).shape;
    const Layout& source = layouts[in.index];
    if (op.kind == OpKind::kEnter) {  // its chunk has no program that could copy
      layouts[out.index] = source;
      continue;
    }
    if (op.kind == OpKind::kAllReduce) layouts[out.index].strides = source.strides;  // an element there is one here
    if (op.kind == OpKind::kAllGather) {                                             // each part is as it was sent
      layouts[out.index].strides = source.strides;
      layouts[out.index].strides.insert(layouts[out.index].strides.begin(), ir::elements(graph.type(in).shape));
    }
    const bool exchanged = is_exchanged(graph, uses, out);
    const bool is_root = like != nullptr && out.index < like->size() && (*like)[out.index].root == out;
    if (exchanged && (is_root || !is_scattered(graph, uses, out))) continue;
    if (graph.made_by(in, OpKind::kStepSum) != nullptr) continue;
    if (leaves_with_step_value(graph, uses, source.root, ir::OpId(i))) continue;
    if (op.kind == OpKind::kReshape && is_root) continue;
    switch (op.kind) {
      case OpKind::kDetach: layouts[out.index] = source; break;
      case OpKind::kPermute: {
        Layout view{source.root, source.offset, {}};
        for (int64_t dim : std::get<ir::PermuteAttrs>(op.attrs).dims) view.strides.push_back(source.strides[dim]);
        layouts[out.index] = std::move(view);
        break;
      }
      case OpKind::kExpand: {
        const std::vector<int64_t>& from = graph.type(in).shape;
        layouts[out.index] = {source.root, source.offset, ir::broadcast_strides(from, source.strides, shape)};
        break;
      }
      case OpKind::kSlice: {
        if (!read_in_own_chunk_only(graph, uses, ir::OpId(i))) break;
        const auto& slice = std::get<ir::SliceAttrs>(op.attrs);
        Layout view = source;
        view.offset += slice.start * view.strides[slice.dim];
        view.strides[slice.dim] *= slice.step;
        layouts[out.index] = std::move(view);
        break;
      }
      case OpKind::kReshape: {
        auto strides = reshape_strides(graph.type(in).shape, source.strides, shape);
        if (strides) layouts[out.index] = {source.root, source.offset, std::move(*strides)};
        break;
      }
      default: break;
    }
    if (exchanged && !is_in_one_piece(graph, layouts[out.index], graph.type(out))) make_root(out);
  }
  return layouts;
}

bool is_view(const ir::Graph& graph, const std::vector<Layout>& layouts, ir::OpId op) {
  const ir::Op& o = graph.op(op);
  return o.results.size() == 1 && layouts[o.results[0].index].root != o.results[0];
}

}  // namespace piper::emit
