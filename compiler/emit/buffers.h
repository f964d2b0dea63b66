// What a buffer of a plan holds, as a key by which it is found, and from the key all that a plan declares of it: name,
// class, bytes, element type. Names exist for plans and those who read them; nothing looks a buffer up by one.
//
// The emitter of a role finds and declares its buffers by it, and what ranks share is put together by it
// (role_emitter.h, emit_shared.h). A key says nothing of devices: a buffer of the same key is declared alike by all of
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/module.h"

namespace piper::emit {

enum class BufferKind : uint8_t {
  kInput,         // an input of the graph
  kSeedStep,      // the seed of the run and the number of the step
  kSampleOffset,  // the number of a microbatch's first sample
  kPlace,         // which of the devices that share samples it is
  kConstant,      // by content, which variants may share
  kState,         // running statistics: a buffer of the graph
  kFrozen,        // a parameter that is not trained
  kValue,         // a root of the graph
  kSaved,         // what one program of a chunk leaves for a later one
  kStepValue,     // a root that exists once a step
  kScalar,        // a step scalar
  kScalarSum,     // the sum to which forwards add a scalar
  kParameters,    // of a bucket, as the device keeps them
  kWorking,       // copies of a bucket's parameters in the type that programs read
  kGathered,      // of a bucket, for the readers of one gather
  kGradients,     // of a bucket, as they are added up
  kSummedPart,    // of a bucket's gradients where each member keeps a part
  kArrivingPart,  // the same of one microbatch, before it is added
  kUse,           // a gradient, made by another rank, of a parameter that this rank owns, as it arrives
  kFirstMoment,
  kSecondMoment,
  kLearningRate,   // of the step
  kOptimizerStep,  // how often the optimizer has updated
  kLossScale,      // what multiplies the gradient of the loss
  kGoodSteps,      // steps without an overflow since the loss scale last changed
  kWorkspace,      // of a stream
};

struct BufferKey {
  BufferKind kind = BufferKind::kValue;
  uint32_t id = 0;          // of what the kind names
  int32_t microbatch = -1;  // -1: the same for all
  uint32_t variant = 0;     // of the model, where the size depends on it
  uint32_t part = 0;        // kSaved: a SavedBlock; kGathered for one use: the gather's node
  friend bool operator==(const BufferKey&, const BufferKey&) = default;
};

class Buffers {
 public:
  // `reports_norms`: sums of squares of gradients are kept for the host until the step's end.
  Buffers(const ir::Module& module, bool reports_norms);

  // For any kind but kGathered, kConstant, kSaved and kWorkspace, whose keys do not say their size: see below.
  plan::Buffer declaration(const BufferKey& key) const;
  plan::Buffer gathered(ir::BucketId bucket, const ir::ComputeNode& reader) const;
  plan::Buffer constant(const std::string& name, const ir::TensorType& type) const;
  plan::Buffer saved(const BufferKey& key, int64_t bytes) const;
  plan::Buffer workspace(const std::string& stream) const;

  // For a sum over ranks in place: the key of what is summed.
  BufferKey value(ir::ValueId root, int32_t microbatch, size_t variant) const;
  // The key under which a gather leaves parameters of a bucket for its readers.
  BufferKey gathered_for(ir::BucketId bucket, ir::NodeId gather) const;
  // The key under which gradients of a bucket are added up on a microbatch.
  BufferKey gradients(ir::BucketId bucket, int32_t microbatch) const;
  // " m3" for a microbatch's own buffers, " b2" for those of a piece of another size than the first variant's.
  std::string microbatch_mark(int32_t microbatch) const;
  std::string variant_mark(size_t variant) const;

 private:
  const ir::Graph& graph(size_t variant) const { return module_.variants[variant].chunked.graph; }
  const ir::Module& module_;
  const bool reports_norms_;
  std::vector<std::unordered_map<uint32_t, uint32_t>> in_place_;  // [variant] a sum over ranks -> what is summed
};

// "PP0.F m3": a pass of a chunk in a plan.
std::string pass_name(const ir::Module& module, const ir::ComputeNode& pass);

}  // namespace piper::emit

template <>
struct std::hash<piper::emit::BufferKey> {
  size_t operator()(const piper::emit::BufferKey& key) const noexcept {
    size_t hash = (static_cast<size_t>(key.id) << 32) ^ (static_cast<size_t>(key.kind) << 24) ^
                  static_cast<size_t>(static_cast<uint32_t>(key.microbatch) << 8) ^ key.variant;
    return (hash ^ (static_cast<size_t>(key.part) << 16)) * 0x9e3779b97f4a7c15u >> 7;
  }
};
