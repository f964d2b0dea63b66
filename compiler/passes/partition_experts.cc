#include "compiler/passes/partition_experts.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/passes/cut_at_exchanges.h"
#include "compiler/passes/exchange_tokens.h"
#include "compiler/passes/find_expert_parts.h"
#include "schemas/base/check.h"

namespace piper::passes {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using Kind = ExpertTransfer::Kind;
using Shape = std::vector<int64_t>;

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// A part and the directive that partitions it.
struct Assigned {
  ExpertPart part;
  int32_t shard = 0;
  int64_t devices = 1;
};

class Partitioner {
 public:
  Partitioner(ir::ChunkedGraph& chunked, const std::vector<ShardedChunks>& shards, diag::Diagnostics& diags)
      : chunked_(chunked), graph_(chunked.graph), shards_(shards), diags_(diags) {}

  Result<std::vector<ir::ChunkId>> run() {
    marks_.shard.assign(chunked_.chunks.size(), -1);
    PIPER_RETURN_IF_ERROR(find());
    for (const ShardedChunks& s : shards_) {
      chunked_.shards.push_back(s.shard);
      provs_.push_back(graph_.provenance().directive({"shard", diags_.place(s.shard.span)}));
    }
    rewrite();
    redirect();
    return cut_at_exchanges(chunked_, marks_);
  }

 private:
  // ---------------------------------------------------------------- check
  Status find() {
    const ExpertFinder finder(graph_, chunked_.chunks.size());
    same_for_all_ = finder.same_for_all();
    for (size_t s = 0; s < shards_.size(); ++s) {
      const ir::ExpertShard& shard = shards_[s].shard;
      const int64_t devices = static_cast<int64_t>(shard.groups.at(0).size());
      std::vector<std::pair<ir::TagSet, bool>> regions;  // -> it has experts
      for (ir::ChunkId chunk : shards_[s].chunks) {
        PIPER_ASSIGN(std::vector<ExpertPart> parts, finder.find(chunk, shard.span, diags_));
        const ir::TagSet& tags = chunked_.chunks[chunk.index].tags;
        auto region = std::find_if(regions.begin(), regions.end(), [&](const auto& r) { return r.first == tags; });
        if (region == regions.end()) region = regions.insert(regions.end(), {tags, false});
        region->second = region->second || !parts.empty();
        for (ExpertPart& part : parts) {
          PIPER_RETURN_IF_ERROR(check_division(part, devices, shard));
          if (devices > 1) assigned_.push_back({std::move(part), static_cast<int32_t>(s), devices});
        }
      }
      for (const auto& [tags, has_experts] : regions)
        if (!has_experts) return no_experts(shards_[s], tags);
    }
    return {};
  }

  Status check_division(const ExpertPart& part, int64_t devices, const ir::ExpertShard& shard) {
    if (part.experts % devices == 0) return {};
    std::string good;
    for (int64_t d = 1; d <= part.experts; ++d)
      if (part.experts % d == 0) good += (good.empty() ? "" : ", ") + std::to_string(d);
    auto error = diags_.error("P0241", shard.span);
    error << chunked_.chunks[part.chunk.index].name << " has " << part.experts << " experts, which " << devices << " devices cannot share equally";
    error.note("the experts are the first axis of '" + graph_.value(part.weights[0]).name + "'");
    error.help("use groups of " + good + " devices");
    return error;
  }

  Status no_experts(const ShardedChunks& sharded, const ir::TagSet& tags) {
    std::string name, parameters;
    std::set<uint32_t> seen;
    for (ir::ChunkId chunk : sharded.chunks) {
      if (!(chunked_.chunks[chunk.index].tags == tags)) continue;
      if (name.empty()) name = chunked_.chunks[chunk.index].name;
      for (size_t i = 0; i < graph_.num_ops(); ++i) {
        if (graph_.op(OpId(i)).chunk != chunk) continue;
        for (ValueId v : graph_.op(OpId(i)).operands)
          if (v.valid() && graph_.value(v).kind == ir::ValueKind::kParameter && seen.insert(v.index).second && seen.size() <= 8)
            parameters += (parameters.empty() ? "" : ", ") + graph_.value(v).name + " " + text_of(graph_.type(v).shape);
      }
    }
    auto error = diags_.error("P0225", sharded.shard.span);
    error << name << " has no weights that are indexed by expert";
    error.note(parameters.empty() ? "it reads no parameters" : "its parameters: " + parameters + (seen.size() > 8 ? ", ..." : ""));
    error.help("experts stand in one parameter [experts, ..] of at least three axes, which products use expert by expert");
    return error;
  }

  // ---------------------------------------------------------------- act
  // Ops of all parts in op order, so that what one part makes is there when another reads it.
  void rewrite() {
    std::vector<std::pair<const PartOp*, size_t>> ops;
    int32_t units = 0;
    for (size_t a = 0; a < assigned_.size(); ++a) {
      const ExpertPart& part = assigned_[a].part;
      unit_base_.push_back(units);
      for (const PartOp& op : part.ops) {
        ops.push_back({&op, a});
        units = std::max(units, unit_base_.back() + op.component + 1);
      }
      marks_.shard[part.chunk.index] = assigned_[a].shard;
      for (ValueId w : part.weights) cut_weight(w, assigned_[a]);
      remark(assigned_[a]);
    }
    std::sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.first->op < b.first->op; });
    dropped_.assign(graph_.num_ops(), false);
    for (const auto& [op, a] : ops) rewrite_op(*op, assigned_[a], unit_base_[a] + op->component);
  }

  void cut_weight(ValueId w, const Assigned& assigned) {
    ir::Value& value = graph_.value(w);
    value.type.shape[0] /= assigned.devices;
    ir::Parameter& parameter = graph_.parameters()[value.payload];
    parameter.shards = static_cast<int32_t>(assigned.devices);
    parameter.shard = assigned.shard;
  }

  void remark(const Assigned& assigned) {
    std::string names;
    for (ValueId w : assigned.part.weights) names += (names.empty() ? "" : ", ") + graph_.value(w).name;
    diags_.remark(chunked_.chunks[assigned.part.chunk.index].name + ": " + std::to_string(assigned.part.experts) + " experts over " +
                      std::to_string(assigned.devices) + " devices; cut are " + names,
                  shards_[static_cast<size_t>(assigned.shard)].shard.span);
  }

  ir::GraphBuilder builder(const ir::Op& op, const Assigned& assigned) {
    const ir::ProvId prov = graph_.provenance().derived("partition_experts", {op.prov, provs_[static_cast<size_t>(assigned.shard)]});
    ir::GraphBuilder b(graph_, op.scope, prov);
    b.set_chunk(assigned.part.chunk);
    return b;
  }
  ValueId resolve(ValueId v) const {
    const auto found = replaced_.find(v.index);
    return found == replaced_.end() ? v : found->second;
  }

  // Attributes that hold the shape of the result take that on a rank.
  ir::Attrs local_attrs(const ir::Op& op, const ExpertMark& mark, int64_t devices) const {
    ir::Attrs attrs = op.attrs;
    const Shape made = local_shape(graph_.type(op.results[0]).shape, mark, devices);
    if (auto* reshape = std::get_if<ir::ReshapeAttrs>(&attrs)) reshape->shape = made;
    if (auto* expand = std::get_if<ir::ExpandAttrs>(&attrs)) expand->shape = made;
    return attrs;
  }

  void rewrite_op(const PartOp& part_op, const Assigned& assigned, int32_t unit) {
    const ir::Op op = graph_.op(part_op.op);  // a copy: appending ops moves the graph's list
    ir::GraphBuilder b = builder(op, assigned);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId v = op.operands[i];
      if (!v.valid()) operands.push_back(v);
      else if (assigned.part.marks.count(v.index)) operands.push_back(local(v));
      else if (part_op.transfer.wishes[i]) operands.push_back(enter(b, v, *part_op.transfer.wishes[i], assigned, unit));
      else operands.push_back(resolve(v));
    }
    const Shape shape = graph_.type(op.results[0]).shape;
    const Shape made = local_shape(shape, part_op.transfer.results[0], assigned.devices);
    const std::vector<ValueId> results = b.add(op.kind, std::move(operands), local_attrs(op, part_op.transfer.results[0], assigned.devices),
                                               graph_.value(op.results[0]).name);
    PIPER_CHECK(b.status().ok() && graph_.type(results[0]).shape == made, op_name(op.kind), " of an expert part: ",
                b.status().ok() ? to_string(graph_.type(results[0])) : b.status().error().message, ", not ", text_of(made));
    marks_.unit[results[0].index] = unit;
    dropped_[part_op.op.index] = true;
    if (part_op.transfer.kind == Kind::kSums) {
      replaced_[op.results[0].index] = leave_sum(b, results[0], part_op.transfer.results[0], shape, assigned);
      return;
    }
    for (size_t r = 0; r < results.size(); ++r) {
      const ValueId old = op.results[r];
      local_[old.index] = results[r];
      if (std::binary_search(assigned.part.returned.begin(), assigned.part.returned.end(), old))
        replaced_[old.index] = leave_whole(b, results[r], part_op.transfer.results[r], graph_.type(old).shape, assigned);
    }
  }

  // The value on a rank; a weight is what it was, with another type.
  ValueId local(ValueId v) const {
    const auto found = local_.find(v.index);
    return found == local_.end() ? v : found->second;
  }

  ValueId exchange(ir::GraphBuilder& b, ValueId parts, const std::string& name, bool to_experts) {
    const ValueId received = b.add1(OpKind::kAllToAll, {parts}, ir::NoAttrs{}, name);
    marks_.to_experts[received.index] = to_experts;
    return received;
  }

  // v, which every rank has of its own tokens, as the part wishes it. Several ops that wish the same share one exchange.
  ValueId enter(ir::GraphBuilder& b, ValueId v, const OperandWish& wish, const Assigned& assigned, int32_t unit) {
    std::vector<View> views;
    OperandWish source = wish;
    ValueId at = v;
    if (wish.shape == graph_.type(v).shape && wish.mark.expert.present()) at = before_broadcast(v, assigned.part, source, views);
    const auto key = std::make_tuple(at.index, source.mark, source.shape, unit);
    ValueId result;
    if (auto found = entries_.find(key); found != entries_.end()) {
      result = found->second;
    } else {
      TokenExchange exchanges(b, assigned.part.experts, assigned.devices);
      const std::string name = graph_.value(at).name + ".received";
      const auto parts = [&] { return exchanges.parts_by_expert(b.expand(resolve(at), source.shape), source.mark); };
      // What is the same on every rank (a mask) need not travel, unless each rank wants another part of it.
      const bool travels = !same_for_all_[at.index] || source.mark.expert.present();
      const ValueId received = travels ? exchange(b, parts(), name, true) : in_unit(b, unit, parts);
      result = in_unit(b, unit, [&] { return exchanges.join_tokens(received, source.mark, source.shape); });
      entries_.emplace(key, result);
    }
    return in_unit(b, unit, [&] {
      for (auto view = views.rbegin(); view != views.rend(); ++view) {
        const ir::Op op = graph_.op(view->op);
        result = b.add1(op.kind, {result}, local_attrs(op, view->mark, assigned.devices), graph_.value(op.results[0]).name);
      }
      return result;
    });
  }

  // Runs `make`; the ops that it appends belong to the unit.
  template <class Make>
  ValueId in_unit(ir::GraphBuilder& b, int32_t unit, const Make& make) {
    const size_t before = graph_.num_ops();
    const ValueId result = make();
    PIPER_CHECK(b.status().ok(), "an exchange of tokens: ", b.status().ok() ? "" : b.status().error().message);
    for (size_t i = before; i < graph_.num_ops(); ++i) marks_.unit[graph_.op(OpId(i)).results[0].index] = unit;
    return result;
  }

  // A view that is made again behind the exchange, and the mark of its result.
  struct View {
    OpId op;
    ExpertMark mark;
  };
  // Tokens that were only repeated for every expert travel once: follows views back to the broadcast that made the axis of
  // experts, and gives the value before it, with `wish` for that; v itself where there is none. `views`: from v backwards.
  ValueId before_broadcast(ValueId v, const ExpertPart& part, OperandWish& wish, std::vector<View>& views) const {
    ExpertMark mark = wish.mark;
    std::vector<View> seen;
    for (ValueId at = v; graph_.value(at).kind == ir::ValueKind::kOpResult;) {
      const OpId id = graph_.value(at).producer;
      const ir::Op& op = graph_.op(id);
      if (op.chunk != part.chunk || op.operands.size() != 1) return v;
      const Shape &from = graph_.type(op.operands[0]).shape, &to = graph_.type(at).shape;
      seen.push_back({id, mark});
      if (op.kind == OpKind::kReshape) {
        const auto back = reshaped(mark, part.experts, to, from);
        if (!back) return v;
        mark = *back;
      } else if (op.kind == OpKind::kPermute) {
        const Shape& dims = std::get<ir::PermuteAttrs>(op.attrs).dims;
        mark.expert.axis = dims[static_cast<size_t>(mark.expert.axis)];
        mark.token.axis = dims[static_cast<size_t>(mark.token.axis)];
      } else if (op.kind == OpKind::kExpand) {
        const int64_t lead = static_cast<int64_t>(to.size() - from.size());
        const auto repeated = [&](int64_t axis) {
          return axis < lead || from[static_cast<size_t>(axis - lead)] != to[static_cast<size_t>(axis)];
        };
        if (repeated(mark.token.axis)) return v;
        mark.token.axis -= lead;
        if (repeated(mark.expert.axis)) {
          mark.expert = {};
          wish = {mark, from};
          views = std::move(seen);
          return op.operands[0];
        }
        mark.expert.axis -= lead;
      } else if (op.kind != OpKind::kCast && op.kind != OpKind::kDetach) {
        return v;
      }
      at = op.operands[0];
    }
    return v;
  }

  // The tokens of each source go back, with all experts side by side.
  ValueId leave_whole(ir::GraphBuilder& b, ValueId made, const ExpertMark& mark, Shape shape, const Assigned& assigned) {
    TokenExchange exchanges(b, assigned.part.experts, assigned.devices);
    const ValueId parts = exchanges.parts_by_source(made, mark, shape);
    const ValueId result = exchanges.join_experts(exchange(b, parts, graph_.value(made).name + ".returned", false), mark, shape);
    PIPER_CHECK(b.status().ok(), "tokens that return: ", b.status().ok() ? "" : b.status().error().message);
    return result;
  }
  // Each member made its experts' share of a sum over experts.
  ValueId leave_sum(ir::GraphBuilder& b, ValueId made, const ExpertMark& mark, const Shape& shape, const Assigned& assigned) {
    TokenExchange exchanges(b, assigned.part.experts, assigned.devices);
    const ValueId parts = exchanges.parts_by_source(made, mark, shape);
    const ValueId result = exchanges.add_shares(exchange(b, parts, graph_.value(made).name + ".returned", false));
    PIPER_CHECK(b.status().ok() && graph_.type(result).shape == shape, "shares that return");
    return result;
  }

  // ---------------------------------------------------------------- tidy up
  void redirect() {
    dropped_.resize(graph_.num_ops(), false);
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (!dropped_[i])
        for (ValueId& operand : graph_.op(OpId(i)).operands)
          if (operand.valid()) operand = resolve(operand);
    for (ir::Graph::Output& output : graph_.outputs) output.value = resolve(output.value);
    if (graph_.loss.valid()) graph_.loss = resolve(graph_.loss);
    drop_unread_views();
    graph_.remove_ops(dropped_);
    graph_.sort_ops();
  }
  // Broadcasts that travel no more.
  void drop_unread_views() {
    std::vector<int64_t> readers(graph_.num_values());
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (!dropped_[i])
        for (ValueId operand : graph_.op(OpId(i)).operands)
          if (operand.valid()) ++readers[operand.index];
    for (const ir::Graph::Output& output : graph_.outputs) ++readers[output.value.index];
    if (graph_.loss.valid()) ++readers[graph_.loss.index];
    for (size_t i = graph_.num_ops(); i-- > 0;) {
      const ir::Op& op = graph_.op(OpId(i));
      const bool view = op.kind == OpKind::kReshape || op.kind == OpKind::kPermute || op.kind == OpKind::kExpand ||
                        op.kind == OpKind::kCast || op.kind == OpKind::kDetach;
      if (dropped_[i] || !view || marks_.shard[op.chunk.index] < 0 || readers[op.results[0].index] > 0) continue;
      dropped_[i] = true;
      --readers[op.operands[0].index];
    }
  }

  ir::ChunkedGraph& chunked_;
  ir::Graph& graph_;
  const std::vector<ShardedChunks>& shards_;
  diag::Diagnostics& diags_;
  std::vector<Assigned> assigned_;
  std::vector<int32_t> unit_base_;                  // [assigned]
  std::vector<ir::ProvId> provs_;                   // [shard]
  std::map<uint32_t, ValueId> local_, replaced_;    // old value -> inside, and outside of its part
  std::map<std::tuple<uint32_t, ExpertMark, Shape, int32_t>, ValueId> entries_;
  std::vector<bool> same_for_all_;                  // [value of the graph as given]
  std::vector<bool> dropped_;                       // [op]
  ExchangeMarks marks_;
};

}  // namespace

Result<std::vector<ir::ChunkId>> partition_experts(ir::ChunkedGraph& chunked, const std::vector<ShardedChunks>& shards,
                                                   diag::Diagnostics& diags) {
  return Partitioner(chunked, shards, diags).run();
}

}  // namespace piper::passes
