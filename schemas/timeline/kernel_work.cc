#include "schemas/timeline/kernel_work.h"

#include <algorithm>
#include <string_view>

#include "schemas/forms/attends.h"
#include "schemas/plan/attrs.h"
#include "schemas/plan/head_blocks.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/optimizers.h"

namespace piper::timeline {
namespace {

using namespace plan;

double count(const Operand& operand) { return static_cast<double>(elements(operand)); }
double extent(const Operand& operand, size_t from_behind) {
  return from_behind < operand.shape.size() ? static_cast<double>(operand.shape[operand.shape.size() - 1 - from_behind])
                                            : 1;
}
double rows_of(const Operand& operand, const RouterLoad& load) {
  const int64_t places = operand.shape.empty() ? 1 : operand.shape[0];
  const auto found = load.find(places);
  return static_cast<double>(places) * (found == load.end() ? 1 : found->second);
}

double bytes_of(const Operand& operand) {
  return static_cast<double>(elements(operand, true) * dtype_bytes(operand.dtype));
}
double moved_bytes(const KernelCall& call) {
  double bytes = 0;
  for (const Operand& output : call.outputs) bytes += (call.accumulate ? 2 : 1) * bytes_of(output);
  const bool looks_up =
      call.kernel == Kernel::kEmbedding || call.kernel == Kernel::kGather || call.kernel == Kernel::kIndexSelect;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    bytes += looks_up && i == 0 ? bytes_of(call.outputs[0]) : bytes_of(call.inputs[i]);
  const KernelInfo* const info = find_kernel(call.kernel);
  if (info != nullptr && info->reads_outputs)
    for (const Operand& output : call.outputs) bytes += bytes_of(output);
  return bytes;
}

// The part of all pairs of queries and keys that attention computes; q is input `query`, k the next one.
double computed_share(const KernelCall& call, size_t query) {
  const bool* const causal = find_attr<bool>(call, "is_causal");
  if (causal != nullptr && *causal) return 0.5;
  const auto* const text = find_attr<std::string>(call, "attends");
  const size_t mask = query == 0 ? 3 : 6;
  if (text == nullptr || call.inputs[query].shape.size() != 4 || call.inputs[query + 1].shape.size() != 4) return 1;
  const bool reads = call.inputs.size() > mask && call.inputs[mask].shape.size() == 4;
  const auto attends =
      form::parse_attends(*text, call.inputs[query].shape[2], call.inputs[query + 1].shape[2],
                          reads ? call.inputs[mask].shape[2] : 0, reads ? call.inputs[mask].shape[3] : 0);
  return attends.ok() ? form::computed_share(*attends) : 1;
}

// For products of all elements; 0: the call is no product.
double product_flops(const KernelCall& call) {
  const CalledKernel& kernel = call.kernel;
  const auto& in = call.inputs;
  const Operand& out = call.outputs[0];
  if (kernel == Kernel::kMatmul || kernel == Kernel::kLinear || kernel == Kernel::kLinearBackwardInput)
    return 2 * count(out) * extent(in[0], 0);
  if (kernel == Kernel::kLinearBackwardWeight) return 2 * count(in[0]) * extent(in[1], 0);
  if (kernel == Kernel::kConvolution || kernel == Kernel::kConvolutionBackwardInput) {
    const double per_output = count(in[1]) / static_cast<double>(std::max<int64_t>(1, in[1].shape[0]));
    return 2 * count(kernel == Kernel::kConvolution ? out : in[0]) * per_output;
  }
  if (kernel == Kernel::kConvolutionBackwardWeight)
    return 2 * count(in[0]) * count(out) / static_cast<double>(std::max<int64_t>(1, out.shape[0]));
  return 0;
}

// For an update that makes a matrix orthogonal; 0: the call is none. With the number of steps that is the default: what
// a strategy says instead is in the manifest.
double orthogonal_flops(const KernelCall& call) {
  const OptimizerInfo* const info = find_optimizer(call.kernel.text());
  if (info == nullptr || !info->has(OptimizerInfo::kOrthogonal) || call.outputs[0].shape.size() != 2) return 0;
  const auto rows = static_cast<double>(call.outputs[0].shape[0]),
             columns = static_cast<double>(call.outputs[0].shape[1]);
  const double side = std::min(rows, columns);
  return static_cast<double>(OptimizerNumbers().steps) * 2 * side * side * (2 * std::max(rows, columns) + side);
}

KernelWork work_of_blocks(const KernelCall& call, const RouterLoad& load) {
  KernelWork work;
  work.kind = KernelKind::kProduct;
  for (const KernelCall& block : calls_on_blocks(call)) {
    const KernelWork one = kernel_work(block, load);
    if (one.flops > 0) work.dtype = one.dtype;
    work.flops += one.flops;
    work.bytes += one.bytes;
  }
  return work;
}

}  // namespace

RouterLoad balanced_load(const Bundle& bundle) {
  RouterLoad load;
  for (const Program& program : bundle.programs)
    for (const KernelCall& call : program.calls) {
      if (call.kernel != Kernel::kExpertOrder) continue;
      const int64_t places = elements(call.outputs[0]);
      if (places == 0) continue;
      const double part = std::min(1.0, count(call.inputs[0]) / static_cast<double>(places));
      const auto [at, fresh] = load.emplace(places, part);
      if (!fresh) at->second = std::max(at->second, part);
    }
  return load;
}

double filled_part(const RankPlan& plan, const AllToAll& exchange, const RouterLoad& load) {
  if (exchange.row <= 0) return 1;
  const auto members =
      static_cast<int64_t>(plan.communicators[static_cast<size_t>(exchange.communicator)].ranks.size());
  const auto full = load.find(exchange.count / exchange.row * members);
  return full != load.end() ? full->second : 1;
}

KernelWork kernel_work(const KernelCall& call, const RouterLoad& load) {
  KernelWork work;
  work.bytes = moved_bytes(call);
  if (call.outputs.empty() || call.inputs.empty()) return work;
  work.dtype = call.inputs[0].dtype;
  if (is_of_blocks(call.kernel)) return work_of_blocks(call, load);
  if (call.kernel == Kernel::kGroupedMatmul) {
    work.kind = KernelKind::kGroupedProduct;
    work.flops = 2 * rows_of(call.inputs[0], load) * extent(call.inputs[0], 0) * extent(call.outputs[0], 0);
  } else if (call.kernel == Kernel::kGroupedMatmulWeight) {
    work.kind = KernelKind::kGroupedProduct;
    work.flops = 2 * rows_of(call.inputs[0], load) * extent(call.inputs[0], 0) * extent(call.inputs[1], 0);
  } else if (call.kernel == Kernel::kScaledDotProductAttention) {
    work.kind = KernelKind::kAttention;
    work.flops = 4 * count(call.inputs[0]) * extent(call.inputs[1], 1) * computed_share(call, 0);
  } else if (call.kernel == Kernel::kScaledDotProductAttentionBackward) {
    work.kind = KernelKind::kAttention;
    work.flops = 10 * count(call.inputs[1]) * extent(call.inputs[2], 1) * computed_share(call, 1);
  } else if (const double flops = orthogonal_flops(call); flops > 0) {
    work.kind = KernelKind::kProduct;
    work.dtype = DType::kF32;
    work.flops = flops;
  } else {
    work.flops = product_flops(call);
    if (work.flops > 0) work.kind = KernelKind::kProduct;
  }
  return work;
}

}  // namespace piper::timeline
