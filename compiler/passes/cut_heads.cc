#include "compiler/passes/cut_heads.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/ir/copy_graph.h"
#include "schemas/base/check.h"
#include "schemas/plan/head_blocks.h"

namespace piper::passes {
namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using ir::ValueKind;

// A cross entropy and what makes its logits, where both can be one operator.
struct Found {
  OpId loss, product;
  std::vector<OpId> between;  // views and casts
  std::string why_not;        // "": they can
};

int64_t logits_bytes(const ir::TensorType& logits) { return logits.elements() * dtype_bytes(DType::kF32); }

class Finder {
 public:
  explicit Finder(const ir::Graph& graph) : graph_(graph), uses_(graph.uses()) {
    for (const ir::Graph::Output& output : graph.outputs) outputs_.push_back(output.value);
  }

  // None: the logits are not those of a product.
  std::optional<Found> find(OpId id) const {
    const Op& loss = graph_.op(id);
    if (loss.kind != OpKind::kCrossEntropySum) return std::nullopt;
    Found found{id, {}, {}, ""};
    const auto refuse = [&](const std::string& why) {
      if (found.why_not.empty()) found.why_not = why;
    };
    ValueId logits = loss.operands[0];
    const int64_t classes = graph_.type(logits).shape[1];
    if (loss.operands.size() > 3) refuse("places have parts of its classes");
    if (graph_.type(logits).shape.size() != 2) refuse("its classes are not the last axis");
    for (size_t casts = 0;;) {
      if (graph_.value(logits).kind != ValueKind::kOpResult) return std::nullopt;
      const OpId producer = graph_.value(logits).producer;
      const Op& op = graph_.op(producer);
      const bool read_elsewhere =
          uses_[logits.index].size() > 1 || std::count(outputs_.begin(), outputs_.end(), logits) > 0;
      if (read_elsewhere) refuse("others read its logits");
      if (op.phase != ir::Phase::kForward || op.chunk != loss.chunk) refuse("the product is in another region");
      if (op.kind == OpKind::kLinear) {
        found.product = producer;
        if (graph_.type(op.operands[0]).shape.size() < 2) refuse("it has no rows");
        return found;
      }
      if (op.kind == OpKind::kCast && casts == 0) ++casts;
      else if (op.kind == OpKind::kCast) refuse("its logits are converted twice");
      else if (op.kind != OpKind::kReshape || graph_.type(logits).shape.back() != classes ||
               graph_.type(op.operands[0]).shape.back() != classes)
        refuse("something is done with its logits in between");
      if (op.kind != OpKind::kCast && op.kind != OpKind::kReshape && op.kind != OpKind::kPermute &&
          op.kind != OpKind::kSlice && op.kind != OpKind::kMul && op.kind != OpKind::kAdd)
        return std::nullopt;
      found.between.push_back(producer);
      logits = op.operands[0];
    }
  }

 private:
  const ir::Graph& graph_;
  const ir::Uses uses_;
  std::vector<ValueId> outputs_;
};

// In how many blocks; 0: it stays as it is.
int64_t blocks_of(const ir::Head& head, const ir::TensorType& logits) {
  if (head.off) return 0;
  if (head.blocks > 0) return head.blocks;
  const int64_t bytes = logits_bytes(logits);
  return bytes > kWorthCutting ? (bytes + kBlockBytes - 1) / kBlockBytes : 0;
}

ir::Graph cut(const ir::Graph& from, const std::vector<std::optional<Found>>& heads,
              const std::vector<int64_t>& blocks) {
  ir::Graph to;
  ir::CopyGraph copy(from, to);
  std::vector<bool> gone(from.num_ops(), false);
  for (const std::optional<Found>& head : heads) {
    if (!head) continue;
    gone[head->product.index] = true;
    for (const OpId id : head->between) gone[id.index] = true;
  }
  for (size_t i = 0; i < from.num_ops(); ++i) {
    const OpId id(i);
    if (gone[i]) continue;
    if (!heads[i]) {
      copy.copy_op(id);
      continue;
    }
    const Op &loss = from.op(id), &product = from.op(heads[i]->product);
    const auto& attrs = std::get<ir::CrossEntropyAttrs>(loss.attrs);
    const ir::LinearCrossEntropyAttrs made{attrs.ignore_index, attrs.label_smoothing, from.type(loss.operands[0]).dtype,
                                           blocks[i]};
    const ValueId bias = product.operands.size() > 2 ? product.operands[2] : ValueId();
    const ValueId weight = loss.operands.size() > 2 ? loss.operands[2] : ValueId();
    std::vector<ValueId> operands;
    for (const ValueId v : {product.operands[0], product.operands[1], loss.operands[1], bias, weight})
      operands.push_back(copy.moved(v));
    while (!operands.back().valid()) operands.pop_back();
    const ir::TensorType& x = from.type(product.operands[0]);
    const int64_t rows = x.elements() / std::max<int64_t>(1, x.shape.back());
    const ir::TensorType work{
        DType::kF32,
        {plan::head_work_elements(plan::Kernel::kLinearCrossEntropy, rows, from.type(product.operands[1]).shape[0],
                                  blocks[i], x.dtype, made.logits)}};
    const OpId one = copy.append_like(id, OpKind::kLinearCrossEntropy, made, std::move(operands), {work});
    to.op(one).prov = to.provenance().derived("cut_heads", {product.prov, loss.prov});
  }
  copy.finish();
  return to;
}

}  // namespace

void cut_heads(ir::Module& module) {
  if (module.head.off) return;
  std::vector<std::pair<size_t, int64_t>> chosen;  // the number of a cross entropy among all, its blocks
  for (size_t v = 0; v < module.variants.size(); ++v) {
    ir::Graph& graph = module.variants[v].chunked.graph;
    const Finder finder(graph);
    std::vector<std::optional<Found>> heads(graph.num_ops());
    std::vector<int64_t> blocks(graph.num_ops(), 0);
    size_t losses = 0, cuts = 0;
    for (size_t i = 0; i < graph.num_ops(); ++i) {
      if (graph.op(OpId(i)).kind != OpKind::kCrossEntropySum) continue;
      const size_t loss = losses++;
      std::optional<Found> found = finder.find(OpId(i));
      if (!found || !found->why_not.empty()) continue;
      if (v == 0) {  // the largest pieces
        if (const int64_t n = blocks_of(module.head, graph.type(graph.op(OpId(i)).operands[0])); n > 0)
          chosen.emplace_back(loss, n);
      }
      const auto at = std::find_if(chosen.begin(), chosen.end(), [&](const auto& c) { return c.first == loss; });
      if (at == chosen.end()) continue;
      heads[i] = std::move(found);
      blocks[i] = at->second;
      ++cuts;
    }
    PIPER_CHECK(cuts == chosen.size(), "variants of the model have other heads");
    if (cuts > 0) graph = cut(graph, heads, blocks);
  }
}

std::vector<Head> find_heads(const ir::Module& module) {
  const ir::Graph& graph = module.graph();
  const Finder finder(graph);
  std::vector<Head> heads;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(OpId(i));
    if (op.kind == OpKind::kLinearCrossEntropy) {
      const ir::TensorType& target = graph.type(op.operands[2]);
      const int64_t classes = graph.type(op.operands[1]).shape[0];
      heads.push_back({op.prov, logits_bytes({DType::kF32, {target.elements(), classes}}),
                       graph.type(op.results[2]).bytes(), std::get<ir::LinearCrossEntropyAttrs>(op.attrs).blocks, ""});
    } else if (const std::optional<Found> found = finder.find(OpId(i))) {
      heads.push_back({op.prov, logits_bytes(graph.type(op.operands[0])), 0, 0, found->why_not});
    }
  }
  return heads;
}

}  // namespace piper::passes
