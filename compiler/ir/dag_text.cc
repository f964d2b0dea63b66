// The text form of the DAG. Dag::compute is not held: it follows from the nodes.
#include <algorithm>
#include <ostream>

#include "compiler/ir/section_fields.h"

namespace piper::ir {

inline Words words_of(CollectiveKind) {
  static constexpr std::string_view kWords[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"};
  return kWords;
}
inline Words words_of(ScalarReader) {
  static constexpr std::string_view kWords[] = {"log", "mean_loss", "clipping", "updates", "skips"};
  return kWords;
}
// For variants, in the order of their kinds.
constexpr std::string_view kOperandWords[] = {"value", "gradients", "parameters", "use", "scalar"};
constexpr std::string_view kWorkWords[] = {"take", "finish_counts", "combine", "measure",
                                           "clip", "advance",       "check",   "unscale"};
static_assert(std::variant_size_v<Operand> == std::size(kOperandWords) &&
              std::variant_size_v<StepWork> == std::size(kWorkWords));

// "F 3 0"
void fields(auto& v, Of<ComputeNode> auto& n) {
  v("", n.phase);
  v("", n.chunk);
  v("", n.microbatch, "a microbatch");
}

void fields(auto& v, Of<ValueOperand> auto& o) {
  v("", o.at);
  v("", o.value);
}
void fields(auto& v, Of<GradientOperand> auto& o) {
  v("", o.bucket);
  v("microbatches", o.microbatches, "a microbatch");
}
void fields(auto& v, Of<ParameterOperand> auto& o) {
  v("", o.bucket);
  v("for", o.readers);
}
void fields(auto& v, Of<UseOperand> auto& o) { v("", o.use); }
void fields(auto& v, Of<ScalarOperand> auto& o) { v("", o.scalar); }

void fields(auto& v, Of<TakeScalar> auto& w) { v("", w.scalar); }
void fields(auto& v, Of<FinishCounts> auto& w) { v("", w.chunk); }
void fields(auto& v, Of<CombineUses> auto& w) { v("", w.parameter, "a parameter"); }
void fields(auto& v, Of<MeasureGradients> auto& w) { v("", w.norms); }
void fields(auto& v, Of<ClipGradients> auto& w) {
  v("", w.norms);
  v("", w.norm);
  v("", w.scale);
}
void fields(auto&, Of<AdvanceOptimizer> auto&) {}
void fields(auto& v, Of<CheckGradients> auto& w) { v("", w.overflow); }
void fields(auto& v, Of<UnscaleGradients> auto& w) { v("", w.scale); }

template <class V>
void fields(V& v, Of<CollectiveNode> auto& n) {
  v("", n.kind);
  v.kind(kOperandWords, n.what);
  v("teams", n.teams);
  v("", n.types.data);
  if constexpr (V::kReads) n.types = plan::SumTypes(n.types.data);
  v.optional("message", n.types.message, n.types.data);
  v.optional("sum", n.types.sum, n.types.data);
}
void fields(auto& v, Of<TransferNode> auto& n) {
  v.word("transfer");
  v.kind(kOperandWords, n.what);
  v("to", n.to);
}
void fields(auto& v, Of<StepNode> auto& n) { v.kind(kWorkWords, n.work); }
void fields(auto& v, Of<UpdateNode> auto& n) { v("update", n.bucket); }

void fields(auto& v, Of<StepScalar> auto& s) {
  v("", s.name);
  v("", s.title);
  v("", s.what);
  v("", s.dtype);
  v("", s.shape);
  v.word("read");
  v("by", s.reader);
  v.optional("value", s.value, {});
}
// Its payload is of the kind that the first word says.
void fields(auto& v, Of<Node> auto& node) {
  if (std::holds_alternative<ComputeNode>(node.payload)) v.word("compute");
  std::visit([&v](auto& payload) { fields(v, payload); }, node.payload);
  v("on", node.group);
  v("stream", node.stream, "a stream");
  v.optional("by", node.prov, {});
}

namespace {

// Data edges of one node that are together are one line.
void print_edges(const Dag& dag, std::ostream& out) {
  for (size_t e = 0; e < dag.edges.size();) {
    const Edge& first = dag.edges[e];
    if (first.kind == EdgeKind::kOrder) {
      out << "  before " << first.from.index << " " << first.to.index << " " << span_text(first.span) << "\n";
      ++e;
      continue;
    }
    std::vector<NodeId> to;
    for (; e < dag.edges.size() && dag.edges[e].from == first.from && dag.edges[e].kind == EdgeKind::kData; ++e)
      to.push_back(dag.edges[e].to);
    out << "  edges " << first.from.index << " " << ranges_text(to) << "\n";
  }
}

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
    if (name.is_word("scalar")) return read_next(module_, in_, dag_.scalars, "scalars");
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

  Status node() {
    PIPER_RETURN_IF_ERROR(in_.numbered(dag_.nodes.size(), "nodes"));
    Node node;
    const auto is_one_of = [&](Words words) {
      return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return in_.is_word(word); });
    };
    if (is_one_of(words_of(CollectiveKind()))) node.payload = CollectiveNode();
    else if (is_one_of(kWorkWords)) node.payload = StepNode();
    else if (in_.is_word("transfer")) node.payload = TransferNode();
    else if (in_.is_word("update")) node.payload = UpdateNode();
    else if (!in_.is_word("compute"))
      return in_.fail("expected compute, a collective, transfer, work of the step or update");
    PIPER_RETURN_IF_ERROR(read_line(module_, in_, node));
    dag_.add_node(std::move(node.payload), node.group, node.stream, node.prov);
    return {};
  }

  Status fill_compute() {
    if (module_.variants.empty()) return in_.fail("a DAG belongs to a model, whose variant must come before it");
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
  const Dag& dag = module.dag;
  if (dag.nodes.empty()) return;
  out << "dag {\n";
  write_table(module, out, "  scalar", dag.scalars);
  write_table(module, out, "  node", dag.nodes);
  print_edges(dag, out);
  if (!dag.order.empty()) out << "  order " << ranges_text(dag.order) << "\n";
  out << "}\n";
}

Status parse_dag_section(ModuleReader& in, Module& module) { return DagParser(in, module).run(); }

}  // namespace piper::ir
