// The text form of the DAG. Dag::compute is not held: it follows from the nodes.
#include <ostream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/module_sections.h"

namespace piper::ir {
namespace {

constexpr std::string_view kCollectiveWords[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"};
constexpr std::string_view kOperandWords[] = {"value", "gradients", "parameters", "use", "scalar"};
constexpr std::string_view kWorkWords[] = {"take", "finish_counts", "combine", "measure",
                                           "clip", "advance",       "check",   "unscale"};
constexpr std::string_view kReaderWords[] = {"log", "mean_loss", "clipping", "updates", "skips"};
static_assert(std::variant_size_v<Operand> == 5 && std::variant_size_v<StepWork> == 8, "names above, readers below");

// "F 3 0": phase, chunk, microbatch.
std::string pass_text(const ComputeNode& n) {
  return std::string(phase_text(n.phase)) + " " + id_text(n.chunk) + " " + std::to_string(n.microbatch);
}

class DagPrinter {
 public:
  DagPrinter(const Module& module, std::ostream& out) : module_(module), dag_(module.dag), out_(out) {}

  void print() {
    out_ << "dag {\n";
    for (size_t s = 0; s < dag_.scalars.size(); ++s) scalar(s, dag_.scalars[s]);
    for (size_t n = 0; n < dag_.nodes.size(); ++n) node(n, dag_.nodes[n]);
    edges();
    if (!dag_.order.empty()) out_ << "  order " << ranges_text(dag_.order) << "\n";
    out_ << "}\n";
  }

  void operator()(const ValueOperand& o) { out_ << " " << pass_text(o.at) << " " << value(o.value); }
  void operator()(const GradientOperand& o) {
    out_ << " " << id_text(o.bucket) << " microbatches " << ranges_text(o.microbatches);
  }
  void operator()(const ParameterOperand& o) {
    out_ << " " << id_text(o.bucket) << " for " << list_text(o.readers, pass_text);
  }
  void operator()(const UseOperand& o) { out_ << " " << id_text(o.use); }
  void operator()(const ScalarOperand& o) { out_ << " " << id_text(o.scalar); }

  void operator()(const TakeScalar& w) { out_ << " " << id_text(w.scalar); }
  void operator()(const FinishCounts& w) { out_ << " " << id_text(w.chunk); }
  void operator()(const CombineUses& w) { out_ << " " << w.parameter; }
  void operator()(const MeasureGradients& w) { out_ << " " << id_text(w.norms); }
  void operator()(const ClipGradients& w) {
    out_ << " " << id_text(w.norms) << " " << id_text(w.norm) << " " << id_text(w.scale);
  }
  void operator()(const AdvanceOptimizer&) {}
  void operator()(const CheckGradients& w) { out_ << " " << id_text(w.overflow); }
  void operator()(const UnscaleGradients& w) { out_ << " " << id_text(w.scale); }

  void operator()(const ComputeNode& n) { out_ << "compute " << pass_text(n); }
  void operator()(const CollectiveNode& n) {
    out_ << kCollectiveWords[static_cast<size_t>(n.kind)];
    operand(n.what);
    out_ << " teams " << id_text(n.teams) << " " << dtype_name(n.types.data);
    if (n.types.message != n.types.data) out_ << " message " << dtype_name(n.types.message);
    if (n.types.sum != n.types.data) out_ << " sum " << dtype_name(n.types.sum);
  }
  void operator()(const TransferNode& n) {
    out_ << "transfer";
    operand(n.what);
    out_ << " to " << id_text(n.to);
  }
  void operator()(const StepNode& n) {
    out_ << kWorkWords[n.work.index()];
    std::visit(*this, n.work);
  }
  void operator()(const UpdateNode& n) { out_ << "update " << id_text(n.bucket); }

 private:
  std::string value(ValueId v) const { return v.valid() ? value_text(module_.graph().value(v).name) : "none"; }
  void operand(const Operand& what) {
    out_ << " " << kOperandWords[what.index()];
    std::visit(*this, what);
  }
  void scalar(size_t index, const StepScalar& s) {
    out_ << "  scalar " << index << " " << string_literal(s.name) << " " << string_literal(s.title) << " "
         << string_literal(s.what) << " " << dtype_name(s.dtype) << " " << list_text(s.shape) << " read by "
         << kReaderWords[static_cast<size_t>(s.reader)];
    if (s.value.valid()) out_ << " value " << value(s.value);
    out_ << "\n";
  }
  void node(size_t index, const Node& n) {
    out_ << "  node " << index << " ";
    std::visit(*this, n.payload);
    out_ << " on " << id_text(n.group) << " stream " << n.stream << prov_text(n.prov) << "\n";
  }
  // Data edges of one node that stand together are one line.
  void edges() {
    for (size_t e = 0; e < dag_.edges.size();) {
      const Edge& first = dag_.edges[e];
      if (first.kind == EdgeKind::kOrder) {
        out_ << "  before " << first.from.index << " " << first.to.index << " " << span_text(first.span) << "\n";
        ++e;
        continue;
      }
      std::vector<NodeId> to;
      for (; e < dag_.edges.size() && dag_.edges[e].from == first.from && dag_.edges[e].kind == EdgeKind::kData; ++e)
        to.push_back(dag_.edges[e].to);
      out_ << "  edges " << first.from.index << " " << ranges_text(to) << "\n";
    }
  }

  const Module& module_;
  const Dag& dag_;
  std::ostream& out_;
};

class DagParser {
 public:
  DagParser(ModuleReader& in, Module& module) : in_(in), module_(module), dag_(module.dag) {}

  Status run() {
    PIPER_RETURN_IF_ERROR(in_.block([&] { return entry(); }));
    return fill_compute();
  }

 private:
  Status entry() {
    const Token name = in_.token();
    PIPER_RETURN_IF_ERROR(in_.advance());
    if (name.is_word("scalar")) return scalar();
    if (name.is_word("node")) return node();
    if (name.is_word("edges")) {
      PIPER_ASSIGN(const NodeId from, in_.id<NodeId>("a node"));
      PIPER_ASSIGN(const std::vector<NodeId> to, in_.ranges<NodeId>("a node"));
      for (NodeId n : to) dag_.add_edge(from, n);
      return {};
    }
    if (name.is_word("before")) {
      PIPER_ASSIGN(const NodeId from, in_.id<NodeId>("a node"));
      PIPER_ASSIGN(const NodeId to, in_.id<NodeId>("a node"));
      PIPER_ASSIGN(const diag::Span span, in_.span());
      dag_.add_edge(from, to, EdgeKind::kOrder, span);
      return {};
    }
    if (name.is_word("order")) {
      PIPER_ASSIGN(dag_.order, in_.ranges<NodeId>("a node"));
      return {};
    }
    return in_.fail(name, "expected scalar, node, edges, before, order or '}'");
  }

  Status scalar() {
    PIPER_RETURN_IF_ERROR(in_.numbered(dag_.scalars.size(), "scalars"));
    StepScalar s;
    PIPER_ASSIGN(s.name, in_.string());
    PIPER_ASSIGN(s.title, in_.string());
    PIPER_ASSIGN(s.what, in_.string());
    PIPER_ASSIGN(s.dtype, in_.dtype());
    PIPER_ASSIGN(s.shape, in_.integers());
    PIPER_RETURN_IF_ERROR(in_.want_word("read"));
    PIPER_RETURN_IF_ERROR(in_.field("by", s.reader, kReaderWords));
    PIPER_ASSIGN(const bool counts, in_.takes("value"));
    if (counts) {
      PIPER_ASSIGN(s.value, in_.value(module_));
    }
    dag_.scalars.push_back(std::move(s));
    return {};
  }

  Status node() {
    PIPER_RETURN_IF_ERROR(in_.numbered(dag_.nodes.size(), "nodes"));
    PIPER_ASSIGN(NodePayload payload, this->payload());
    PIPER_RETURN_IF_ERROR(in_.want_word("on"));
    PIPER_ASSIGN(const GroupId group, in_.id<GroupId>("a group"));
    PIPER_RETURN_IF_ERROR(in_.want_word("stream"));
    PIPER_ASSIGN(const uint32_t stream, in_.uint32("a stream"));
    PIPER_ASSIGN(const ProvId prov, in_.by());
    dag_.add_node(std::move(payload), group, stream, prov);
    return {};
  }

  Result<ComputeNode> pass() {
    ComputeNode n;
    PIPER_ASSIGN(n.phase, in_.phase());
    PIPER_ASSIGN(n.chunk, in_.id<ChunkId>("a chunk"));
    PIPER_ASSIGN(n.microbatch, in_.int32("a microbatch"));
    return n;
  }

  Result<NodePayload> payload() {
    for (size_t k = 0; k < std::size(kCollectiveWords); ++k)
      if (in_.is_word(kCollectiveWords[k])) return collective(static_cast<CollectiveKind>(k));
    for (const std::string_view name : kWorkWords)
      if (in_.is_word(name)) {
        PIPER_ASSIGN(StepWork work, this->work());
        return NodePayload(StepNode{work});
      }
    PIPER_ASSIGN(const bool compute, in_.takes("compute"));
    if (compute) {
      PIPER_ASSIGN(const ComputeNode n, pass());
      return NodePayload(n);
    }
    PIPER_ASSIGN(const bool transfer, in_.takes("transfer"));
    if (transfer) {
      TransferNode n;
      PIPER_ASSIGN(n.what, operand());
      PIPER_RETURN_IF_ERROR(in_.field("to", n.to, "a group"));
      return NodePayload(std::move(n));
    }
    PIPER_ASSIGN(const bool update, in_.takes("update"));
    if (!update) return in_.fail("expected compute, a collective, transfer, work of the step or update");
    UpdateNode n;
    PIPER_ASSIGN(n.bucket, in_.id<BucketId>("a bucket"));
    return NodePayload(n);
  }

  Result<NodePayload> collective(CollectiveKind kind) {
    PIPER_RETURN_IF_ERROR(in_.advance());
    CollectiveNode n;
    n.kind = kind;
    PIPER_ASSIGN(n.what, operand());
    PIPER_RETURN_IF_ERROR(in_.field("teams", n.teams, "teams"));
    PIPER_ASSIGN(n.types, in_.dtype());
    PIPER_ASSIGN(const bool converted, in_.takes("message"));
    if (converted) {
      PIPER_ASSIGN(n.types.message, in_.dtype());
    }
    PIPER_ASSIGN(const bool widened, in_.takes("sum"));
    if (widened) {
      PIPER_ASSIGN(n.types.sum, in_.dtype());
    }
    return NodePayload(std::move(n));
  }

  Result<Operand> operand() {
    enum class Kind : uint8_t { kValue, kGradients, kParameters, kUse, kScalar };
    PIPER_ASSIGN(const Kind kind, in_.word<Kind>(kOperandWords));
    switch (kind) {
      case Kind::kValue: {
        ValueOperand o;
        PIPER_ASSIGN(o.at, pass());
        PIPER_ASSIGN(o.value, in_.value(module_));
        return Operand(o);
      }
      case Kind::kGradients: {
        GradientOperand o;
        PIPER_ASSIGN(o.bucket, in_.id<BucketId>("a bucket"));
        PIPER_RETURN_IF_ERROR(in_.field("microbatches", o.microbatches, "a microbatch"));
        return Operand(std::move(o));
      }
      case Kind::kParameters: {
        ParameterOperand o;
        PIPER_ASSIGN(o.bucket, in_.id<BucketId>("a bucket"));
        PIPER_RETURN_IF_ERROR(in_.want_word("for"));
        PIPER_ASSIGN(o.readers, in_.list_of<ComputeNode>([&] { return pass(); }));
        return Operand(std::move(o));
      }
      case Kind::kUse: {
        UseOperand o;
        PIPER_ASSIGN(o.use, in_.id<AccumulatorId>("an accumulator"));
        return Operand(o);
      }
      case Kind::kScalar: {
        ScalarOperand o;
        PIPER_ASSIGN(o.scalar, in_.id<ScalarId>("a scalar"));
        return Operand(o);
      }
    }
    return Operand();
  }

  Result<StepWork> work() {
    enum class Kind : uint8_t { kTake, kFinishCounts, kCombine, kMeasure, kClip, kAdvance, kCheck, kUnscale };
    PIPER_ASSIGN(const Kind kind, in_.word<Kind>(kWorkWords));
    switch (kind) {
      case Kind::kTake: {
        PIPER_ASSIGN(const ScalarId scalar, in_.id<ScalarId>("a scalar"));
        return StepWork(TakeScalar{scalar});
      }
      case Kind::kFinishCounts: {
        PIPER_ASSIGN(const ChunkId chunk, in_.id<ChunkId>("a chunk"));
        return StepWork(FinishCounts{chunk});
      }
      case Kind::kCombine: {
        PIPER_ASSIGN(const uint32_t parameter, in_.uint32("a parameter"));
        return StepWork(CombineUses{parameter});
      }
      case Kind::kMeasure: {
        PIPER_ASSIGN(const ScalarId norms, in_.id<ScalarId>("a scalar"));
        return StepWork(MeasureGradients{norms});
      }
      case Kind::kClip: {
        ClipGradients clip;
        PIPER_ASSIGN(clip.norms, in_.id<ScalarId>("a scalar"));
        PIPER_ASSIGN(clip.norm, in_.id<ScalarId>("a scalar"));
        PIPER_ASSIGN(clip.scale, in_.id<ScalarId>("a scalar"));
        return StepWork(clip);
      }
      case Kind::kAdvance: return StepWork(AdvanceOptimizer{});
      case Kind::kCheck: {
        PIPER_ASSIGN(const ScalarId overflow, in_.id<ScalarId>("a scalar"));
        return StepWork(CheckGradients{overflow});
      }
      case Kind::kUnscale: {
        PIPER_ASSIGN(const ScalarId scale, in_.id<ScalarId>("a scalar"));
        return StepWork(UnscaleGradients{scale});
      }
    }
    return StepWork();
  }

  Status fill_compute() {
    if (module_.variants.empty()) return in_.fail("a DAG is of a model, whose variant must stand before");
    const auto microbatches = static_cast<size_t>(module_.step.num_microbatches);
    const size_t num_chunks = module_.chunks().size();
    PIPER_RETURN_IF_ERROR(in_.expand(in_.token(), microbatches * num_chunks * kNumPhases));
    dag_.compute.resize(num_chunks);
    for (auto& rows : dag_.compute)
      for (std::vector<NodeId>& row : rows) row.assign(microbatches, NodeId());
    for (size_t n = 0; n < dag_.nodes.size(); ++n) {
      const ComputeNode* pass = chunk_pass(dag_.nodes[n].payload);
      if (pass == nullptr) continue;
      if (pass->chunk.index >= num_chunks || static_cast<size_t>(pass->microbatch) >= microbatches)
        return in_.fail("node " + std::to_string(n) + " is a pass of no chunk and microbatch of the model");
      dag_.compute[pass->chunk.index][static_cast<size_t>(pass->phase)][pass->microbatch] = NodeId(n);
    }
    return {};
  }

  ModuleReader& in_;
  const Module& module_;
  Dag& dag_;
};

}  // namespace

void print_dag_section(const Module& module, std::ostream& out) {
  if (!module.dag.nodes.empty()) DagPrinter(module, out).print();
}

Status parse_dag_section(ModuleReader& in, Module& module) { return DagParser(in, module).run(); }

}  // namespace piper::ir
