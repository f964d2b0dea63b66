#include "compiler/ir/module.h"

#include "schemas/base/check.h"
#include "schemas/plan/names.h"

namespace piper::ir {

plan::Pass pass_of(Phase phase, bool backward_split) {
  switch (phase) {
    case Phase::kCount: return plan::Pass::kCount;
    case Phase::kCountFinish: return plan::Pass::kCountFinish;
    case Phase::kForward: return plan::Pass::kForward;
    case Phase::kBackward: return backward_split ? plan::Pass::kBackwardInput : plan::Pass::kBackward;
    case Phase::kBackwardWeight: return plan::Pass::kBackwardWeight;
  }
  return plan::Pass::kForward;
}
std::string_view phase_name(Phase phase, bool backward_split) {
  return plan::pass_name(pass_of(phase, backward_split));
}

const std::vector<Chunk>& Module::chunks() const {
  PIPER_CHECK(!variants.empty(), "a module has chunks once its model is bound");
  return variants[0].chunked.chunks;
}

AccumulatorId Module::find_accumulator(uint32_t parameter, ChunkId chunk) const {
  return state.find_accumulator(chunks(), parameter, chunk);
}

const ModelVariant* Module::variant_for(int64_t replicas) const {
  const int64_t local = step.local_batch(replicas);
  for (const ModelVariant& variant : variants)
    if (variant.local_batch == local) return &variant;
  return nullptr;
}

void Module::refine_chunks(const std::vector<ChunkId>& from) {
  distribution.refine(from);
  schedule.refine(from);
}

void Module::merge_chunks(const std::vector<ChunkId>& into) {
  distribution.merge(into);
  schedule.merge(into);
}

std::string Module::describe(NodeId id) const {
  struct Text {
    const Module& module;
    std::string operator()(const ComputeNode& n) const {
      std::string text = std::string(phase_name(n.phase, module.distribution.backward_split(n.chunk))) + " of " +
                         module.chunks()[n.chunk.index].name;
      if (module.step.split) text += ", microbatch " + std::to_string(n.microbatch);
      return text;
    }
    // What a communication is about, and for which microbatches or readers where there is one for each.
    std::string operator()(const ValueOperand& o) const {
      return "a value, microbatch " + std::to_string(o.at.microbatch);
    }
    std::string operator()(const GradientOperand& o) const {
      std::string text = module.state.buckets[o.bucket.index].name;
      for (size_t i = 0; i < o.microbatches.size(); ++i)
        text += (i == 0 ? ", microbatch " : " and ") + std::to_string(o.microbatches[i]);
      return text;
    }
    std::string operator()(const ParameterOperand& o) const {
      std::string text = module.state.buckets[o.bucket.index].name;
      for (size_t i = 0; i < o.readers.size(); ++i) text += (i == 0 ? " for " : " and ") + (*this)(o.readers[i]);
      return text;
    }
    std::string operator()(const UseOperand&) const { return "a tied parameter's gradient"; }
    std::string operator()(const ScalarOperand& o) const { return module.dag.scalars[o.scalar.index].what; }

    std::string operator()(const CollectiveNode& n) const {
      const auto* value = std::get_if<ValueOperand>(&n.what);  // all that its chunk does
      const auto of = [&] { return value != nullptr ? " " + (*this)(value->at) : " of " + std::visit(*this, n.what); };
      switch (n.kind) {
        case CollectiveKind::kAllReduce: return "all_reduce" + of();
        case CollectiveKind::kReduceScatter: return "reduce_scatter" + of();
        case CollectiveKind::kAllGather: return "all_gather" + of();
        case CollectiveKind::kAllToAll: return "all_to_all" + of();
      }
      return "";
    }
    std::string operator()(const TransferNode& n) const { return "transfer of " + std::visit(*this, n.what); }

    std::string operator()(const TakeScalar& work) const { return module.dag.scalars[work.scalar.index].title; }
    std::string operator()(const FinishCounts& work) const {
      return "count of " + module.chunks()[work.chunk.index].name;
    }
    std::string operator()(const CombineUses&) const { return "sum of a tied parameter's gradients"; }
    std::string operator()(const MeasureGradients&) const { return "gradient norms"; }
    std::string operator()(const ClipGradients&) const { return "gradient clipping"; }
    std::string operator()(const AdvanceOptimizer&) const { return "the optimizer's step"; }
    std::string operator()(const CheckGradients&) const { return "the search for overflows"; }
    std::string operator()(const UnscaleGradients&) const { return "the factor on gradients"; }
    std::string operator()(const StepNode& n) const { return std::visit(*this, n.work); }
    std::string operator()(const UpdateNode& n) const {
      return "update of " + module.state.buckets[n.bucket.index].name;
    }
  };
  return std::visit(Text{*this}, dag.nodes[id.index].payload);
}

}  // namespace piper::ir
