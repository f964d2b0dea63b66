#include "compiler/emit/buffers.h"

#include "schemas/base/check.h"

namespace piper::emit {
namespace {

using plan::BufferClass;

plan::Buffer declare(std::string name, BufferClass cls, int64_t bytes, DType dtype, std::vector<int64_t> shape = {}) {
  plan::Buffer b;
  b.name = std::move(name);
  b.cls = cls;
  b.bytes = bytes;
  b.dtype = dtype;
  b.shape = std::move(shape);
  return b;
}

plan::Buffer declare(std::string name, BufferClass cls, const ir::TensorType& type) {
  return declare(std::move(name), cls, type.bytes(), type.dtype, type.shape);
}

plan::Buffer declare_scalar(const ir::StepScalar& scalar, bool reports_norms) {
  switch (scalar.reader) {
    case ir::ScalarReader::kLog:
    case ir::ScalarReader::kUpdates:
    case ir::ScalarReader::kSkips:
      return declare(scalar.name, BufferClass::kGradient, scalar.bytes(), scalar.dtype, scalar.shape);
    case ir::ScalarReader::kMeanLoss:
      return declare("count " + scalar.name, BufferClass::kGradient, scalar.bytes(), scalar.dtype);
    case ir::ScalarReader::kClipping:
      return declare(scalar.name, reports_norms ? BufferClass::kGradient : BufferClass::kArena, scalar.bytes(),
                     scalar.dtype, scalar.shape);
  }
  return {};
}

}  // namespace

std::string pass_name(const ir::Module& module, const ir::ComputeNode& pass) {
  std::string name = module.chunks()[pass.chunk.index].name + ".";
  name += ir::phase_name(pass.phase, module.distribution.backward_split(pass.chunk));
  return module.step.split ? name + " m" + std::to_string(pass.microbatch) : name;
}

Buffers::Buffers(const ir::Module& module, bool reports_norms) : module_(module), reports_norms_(reports_norms) {
  for (const ir::ModelVariant& variant : module.variants) {
    std::unordered_map<uint32_t, uint32_t>& in_place = in_place_.emplace_back();
    for (const ir::Exchange& exchange : variant.lowered.exchanges)
      if (exchange.in_place) in_place.emplace(exchange.to.index, exchange.from.index);
  }
}

std::string Buffers::microbatch_mark(int32_t microbatch) const {
  return module_.step.split && microbatch >= 0 ? " m" + std::to_string(microbatch) : "";
}

std::string Buffers::variant_mark(size_t variant) const {
  return variant == 0 ? "" : " b" + std::to_string(module_.variants[variant].local_batch);
}

BufferKey Buffers::value(ir::ValueId root, int32_t microbatch, size_t variant) const {
  uint32_t where = root.index;
  for (auto at = in_place_[variant].find(where); at != in_place_[variant].end(); at = in_place_[variant].find(where))
    where = at->second;
  return {BufferKind::kValue, where, microbatch, static_cast<uint32_t>(variant)};
}

BufferKey Buffers::gathered_for(ir::BucketId bucket, ir::NodeId gather) const {
  if (module_.state.buckets[bucket.index].residency == ir::Residency::kStep)
    return {BufferKind::kGathered, bucket.index};
  return {BufferKind::kGathered, bucket.index, -1, 0, gather.index};
}

BufferKey Buffers::gradients(ir::BucketId bucket, int32_t microbatch) const {
  const bool each = module_.state.buckets[bucket.index].gradients == ir::Kept::kPart;
  return {BufferKind::kGradients, bucket.index, each ? microbatch : -1};
}

plan::Buffer Buffers::declaration(const BufferKey& key) const {
  const ir::Graph& of = graph(key.variant);
  const std::string mark = microbatch_mark(key.microbatch);
  const auto bucket = [&]() -> const ir::Bucket& { return module_.state.buckets[key.id]; };
  // For parameters, gradients and moments.
  const auto declare_state = [&](std::string name, BufferClass cls, int64_t bytes) {
    return declare(std::move(name), cls, bytes, bucket().dtype);
  };
  const auto kept_bytes = [&](ir::Kept kept) {
    return kept == ir::Kept::kPart ? bucket().part_bytes() : bucket().bytes;
  };
  switch (key.kind) {
    case BufferKind::kInput: {
      const ir::Input& input = of.inputs()[key.id];
      return declare(input.name + mark + variant_mark(key.variant), BufferClass::kInput, of.type(input.value));
    }
    case BufferKind::kSeedStep:
      return declare("seed_step", BufferClass::kScalar, 2 * dtype_bytes(DType::kI64), DType::kI64, {2});
    case BufferKind::kSampleOffset:
      return declare("sample_offset" + mark + variant_mark(key.variant), BufferClass::kScalar, dtype_bytes(DType::kI64),
                     DType::kI64, {1});
    case BufferKind::kPlace: return declare("place", BufferClass::kScalar, dtype_bytes(DType::kI64), DType::kI64, {1});
    case BufferKind::kState: {
      const ir::Parameter& state = of.buffers()[key.id];
      return declare("state " + state.names[0], BufferClass::kState, of.type(state.value));
    }
    case BufferKind::kFrozen: {
      const ir::Parameter& parameter = of.parameters()[key.id];
      return declare("param " + parameter.names[0], BufferClass::kParameter, of.type(parameter.value));
    }
    case BufferKind::kValue: {
      const ir::Value& value = of.value(ir::ValueId(key.id));
      return declare(value.name + mark + variant_mark(key.variant), BufferClass::kArena, value.type);
    }
    case BufferKind::kStepValue: {
      const ir::Value& value = of.value(ir::ValueId(key.id));
      return declare("step " + value.name, BufferClass::kArena, value.type.bytes(), value.type.dtype);
    }
    case BufferKind::kScalar: return declare_scalar(module_.dag.scalars[key.id], reports_norms_);
    case BufferKind::kScalarSum: {
      const ir::StepScalar& scalar = module_.dag.scalars[key.id];
      return declare(scalar.name + " sum", BufferClass::kGradient, scalar.bytes(), scalar.dtype);
    }
    case BufferKind::kParameters:
      return declare_state("param " + bucket().name + (bucket().trained() == ir::Kept::kPart ? " part" : ""),
                           BufferClass::kParameter, kept_bytes(bucket().trained()));
    case BufferKind::kWorking:
      return declare("working " + bucket().name + (bucket().parameters == ir::Kept::kPart ? " part" : ""),
                     BufferClass::kParameter, bucket().read_offset(kept_bytes(bucket().parameters)), bucket().read());
    case BufferKind::kGradients:
      return declare_state("grad " + bucket().name + mark,
                           bucket().gradients == ir::Kept::kPart ? BufferClass::kArena : BufferClass::kGradient,
                           bucket().bytes);
    case BufferKind::kSummedPart:
      return declare_state("grad " + bucket().name + " part", BufferClass::kGradient, bucket().part_bytes());
    case BufferKind::kArrivingPart:
      return declare_state("sum " + bucket().name + mark, BufferClass::kArena, bucket().part_bytes());
    case BufferKind::kUse: {
      const ir::Accumulator& use = module_.state.accumulators[key.id];
      return declare("grad " + of.parameters()[use.parameter].names[0] + " use " + std::to_string(use.use),
                     BufferClass::kArena, module_.state.summed_bytes(ir::AccumulatorId(key.id)),
                     module_.state.buckets[use.bucket.index].dtype);
    }
    case BufferKind::kFirstMoment:
      return declare_state("m " + bucket().name, BufferClass::kOptimizer, kept_bytes(bucket().moments));
    case BufferKind::kSecondMoment:
      return declare_state("v " + bucket().name, BufferClass::kOptimizer, kept_bytes(bucket().moments));
    case BufferKind::kLearningRate:
      return declare("learning_rate", BufferClass::kScalar, dtype_bytes(DType::kF64), DType::kF64);
    case BufferKind::kOptimizerStep:
      return declare("optimizer_step", BufferClass::kTraining, dtype_bytes(DType::kI64), DType::kI64);
    case BufferKind::kLossScale:
      return declare("loss_scale", BufferClass::kTraining, dtype_bytes(DType::kF32), DType::kF32);
    case BufferKind::kGoodSteps:
      return declare("good_steps", BufferClass::kTraining, dtype_bytes(DType::kI64), DType::kI64);
    case BufferKind::kConstant:
    case BufferKind::kSaved:
    case BufferKind::kGathered:
    case BufferKind::kWorkspace: break;
  }
  PIPER_CHECK(false, "a key alone does not declare a buffer of kind ", static_cast<int>(key.kind));
  return {};
}

plan::Buffer Buffers::gathered(ir::BucketId id, const ir::ComputeNode& reader) const {
  const ir::Bucket& bucket = module_.state.buckets[id.index];
  std::string name = (bucket.working ? "working " : "param ") + bucket.name;
  switch (bucket.residency) {
    case ir::Residency::kUse: name += " for " + pass_name(module_, reader); break;
    case ir::Residency::kMicrobatch: name += microbatch_mark(reader.microbatch); break;
    case ir::Residency::kStep: break;
  }
  return declare(std::move(name), BufferClass::kArena, bucket.read_offset(bucket.bytes), bucket.read());
}

plan::Buffer Buffers::constant(const std::string& name, const ir::TensorType& type) const {
  return declare("const " + name, BufferClass::kConstant, type);
}

plan::Buffer Buffers::saved(const BufferKey& key, int64_t bytes) const {
  static constexpr const char* kBlock[ir::kNumSavedBlocks] = {" saved", " saved for W", " kept for W"};
  plan::Buffer mixed;
  mixed.name =
      module_.chunks()[key.id].name + kBlock[key.part] + microbatch_mark(key.microbatch) + variant_mark(key.variant);
  mixed.cls = BufferClass::kArena;
  mixed.bytes = bytes;
  return mixed;
}

plan::Buffer Buffers::workspace(const std::string& stream) const {
  plan::Buffer mixed;
  mixed.name = stream == "compute" ? "workspace" : "workspace " + stream;
  mixed.cls = BufferClass::kArena;
  return mixed;
}

}  // namespace piper::emit
