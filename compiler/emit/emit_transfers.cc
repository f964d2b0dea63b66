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
    case ir::Cargo::kLoss: {
      const int32_t from = dag_.groups[node.group.index].ranks[0], to = dag_.groups[n.to.index].ranks[0];
      if (rank_ != from && rank_ != to) return Status();
      const BufferRange loss{buffer("loss", BufferClass::kGradient, 4, DType::kF32, {}), 0};
      plan_.loss = loss;
      if (rank_ == from) send(loss, 4, to, node.stream, s_.provenance(node.prov));
      if (rank_ == to) receive(loss, 4, from, node.stream, s_.provenance(node.prov));
      return Status();
    }
  }
  return Status();
}

// Position j of the larger group exchanges with position floor(j small/large) of the smaller one, which holds
// the samples of large/small members one after the other.
Status RankEmitter::transfer_value(const ir::Node& node, const ir::TransferNode& n) {
  const auto& from = dag_.groups[node.group.index].ranks;
  const auto& to = dag_.groups[n.to.index].ranks;
  const int32_t prov = s_.provenance(node.prov);
  const size_t from_variant = s_.variant_of_group(node.group), to_variant = s_.variant_of_group(n.to);
  const ir::TensorType& from_type = s_.request.variants[from_variant].graph->type(n.value);
  const ir::TensorType& to_type = s_.request.variants[to_variant].graph->type(n.value);
  const auto large = static_cast<int64_t>(std::max(from.size(), to.size())), small = static_cast<int64_t>(std::min(from.size(), to.size()));
  const int64_t ratio = large / small;
  const bool per_sample = from_type.shape != to_type.shape;
  if (ratio > 1 && !per_sample && n.pass == ir::Pass::kBackward)
    return Status::failure("P0511", "the gradient '" + s_.request.variants[0].graph->value(n.value).name +
                                        "' is not per sample and would have to be summed between groups of " + std::to_string(from.size()) +
                                        " and " + std::to_string(to.size()) + " devices");
  if (per_sample) {
    // Parts must be contiguous: the axis that differs is the outermost in memory.
    const auto& strides = s_.request.variants[from_variant].lowered.layouts[n.value.index].strides;
    for (size_t axis = 0; axis < from_type.shape.size(); ++axis)
      if (from_type.shape[axis] != to_type.shape[axis])
        for (size_t other = 0; other < strides.size(); ++other)
          if (other != axis && from_type.shape[other] > 1 && strides[other] > strides[axis])
            return Status::failure("P0510", "'" + s_.request.variants[0].graph->value(n.value).name + "' is exchanged between groups of " +
                                                std::to_string(from.size()) + " and " + std::to_string(to.size()) +
                                                " devices, but its samples are not contiguous in memory");
  }
  for (int64_t j = 0; j < large; ++j) {
    const int64_t i = j / ratio;
    const int64_t sender = static_cast<int64_t>(from.size()) == large ? j : i, receiver = static_cast<int64_t>(to.size()) == large ? j : i;
    const int32_t src = from[sender], dst = to[receiver];
    if (src != rank_ && dst != rank_) continue;
    const int64_t bytes = std::min(from_type.bytes(), to_type.bytes());
    const int64_t part = per_sample ? (j % ratio) * bytes : 0;
    // Several identical copies of a value that is the same for every sample: the first one serves.
    if (!per_sample && static_cast<int64_t>(from.size()) == large && j % ratio != 0) continue;
    const int64_t from_offset = static_cast<int64_t>(from.size()) == large ? 0 : part;
    const int64_t to_offset = static_cast<int64_t>(to.size()) == large ? 0 : part;
    if (src == dst) {
      if (from_variant == to_variant) continue;  // the same buffer
      BufferRange a = value(n.value, n.microbatch, from_variant), b = value(n.value, n.microbatch, to_variant);
      a.offset += from_offset;
      b.offset += to_offset;
      std::vector<BufferRange> arguments;
      arguments = {a, b};
      run(s_.intern_program(copy_program(bytes)), "copy " + plan_.buffers[b.buffer].name, std::move(arguments), prov);
      continue;
    }
    if (src == rank_) {
      BufferRange a = value(n.value, n.microbatch, from_variant);
      a.offset += from_offset;
      send(a, bytes, dst, node.stream, prov);
    } else {
      BufferRange b = value(n.value, n.microbatch, to_variant);
      b.offset += to_offset;
      receive(b, bytes, src, node.stream, prov);
    }
  }
  return Status();
}

void RankEmitter::transfer_accumulator(const ir::Node& node, const ir::TransferNode& n) {
  const auto& from = dag_.groups[node.group.index].ranks;
  const auto& to = dag_.groups[n.to.index].ranks;
  const int64_t bytes = summed_bytes(n.accumulator);
  for (size_t j = 0; j < to.size(); ++j) {
    const int32_t dst = to[j], src = from[j % from.size()];
    if (std::find(from.begin(), from.end(), dst) != from.end()) continue;
    if (dst != rank_ && src != rank_) continue;
    bool& done = received_[{n.accumulator.index, dst}];   // a member of two receiving groups gets it once
    if (done) continue;
    done = true;
    if (src == rank_) {
      send(summed_gradient(n.accumulator), bytes, dst, node.stream, s_.provenance(node.prov));
    } else {
      receive({received_gradient(n.accumulator), 0}, bytes, src, node.stream, s_.provenance(node.prov));
    }
  }
}

}  // namespace piper::emit
