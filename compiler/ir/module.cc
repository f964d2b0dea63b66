#include "compiler/ir/module.h"

#include "schemas/base/check.h"

namespace piper::ir {

std::string_view phase_name(Phase phase, bool backward_split) {
  switch (phase) {
    case Phase::kCount: return "C";
    case Phase::kCountFinish: return "N";
    case Phase::kForward: return "F";
    case Phase::kBackward: return backward_split ? "BI" : "B";
    case Phase::kBackwardWeight: return "BW";
  }
  return "";
}

const std::vector<Chunk>& Module::chunks() const {
  PIPER_CHECK(!variants.empty(), "a module has chunks once its model is bound");
  return variants[0].chunked.chunks;
}

AccumulatorId Module::find_accumulator(uint32_t parameter, ChunkId chunk) const {
  return state.find_accumulator(chunks(), parameter, chunk);
}

const ModelVariant* Module::variant_for(size_t devices) const {
  const int64_t local = step.local_batch(devices);
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
    std::string operator()(const StepNode& n) const {
      switch (n.work) {
        case StepWork::kCountFinish: return "count of " + module.chunks()[n.chunk.index].name;
        case StepWork::kLossFinish: return "loss of the step";
        case StepWork::kDroppedFinish: return "number of dropped rows";
        case StepWork::kCombine: return "sum of a tied parameter's gradients";
        case StepWork::kNormPart: return "gradient norms";
        case StepWork::kClip: return "gradient clipping";
      }
      return "";
    }
    std::string operator()(const TransferNode& n) const {
      switch (n.cargo) {
        case Cargo::kValue: return "transfer of a value, microbatch " + std::to_string(n.microbatch);
        case Cargo::kAccumulator: return "transfer of a tied parameter's gradient";
        case Cargo::kLoss: return "transfer of the loss";
      }
      return "";
    }
    std::string operator()(const AllReduceNode& n) const {
      switch (n.what) {
        case Reduced::kBucket: return "all_reduce of " + module.state.buckets[n.bucket.index].name;
        case Reduced::kCount: return "all_reduce of a count";
        case Reduced::kLoss: return "all_reduce of the loss";
        case Reduced::kDropped: return "all_reduce of the number of dropped rows";
        case Reduced::kNorm: return "all_reduce of the gradient norms";
      }
      return "";
    }
    std::string operator()(const ReduceScatterNode& n) const {
      std::string text = "reduce_scatter of " + module.state.buckets[n.bucket.index].name;
      for (size_t i = 0; i < n.microbatches.size(); ++i)
        text += (i == 0 ? ", microbatch " : " and ") + std::to_string(n.microbatches[i]);
      return text;
    }
    std::string operator()(const AllGatherNode& n) const {
      std::string text = "all_gather of " + module.state.buckets[n.bucket.index].name;
      for (size_t i = 0; i < n.readers.size(); ++i) text += (i == 0 ? " for " : " and ") + (*this)(n.readers[i]);
      return text;
    }
    std::string operator()(const ExchangeNode& n) const { return "all_to_all " + (*this)(n.at); }
    std::string operator()(const UpdateNode& n) const {
      return "update of " + module.state.buckets[n.bucket.index].name;
    }
  };
  return std::visit(Text{*this}, dag.nodes[id.index].payload);
}

}  // namespace piper::ir
