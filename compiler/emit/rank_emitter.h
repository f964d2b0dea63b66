// Emits the plan of one rank: walks the DAG's order, keeps the nodes that involve the rank, binds each
// program slot to a buffer. Used by emit_bundle only. Its methods stand in rank_emitter.cc (buffers, computes),
// emit_transfers.cc, emit_collectives.cc, emit_step_work.cc and emit_like.cc. What all ranks share stands in
// emit_shared.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/emit/emit_shared.h"
#include "compiler/emit/place_buffers.h"
#include "compiler/emit/same_work.h"
#include "compiler/emit/sort_declarations.h"

namespace piper::emit {

// By name of a buffer: the group and microbatch whose samples it holds or numbers.
using SampleOrigins = std::map<std::string, std::pair<ir::GroupId, int32_t>>;

class RankEmitter {
 public:
  // `guess`: where a rank with the same nodes had its buffers, often this one's place for them too; it becomes this
  // one's.
  RankEmitter(EmitShared& shared, int32_t rank, PlacedArena& guess)
      : s_(shared), module_(*shared.request.module), rank_(rank), guess_(guess) {}
  Result<plan::RankPlan> emit();
  // The plan of a rank whose work is that of `first`, which is complete; `samples` are its emitter's.
  plan::RankPlan emit_like(const plan::RankPlan& first, const SampleOrigins& samples, const RankWork& work);
  const SampleOrigins& samples() const { return samples_; }

 private:
  // The ranks that share a bucket's sums with this one, and this rank's part of the bucket.
  struct Team {
    const std::vector<int32_t>* ranks = nullptr;
    int64_t position = 0, part_bytes = 0;
  };
  // Elements [first, first + count) of a whole parameter that this rank updates.
  struct Piece {
    int64_t first = 0, count = 0;
    plan::BufferRange value, gradient;
    bool owner = false;  // this rank alone counts and saves them
  };
  // --- nodes
  Status visit(const ir::Node& node);
  void compute(const ir::Node& node, const ir::ComputeNode& n);
  void step(const ir::Node& node, const ir::StepNode& n);
  Status transfer(const ir::Node& node, const ir::TransferNode& n);
  Status transfer_value(const ir::Node& node, const ir::TransferNode& n);
  void pass(const Message& message, plan::BufferRange data, int64_t bytes, const ir::Node& node);
  void transfer_accumulator(const ir::Node& node, const ir::TransferNode& n);
  void all_reduce(const ir::Node& node, const ir::AllReduceNode& n);
  void reduce_scatter(const ir::Node& node, const ir::ReduceScatterNode& n);
  void all_gather(const ir::Node& node, const ir::AllGatherNode& n);
  void exchange(const ir::Node& node, const ir::ExchangeNode& n);
  void update(const ir::Node& node, const ir::UpdateNode& n);
  void clear_gradients(const LoweredProgram& lowered, const ir::ComputeNode& n, const ir::Node& node);
  std::string compute_name(const ir::ComputeNode& n) const;
  void clear_gradient(const ir::Bucket& bucket, int32_t microbatch, int32_t provenance, int32_t stream_index);
  // --- instructions
  // `arguments`: a range for each slot of the program.
  void run(int32_t program, std::string arguments_name, std::vector<plan::BufferRange> arguments, int32_t provenance,
           int32_t stream_index = 0);
  void send(plan::BufferRange data, int64_t bytes, int32_t peer, uint32_t stream, int32_t provenance);
  void receive(plan::BufferRange data, int64_t bytes, int32_t peer, uint32_t stream, int32_t provenance);
  void add(int32_t stream, plan::Action action, std::initializer_list<Access> accesses, int32_t provenance);
  void touch(Access access) { trace_.accesses.push_back(access); }  // of the instruction added last
  int32_t stream(const std::string& name);
  int32_t stream_of(uint32_t dag_stream);  // by index into Dag::streams, for computes
  // A channel or communicator of the plan, and the stream that is its own.
  struct Lane {
    int32_t index = -1, stream = -1;
  };
  Lane channel(int32_t peer, bool outgoing, uint32_t stream);
  Lane communicator(uint32_t dag_stream, const std::vector<int32_t>& team);
  // --- buffers
  int32_t find_buffer(std::string_view name) const;  // -1: none yet
  int32_t buffer(std::string_view name, plan::BufferClass cls, int64_t bytes, DType dtype,
                 const std::vector<int64_t>& shape);
  plan::BufferRange value(ir::ValueId root, int32_t microbatch, size_t variant);
  plan::BufferRange parameter(uint32_t p, const ir::ComputeNode* reader = nullptr);
  plan::BufferRange gradient(ir::AccumulatorId accumulator, int32_t microbatch);
  int32_t received_gradient(ir::AccumulatorId accumulator);
  plan::BufferRange summed_gradient(ir::AccumulatorId accumulator);
  int64_t summed_bytes(ir::AccumulatorId accumulator) const;
  int32_t parameter_buffer(const ir::Bucket& bucket, const ir::ComputeNode* reader);
  int32_t parameter_part_buffer(const ir::Bucket& bucket);
  int32_t gradient_buffer(const ir::Bucket& bucket, int32_t microbatch);
  int32_t gradient_part_buffer(const ir::Bucket& bucket);
  plan::BufferRange update_home(const ir::Bucket& bucket, bool gradient);
  Team team_of(const ir::Bucket& bucket) const;
  Piece piece_of(uint32_t p);
  int64_t slice_begin(uint32_t p) const;  // the first element of the parameter that lives on this rank
  plan::BufferRange bind(const SlotHolds& holds, const plan::Slot& slot, size_t variant, const ir::ComputeNode& n,
                         ir::GroupId group);
  plan::BufferRange workspace(int64_t bytes, int32_t stream_index);
  ir::AccumulatorId primary(uint32_t p) const;  // the parameter's first use on this rank, invalid where none
  ir::AccumulatorId accumulator_of(uint32_t p, ir::ChunkId chunk) const;
  int32_t position(ir::GroupId group) const;  // -1: not a member
  int64_t first_sample(ir::GroupId group, int32_t microbatch) const;
  int64_t parameter_bytes(uint32_t p) const;
  void finish_placements();

  EmitShared& s_;
  const ir::Module& module_;
  int32_t rank_;
  PlacedArena& guess_;
  plan::RankPlan plan_;
  Trace trace_;
  // Names of plan_.buffers, by index: looked up by text.
  struct BufferName {
    using is_transparent = void;
    const SharedVector<plan::Buffer>* buffers;
    std::string_view text(int32_t index) const { return (*buffers)[index].name; }
    static std::string_view text(std::string_view name) { return name; }
    size_t operator()(const auto& name) const { return std::hash<std::string_view>()(text(name)); }
    bool operator()(const auto& a, const auto& b) const { return text(a) == text(b); }
  };
  std::unordered_set<int32_t, BufferName, BufferName> buffers_{64, BufferName{&plan_.buffers},
                                                               BufferName{&plan_.buffers}};
  std::unordered_map<std::string, int32_t> streams_;
  SampleOrigins samples_;
  std::unordered_map<uint32_t, Lane> lanes_;                // by number of the name
  std::vector<int32_t> stream_of_;                          // [stream of the DAG], -1: not asked for yet
  std::unordered_map<uint64_t, plan::BufferRange> values_;  // (root, microbatch, variant), packed
  std::string name_;                                        // of a value, while its buffer is made
  // The arguments of a program that all its runs have, buffer = -1 for the others.
  std::unordered_map<const LoweredProgram*, std::vector<plan::BufferRange>> fixed_arguments_;
  std::map<std::pair<uint32_t, int32_t>, bool> received_, combined_;
  std::set<std::pair<uint32_t, int32_t>> cleared_;  // (bucket, microbatch)
};

}  // namespace piper::emit
