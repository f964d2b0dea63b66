// Messages between device groups: values of the model, gradients of tied parameters, scalars of the step.
#include <algorithm>

#include "compiler/emit/role_emitter.h"
#include "compiler/emit/step_programs.h"
#include "schemas/base/check.h"

namespace piper::emit {

using plan::BufferRange;

Status RoleEmitter::transfer(const Visit& at, const ir::TransferNode& n) {
  if (const auto* operand = std::get_if<ir::ValueOperand>(&n.what)) return transfer_value(at, n, *operand);
  for (const RoleMessage& message : at.messages) {
    if (const auto* operand = std::get_if<ir::UseOperand>(&n.what)) {
      const bool sends = message.way == RoleMessage::Way::kSends;
      const ir::Bucket& b = bucket(module_.state.accumulators[operand->use.index].bucket);
      pass(at, message, sends ? summed_gradient(operand->use) : start_of({BufferKind::kUse, operand->use.index}),
           b.elements(module_.state.summed_bytes(operand->use)), b.dtype);
    } else if (const auto* operand = std::get_if<ir::ScalarOperand>(&n.what)) {
      log(operand->scalar);
      const ir::StepScalar& sent = module_.dag.scalars[operand->scalar.index];
      pass(at, message, scalar(operand->scalar), sent.elements(), sent.dtype);
    } else {
      PIPER_CHECK(false, "buckets are not sent: ", module_.describe(at.id));
    }
  }
  return Status();
}

void RoleEmitter::pass(const Visit& at, const RoleMessage& message, BufferRange data, int64_t count, DType dtype) {
  const Lane lane = channel(message.channel, at.node.stream);
  if (message.way == RoleMessage::Way::kSends)
    add(lane.stream, plan::Send{data, count, lane.index, dtype}, {{data.buffer, true, false}}, at.provenance);
  else add(lane.stream, plan::Recv{data, count, lane.index, dtype}, {{data.buffer, false, true}}, at.provenance);
}

Status RoleEmitter::transfer_value(const Visit& at, const ir::TransferNode& n, const ir::ValueOperand& operand) {
  const int64_t senders = module_.distribution.replicas(at.node.group), receivers = module_.distribution.replicas(n.to);
  const size_t from_variant = s_.variant_of_group(at.node.group), to_variant = s_.variant_of_group(n.to);
  const ir::ValueId root = operand.value;
  const ir::TensorType &from_type = graph(from_variant).type(root), &to_type = graph(to_variant).type(root);
  const bool per_sample = from_type.shape != to_type.shape;
  if (senders != receivers && !per_sample && operand.at.phase == ir::Phase::kBackward)
    return Status::failure("P0511", "the gradient '" + graph().value(root).name +
                                        "' is not per sample and would have to be summed between groups of " +
                                        std::to_string(senders) + " and " + std::to_string(receivers) + " replicas");
  if (per_sample) {
    // Parts must be contiguous: the axis that differs is the outermost in memory.
    const auto& strides = module_.variants[from_variant].lowered.layouts[root.index].strides;
    for (size_t axis = 0; axis < from_type.shape.size(); ++axis)
      if (from_type.shape[axis] != to_type.shape[axis])
        for (size_t other = 0; other < strides.size(); ++other)
          if (other != axis && from_type.shape[other] > 1 && strides[other] > strides[axis])
            return Status::failure("P0510", "'" + graph().value(root).name + "' is exchanged between groups of " +
                                                std::to_string(senders) + " and " + std::to_string(receivers) +
                                                " replicas, but its samples are not contiguous in memory");
  }
  const bool many_to_one = senders >= receivers, one_to_many = receivers >= senders;
  const ir::TensorType& type = from_type.elements() < to_type.elements() ? from_type : to_type;
  const int64_t bytes = type.bytes();
  for (const RoleMessage& message : at.messages) {
    const int64_t part = per_sample ? message.part * bytes : 0;
    // Several identical copies of a value that is the same for every sample: the first one serves.
    if (!per_sample && many_to_one && message.part != 0) continue;
    const auto sent = [&] {
      BufferRange where = value(root, operand.at.microbatch, from_variant);
      where.offset += many_to_one ? 0 : part;
      return where;
    };
    const auto received = [&] {
      BufferRange where = value(root, operand.at.microbatch, to_variant);
      where.offset += one_to_many ? 0 : part;
      return where;
    };
    if (message.way != RoleMessage::Way::kStays) {
      pass(at, message, message.way == RoleMessage::Way::kSends ? sent() : received(), type.elements(), type.dtype);
      continue;
    }
    if (from_variant == to_variant) continue;  // the same buffer
    const BufferRange source = sent(), copy = received();
    run(s_.intern_program(copy_program(bytes)), "copy " + plan_.buffers[copy.buffer].name, {source, copy},
        at.provenance);
  }
  return Status();
}

}  // namespace piper::emit
