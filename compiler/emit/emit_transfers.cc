// Messages between device groups: values of the model, gradients of tied parameters, the loss.
#include <algorithm>

#include "compiler/emit/rank_emitter.h"
#include "compiler/emit/step_programs.h"

namespace piper::emit {

using plan::BufferClass;
using plan::BufferRange;

Status RankEmitter::transfer(const ir::Node& node, const ir::TransferNode& n) {
  switch (n.cargo) {
    case ir::Cargo::kValue: return transfer_value(node, n);
    case ir::Cargo::kAccumulator: transfer_accumulator(node, n); return Status();
    case ir::Cargo::kLoss:
      for (const Message& message : s_.connections.messages(node, n, rank_)) {
        plan_.loss = {buffer("loss", BufferClass::kGradient, 4, DType::kF32, {}), 0};
        pass(message, plan_.loss, 4, node);
      }
      return Status();
  }
  return Status();
}

void RankEmitter::pass(const Message& message, BufferRange data, int64_t bytes, const ir::Node& node) {
  if (message.from == rank_) send(data, bytes, message.to, node.stream, s_.provenance(node.prov));
  if (message.to == rank_) receive(data, bytes, message.from, node.stream, s_.provenance(node.prov));
}

Status RankEmitter::transfer_value(const ir::Node& node, const ir::TransferNode& n) {
  const auto& from = module_.distribution.groups[node.group.index].ranks;
  const auto& to = module_.distribution.groups[n.to.index].ranks;
  const int32_t prov = s_.provenance(node.prov);
  const size_t from_variant = s_.variant_of_group(node.group), to_variant = s_.variant_of_group(n.to);
  const ir::TensorType& from_type = s_.request.variants[from_variant].graph->type(n.value);
  const ir::TensorType& to_type = s_.request.variants[to_variant].graph->type(n.value);
  const auto large = static_cast<int64_t>(std::max(from.size(), to.size()));
  const bool per_sample = from_type.shape != to_type.shape;
  if (from.size() != to.size() && !per_sample && n.phase == ir::Phase::kBackward)
    return Status::failure("P0511", "the gradient '" + s_.request.variants[0].graph->value(n.value).name +
                                        "' is not per sample and would have to be summed between groups of " +
                                        std::to_string(from.size()) + " and " + std::to_string(to.size()) + " devices");
  if (per_sample) {
    // Parts must be contiguous: the axis that differs is the outermost in memory.
    const auto& strides = s_.request.variants[from_variant].lowered->layouts[n.value.index].strides;
    for (size_t axis = 0; axis < from_type.shape.size(); ++axis)
      if (from_type.shape[axis] != to_type.shape[axis])
        for (size_t other = 0; other < strides.size(); ++other)
          if (other != axis && from_type.shape[other] > 1 && strides[other] > strides[axis])
            return Status::failure("P0510", "'" + s_.request.variants[0].graph->value(n.value).name +
                                                "' is exchanged between groups of " + std::to_string(from.size()) +
                                                " and " + std::to_string(to.size()) +
                                                " devices, but its samples are not contiguous in memory");
  }
  const bool many_to_one = static_cast<int64_t>(from.size()) == large,
             one_to_many = static_cast<int64_t>(to.size()) == large;
  const int64_t bytes = std::min(from_type.bytes(), to_type.bytes());
  for (const Message& message : s_.connections.messages(node, n, rank_)) {
    const int64_t part = per_sample ? message.part * bytes : 0;
    // Several identical copies of a value that is the same for every sample: the first one serves.
    if (!per_sample && many_to_one && message.part != 0) continue;
    const auto sent = [&] {
      BufferRange where = value(n.value, n.microbatch, from_variant);
      where.offset += many_to_one ? 0 : part;
      return where;
    };
    const auto received = [&] {
      BufferRange where = value(n.value, n.microbatch, to_variant);
      where.offset += one_to_many ? 0 : part;
      return where;
    };
    if (message.from != message.to) {
      pass(message, message.from == rank_ ? sent() : received(), bytes, node);
      continue;
    }
    if (from_variant == to_variant) continue;  // the same buffer
    const BufferRange source = sent(), copy = received();
    run(s_.intern_program(copy_program(bytes)), "copy " + plan_.buffers[copy.buffer].name, {source, copy}, prov);
  }
  return Status();
}

void RankEmitter::transfer_accumulator(const ir::Node& node, const ir::TransferNode& n) {
  const int64_t bytes = summed_bytes(n.accumulator);
  for (const Message& message : s_.connections.messages(node, n, rank_)) {
    bool& done = received_[{n.accumulator.index, message.to}];  // a member of two receiving groups gets it once
    if (done) continue;
    done = true;
    pass(message,
         message.from == rank_ ? summed_gradient(n.accumulator) : BufferRange{received_gradient(n.accumulator), 0},
         bytes, node);
  }
}

}  // namespace piper::emit
