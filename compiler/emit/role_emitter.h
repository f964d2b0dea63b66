// Emits the plan of a role: walks its nodes in the order of the DAG and binds each slot of a program to a buffer. Used
// by emit_bundle only. Its methods are in role_emitter.cc (instructions, computes), bind_slots.cc (buffers),
// emit_transfers.cc, emit_collectives.cc, emit_step_work.cc and emit_placements.cc. What all roles share is in
// emit_shared.h. It knows no rank: whatever it reads is the same for every device of the role.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/emit/buffers.h"
#include "compiler/emit/emit_shared.h"
#include "compiler/emit/place_buffers.h"
#include "compiler/emit/role.h"
#include "compiler/emit/step_programs.h"

namespace piper::emit {

// A buffer that holds, or numbers, the samples that a device of the group has of a microbatch.
struct SampleOrigin {
  int32_t buffer = -1;
  ir::GroupId group;
  int32_t microbatch = 0;
};
// What one of the plan's first placements says a tensor of the model is.
struct HeldTensor {
  enum class Kind : uint8_t { kTrained, kFrozen, kState } kind = Kind::kTrained;
  uint32_t index = 0;     // into the graph's parameters, or its buffers
  ir::AccumulatorId use;  // kTrained: by which it is held
  // The placement is of what the device's part of the bucket has of it: where a device with the first part would have
  // the bucket's first byte. The buffer holds the bucket, or only that part; elements of what programs read, or of what
  // is trained.
  bool cut = false;
  ir::Kept kept = ir::Kept::kWhole;
  bool read = false;
};
// An argument that lies in the device's own part of a whole bucket.
struct PartArgument {
  int32_t list = -1;  // index into the plan's argument lists
  size_t slot = 0;
  ir::TeamsId teams;       // whose members have the parts
  int64_t part_bytes = 0;  // of each
};
// A plan without what a Binding says: peers, samples; `first` and `owner` of placements are those of a device that has
// the first slice and saves nothing, arguments and placements of parts those of one that has the first part.
struct RolePlan {
  plan::RankPlan plan;
  std::vector<SampleOrigin> samples;
  std::vector<HeldTensor> held;     // [placement of the model]
  std::vector<PartArgument> parts;  // lists in ascending order
};

class RoleEmitter {
 public:
  // `number`: of a program that is the role's own.
  RoleEmitter(EmitShared& shared, const Role& role, int32_t number)
      : s_(shared), module_(shared.module), role_(role), number_(number) {}
  Result<RolePlan> emit();

 private:
  // A node as the role takes part in it.
  struct Visit {
    ir::NodeId id;
    const ir::Node& node;
    uint32_t communicator = 0;
    std::span<const RoleMessage> messages;
    std::span<const UpdatePiece> updates;
    int32_t provenance = -1;
  };
  // A channel or communicator of the plan, and the stream that is its own.
  struct Lane {
    int32_t index = -1, stream = -1;
  };

  // --- nodes
  Status visit(const Visit& at);
  void emit(const Visit& at, const ir::ComputeNode& n);
  void emit(const Visit& at, const ir::CollectiveNode& n);
  void all_reduce(const Visit& at, const ir::CollectiveNode& n);
  void keep_operand(const Visit& at, const ir::ComputeNode& pass, const plan::BufferRange& sum);
  void reduce_scatter(const Visit& at, const ir::CollectiveNode& n, const ir::GradientOperand& gradients);
  void all_gather(const Visit& at, const ir::ParameterOperand& parameters);
  void all_to_all(const Visit& at, const ir::CollectiveNode& n, const ir::ComputeNode& pass);
  void gather_value(const Visit& at, const ir::ComputeNode& pass);
  void scatter_value(const Visit& at, const ir::CollectiveNode& n, const ir::ComputeNode& pass);
  Status transfer(const Visit& at, const ir::TransferNode& n);
  Status transfer_value(const Visit& at, const ir::TransferNode& n, const ir::ValueOperand& operand);
  void pass(const Visit& at, const RoleMessage& message, plan::BufferRange data, int64_t count, DType dtype);
  void emit(const Visit& at, const ir::TakeScalar& work);
  void emit(const Visit& at, const ir::FinishCounts& work);
  void emit(const Visit& at, const ir::CombineUses& work);
  void emit(const Visit& at, const ir::MeasureGradients& work);
  void emit(const Visit& at, const ir::ClipGradients& work);
  void emit(const Visit& at, const ir::AdvanceOptimizer& work);
  void emit(const Visit& at, const ir::CheckGradients& work);
  void emit(const Visit& at, const ir::UnscaleGradients& work);
  void emit(const Visit& at, const ir::UpdateNode& n);
  void update(const Visit& at, const ir::UpdateNode& n, const UpdatePiece& piece);
  void clear_gradients(ir::BucketId bucket, int32_t microbatch, int32_t provenance, int32_t stream_index);
  void log(ir::ScalarId scalar);
  // --- instructions
  // `arguments`: a range for each slot of the program.
  void run(int32_t program, std::string arguments_name, std::vector<plan::BufferRange> arguments, int32_t provenance,
           int32_t stream_index = 0);
  template <class Launch>
  void launch(Launch instruction, std::string arguments_name, std::vector<plan::BufferRange> arguments,
              int32_t provenance, int32_t stream_index);
  void add(int32_t stream, plan::Action action, std::initializer_list<Access> accesses, int32_t provenance);
  void touch(Access access) { trace_.accesses.push_back(access); }  // of the instruction added last
  int32_t stream(const std::string& name, uint32_t dag_stream);
  int32_t stream_of(uint32_t dag_stream);  // by index into Distribution::streams, for computes
  Lane channel(uint32_t number, uint32_t dag_stream);
  Lane communicator(uint32_t number, uint32_t dag_stream);
  // --- buffers
  int32_t find(const BufferKey& key) const;  // -1: none yet
  int32_t declare(const BufferKey& key, plan::Buffer buffer);
  int32_t buffer(const BufferKey& key);
  plan::BufferRange start_of(const BufferKey& key) { return {buffer(key), 0}; }
  plan::BufferRange value(ir::ValueId root, int32_t microbatch, size_t variant) {
    return start_of(s_.buffers.value(root, microbatch, variant));
  }
  plan::BufferRange scalar(ir::ScalarId id) { return start_of({BufferKind::kScalar, id.index}); }
  plan::BufferRange parameter(uint32_t p, const Visit& reader);
  plan::BufferRange gradient(ir::AccumulatorId use, int32_t microbatch);
  plan::BufferRange summed_gradient(ir::AccumulatorId use);
  // The buffers that have a bucket, or the part of it that the device keeps.
  static BufferKey parameters_of(ir::BucketId id) { return {BufferKind::kParameters, id.index}; }
  BufferKey read_of(ir::BucketId id) const;  // what programs read: working copies, or the parameters
  BufferKey summed_of(ir::BucketId id) const;
  static BufferKey moment_of(ir::BucketId id, int32_t which);  // 0: the first
  plan::BufferRange bind(const ir::SlotHolds& holds, const plan::Slot& slot, size_t variant,
                         const ir::ComputeNode& pass, const Visit& at);
  plan::BufferRange bind_input(uint32_t index, size_t variant, int32_t microbatch, ir::GroupId group);
  plan::BufferRange bind_constant(uint32_t index, size_t variant);
  plan::BufferRange workspace(int64_t bytes, int32_t stream_index);
  void place_model();
  std::vector<OwnedGradient> owned_gradients(std::vector<plan::BufferRange>& arguments);
  // --- facts
  ir::AccumulatorId primary(uint32_t p) const { return role_.primary(module_.state, p); }
  const ir::Bucket& bucket(ir::BucketId id) const { return module_.state.buckets[id.index]; }
  const ir::Graph& graph(size_t variant = 0) const { return module_.variants[variant].chunked.graph; }
  // The device's part of a bucket. Only where the role counts parts.
  ir::Stretch own_part(const ir::Bucket& bucket) const;

  EmitShared& s_;
  const ir::Module& module_;
  const Role& role_;
  const int32_t number_;
  RolePlan out_;
  plan::RankPlan& plan_ = out_.plan;
  Trace trace_;
  std::unordered_map<BufferKey, int32_t> buffers_;
  std::unordered_map<std::string, int32_t> streams_;
  std::unordered_map<uint32_t, Lane> lanes_;  // by number of the name
  std::vector<int32_t> stream_of_;            // [stream of the DAG], -1: not asked for yet
  // The arguments of a program that all its runs have, buffer = -1 for the others.
  std::unordered_map<const ir::LoweredProgram*, std::vector<plan::BufferRange>> fixed_arguments_;
  std::unordered_set<uint32_t> combined_;  // parameters
};

}  // namespace piper::emit
