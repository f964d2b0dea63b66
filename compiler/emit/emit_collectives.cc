// Collectives: sums of gradients, scalars and values; gathers of parameters; exchanges.
#include <algorithm>

#include "compiler/emit/role_emitter.h"
#include "compiler/emit/step_programs.h"
#include "schemas/base/check.h"

namespace piper::emit {

using plan::BufferRange;

void RoleEmitter::emit(const Visit& at, const ir::CollectiveNode& n) {
  const auto* gradients = std::get_if<ir::GradientOperand>(&n.what);
  const auto* parameters = std::get_if<ir::ParameterOperand>(&n.what);
  const ir::ComputeNode* pass = ir::chunk_pass(at.node.payload);
  switch (n.kind) {
    case ir::CollectiveKind::kAllReduce: return all_reduce(at, n);
    case ir::CollectiveKind::kReduceScatter:
      if (pass != nullptr) return scatter_value(at, n, *pass);
      PIPER_CHECK(gradients != nullptr, "only gradients are kept in parts: ", module_.describe(at.id));
      return reduce_scatter(at, n, *gradients);
    case ir::CollectiveKind::kAllGather:
      if (pass != nullptr) return gather_value(at, *pass);
      PIPER_CHECK(parameters != nullptr, "only parameters are gathered: ", module_.describe(at.id));
      return all_gather(at, *parameters);
    case ir::CollectiveKind::kAllToAll:
      PIPER_CHECK(pass != nullptr, "only values are exchanged: ", module_.describe(at.id));
      return all_to_all(at, n, *pass);
  }
}

void RoleEmitter::all_reduce(const Visit& at, const ir::CollectiveNode& n) {
  BufferRange where;
  int64_t count = 0;
  if (const auto* value_sum = std::get_if<ir::ValueOperand>(&n.what)) {
    const size_t variant = s_.variant_of_group(at.node.group);
    where = value(value_sum->value, value_sum->at.microbatch, variant);
    count = graph(variant).type(value_sum->value).elements();
    keep_operand(at, value_sum->at, where);
  } else if (const auto* gradients = std::get_if<ir::GradientOperand>(&n.what)) {
    const ir::Bucket& b = bucket(gradients->bucket);
    where = start_of(summed_of(gradients->bucket));
    count = b.elements(b.summed() == ir::Kept::kPart ? b.part_bytes() : b.bytes);
  } else if (const auto* sum = std::get_if<ir::ScalarOperand>(&n.what)) {
    where = scalar(sum->scalar);
    count = module_.dag.scalars[sum->scalar.index].elements();
  } else {
    PIPER_CHECK(false, "no place for the sum: ", module_.describe(at.id));
  }
  const Lane lane = communicator(at.communicator, at.node.stream);
  add(lane.stream, plan::AllReduce{where, count, n.types, lane.index, n.reduction}, {{where.buffer, true, true}},
      at.provenance);
}

// An operand that others read too is summed in a copy.
void RoleEmitter::keep_operand(const Visit& at, const ir::ComputeNode& pass, const BufferRange& sum) {
  const size_t variant = s_.variant_of_group(at.node.group);
  const ir::Exchange& exchange = s_.find_exchange(variant, pass.chunk, pass.phase);
  if (exchange.in_place) return;
  const BufferRange operand = value(exchange.from, pass.microbatch, variant);
  const int64_t bytes = graph(variant).type(exchange.to).bytes();
  run(s_.intern_program(copy_program(bytes, s_.cut_of(at.node.group))), "copy " + plan_.buffers[sum.buffer].name,
      {operand, sum}, at.provenance, communicator(at.communicator, at.node.stream).stream);
}

void RoleEmitter::reduce_scatter(const Visit& at, const ir::CollectiveNode& n, const ir::GradientOperand& gradients) {
  const ir::Bucket& b = bucket(gradients.bucket);
  const Lane lane = communicator(at.communicator, at.node.stream);
  plan::ReduceScatter reduce;
  reduce.count = b.elements(b.part_bytes());
  reduce.types = n.types;
  reduce.communicator = lane.index;
  reduce.reduction = n.reduction;
  if (b.gradients == ir::Kept::kWhole) {
    reduce.data = start_of(s_.buffers.gradients(gradients.bucket, -1));
    if (b.across.valid()) reduce.out = start_of(summed_of(gradients.bucket));
    add(lane.stream, reduce, {{reduce.data.buffer, true, !b.across.valid()}}, at.provenance);
    if (b.across.valid()) touch({reduce.out.buffer, false, true});
    return;
  }
  // The microbatch that runs here; a member that has none left adds zeros.
  const ir::ChunkId chunk = module_.state.accumulators[b.accumulators[0].index].chunk;
  const auto own = std::find_if(gradients.microbatches.begin(), gradients.microbatches.end(),
                                [&](int32_t m) { return role_.is_member(module_.distribution.group(chunk, m)); });
  const bool idle = own == gradients.microbatches.end();
  const int32_t microbatch = idle ? gradients.microbatches[0] : *own;
  if (idle) clear_gradients(gradients.bucket, microbatch, at.provenance, lane.stream);
  reduce.data = start_of(s_.buffers.gradients(gradients.bucket, microbatch));
  reduce.out = start_of({BufferKind::kArrivingPart, gradients.bucket.index, microbatch});
  add(lane.stream, reduce, {{reduce.data.buffer, true, false}, {reduce.out.buffer, false, true}}, at.provenance);
  // Added up where it arrives, so that no compute waits for the reduction.
  run(s_.intern_program(add_program(b.part_bytes(), b.dtype)), "add " + b.name + s_.buffers.microbatch_mark(microbatch),
      {start_of({BufferKind::kSummedPart, gradients.bucket.index}), reduce.out}, at.provenance, lane.stream);
}

void RoleEmitter::all_gather(const Visit& at, const ir::ParameterOperand& parameters) {
  const ir::Bucket& b = bucket(parameters.bucket);
  const Lane lane = communicator(at.communicator, at.node.stream);
  const BufferRange kept = start_of(read_of(parameters.bucket));
  plan::AllGather gather;
  gather.count = b.elements(b.part_bytes());
  gather.dtype = b.read();
  gather.communicator = lane.index;
  if (parameters.readers.empty()) {
    gather.data = kept;
    add(lane.stream, gather, {{gather.data.buffer, true, true}}, at.provenance);
    return;
  }
  // A member that runs none of the readers takes part anyway.
  const auto own =
      std::find_if(parameters.readers.begin(), parameters.readers.end(), [&](const ir::ComputeNode& reader) {
        return role_.is_member(module_.distribution.group(reader.chunk, reader.microbatch));
      });
  const ir::ComputeNode& reader = own == parameters.readers.end() ? parameters.readers[0] : *own;
  gather.part = kept;
  gather.data = {
      declare(s_.buffers.gathered_for(parameters.bucket, at.id), s_.buffers.gathered(parameters.bucket, reader)), 0};
  add(lane.stream, gather, {{gather.part.buffer, true, false}, {gather.data.buffer, false, true}}, at.provenance);
}

void RoleEmitter::gather_value(const Visit& at, const ir::ComputeNode& pass) {
  const size_t variant = s_.variant_of_group(at.node.group);
  const ir::Exchange& exchange = s_.find_exchange(variant, pass.chunk, pass.phase);
  const ir::TensorType& part = graph(variant).type(exchange.from);
  const Lane lane = communicator(at.communicator, at.node.stream);
  plan::AllGather gather;
  gather.part = value(exchange.from, pass.microbatch, variant);
  gather.data = value(exchange.to, pass.microbatch, variant);
  gather.count = part.elements();
  gather.dtype = part.dtype;
  gather.communicator = lane.index;
  add(lane.stream, gather, {{gather.part.buffer, true, false}, {gather.data.buffer, false, true}}, at.provenance);
}

void RoleEmitter::scatter_value(const Visit& at, const ir::CollectiveNode& n, const ir::ComputeNode& pass) {
  const size_t variant = s_.variant_of_group(at.node.group);
  const ir::Exchange& exchange = s_.find_exchange(variant, pass.chunk, pass.phase);
  const Lane lane = communicator(at.communicator, at.node.stream);
  plan::ReduceScatter reduce;
  reduce.data = value(exchange.from, pass.microbatch, variant);
  reduce.out = value(exchange.to, pass.microbatch, variant);
  reduce.count = graph(variant).type(exchange.to).elements();
  reduce.types = n.types;
  reduce.communicator = lane.index;
  reduce.reduction = n.reduction;
  add(lane.stream, reduce, {{reduce.data.buffer, true, false}, {reduce.out.buffer, false, true}}, at.provenance);
}

void RoleEmitter::all_to_all(const Visit& at, const ir::CollectiveNode& n, const ir::ComputeNode& pass) {
  const size_t variant = s_.variant_of_group(at.node.group);
  const ir::Exchange& exchange = s_.find_exchange(variant, pass.chunk, pass.phase);
  const ir::TensorType& type = graph(variant).type(exchange.to);
  const Lane lane = communicator(at.communicator, at.node.stream);
  plan::AllToAll action;
  action.send = value(exchange.from, pass.microbatch, variant);
  action.recv = value(exchange.to, pass.microbatch, variant);
  action.count = type.elements() / static_cast<int64_t>(module_.distribution.teams[n.teams.index][0].size());
  action.dtype = type.dtype;
  action.communicator = lane.index;
  if (exchange.send_counts.valid() && !s_.sends_whole_parts(pass.chunk)) {
    action.send_counts = value(exchange.send_counts, pass.microbatch, variant);
    action.recv_counts = value(exchange.receive_counts, pass.microbatch, variant);
    action.row = action.count / type.shape[1];  // [members, rows, ..]
  }
  add(lane.stream, action, {{action.send.buffer, true, false}, {action.recv.buffer, false, true}}, at.provenance);
  for (const BufferRange& counts : {action.send_counts, action.recv_counts})
    if (counts.buffer >= 0) touch({counts.buffer, true, false});
}

}  // namespace piper::emit
