#include "schemas/plan/kernel_scratch.h"

#include <algorithm>

#include "schemas/plan/attrs.h"
#include "schemas/plan/head_blocks.h"
#include "schemas/plan/names.h"

namespace piper::plan {

namespace {

// Bytes of a grouped convolution's weight [o, i / groups, kernel..] as oneDNN's direct kernels for channels-last
// activations lay it out: in f32, input and output channels of every group padded to 16 each. A depthwise weight grows
// 256-fold. 0: not a grouped convolution.
int64_t padded_weight_bytes(const KernelCall& call) {
  const int64_t* const attr = find_attr<int64_t>(call, "groups");
  const int64_t groups = attr == nullptr ? 1 : *attr;
  const bool of_weight = call.kernel == "convolution_backward_weight";
  const std::vector<Operand>& operands = of_weight ? call.outputs : call.inputs;
  const size_t position = of_weight ? 0 : 1;
  if (groups <= 1 || operands.size() <= position || operands[position].shape.size() < 2) return 0;
  const auto padded = [](int64_t channels) { return (channels + 15) / 16 * 16; };
  const std::vector<int64_t>& shape = operands[position].shape;
  int64_t bytes = 4 * groups * padded(shape[0] / groups) * padded(shape[1]);
  for (size_t axis = 2; axis < shape.size(); ++axis) bytes *= shape[axis];
  return bytes;
}

// Bytes of a convolution's operands in layouts of channels padded to 16.
int64_t padded_channel_bytes(const KernelCall& call) {
  int64_t bytes = 0;
  for (const auto* list : {&call.outputs, &call.inputs})
    for (const Operand& operand : *list)
      if (operand.slot != Operand::kAbsent && operand.shape.size() > 1 && operand.shape[1] > 0)
        bytes += dense_bytes(operand) / operand.shape[1] * ((operand.shape[1] + 15) / 16 * 16);
  return bytes;
}

// Bytes of the columns [n, j * kernel.., output..] of a convolution as a matrix product, which the library does on CPU
// ranks for one sample, and for all types but f32.
int64_t column_bytes(const KernelCall& call, DeviceKind device, bool f32) {
  const bool of_weight = call.kernel == "convolution_backward_weight";
  const std::vector<Operand>& weights = of_weight ? call.outputs : call.inputs;
  const std::vector<Operand>& results = call.kernel == "convolution" ? call.outputs : call.inputs;
  const size_t position = of_weight ? 0 : 1;
  if (device != DeviceKind::kCpu || results.empty() || results[0].shape.size() < 3 || weights.size() <= position)
    return 0;
  const std::vector<int64_t>&y = results[0].shape, &w = weights[position].shape;
  if (f32 && y[0] > 1) return 0;
  int64_t bytes = y[0] * dtype_bytes(results[0].dtype);
  for (size_t axis = 2; axis < y.size(); ++axis) bytes *= y[axis];
  for (size_t axis = 1; axis < w.size(); ++axis) bytes *= w[axis];
  return bytes;
}

// Whether a BLAS product reads or writes an operand in place: one of its last two axes has elements side by side, and
// no other axis steps by less than what lies there.
bool is_plain_matrix(const Operand& operand) {
  const size_t rank = operand.shape.size();
  if (operand.slot == Operand::kAbsent || rank < 2) return true;
  if (operand.strides.size() != rank) return false;
  for (const size_t unit : {rank - 1, rank - 2}) {
    bool plain = operand.strides[unit] == 1;
    for (size_t axis = 0; axis < rank; ++axis)
      if (axis != unit && operand.shape[axis] > 1 && operand.strides[axis] < operand.shape[unit]) plain = false;
    if (plain) return true;
  }
  return false;
}

// For products and attention in f32 on CPU ranks: the bytes of the operands that are copied, except an attention's
// mask. Libraries take other types in other ways, and those of GPUs may take memory of their own.
int64_t copied_bytes(const KernelInfo& info, const KernelCall& call, const Operand* mask) {
  const bool attention = info.scratch == Scratch::kAttention;
  int64_t copied = 0, largest = 0;
  for (const auto* list : {&call.outputs, &call.inputs})
    for (const Operand& operand : *list) {
      if (&operand == mask) continue;
      const bool heads = attention && operand.slot != Operand::kAbsent && operand.shape.size() == 4;
      const bool in_place = heads ? operand.strides.size() == 4 && operand.strides[3] == 1 : is_plain_matrix(operand);
      if (!in_place) copied += dense_bytes(operand);
      if (heads) largest = std::max(largest, dense_bytes(operand));
    }
  // Gradients and statistics that the plan does not want are computed anyway.
  for (const Operand& output : call.outputs)
    if (attention && output.slot == Operand::kAbsent) copied += largest;
  return copied;
}

// Bytes of the operands of a product in 16 bits on CPU ranks, as the library lays them out: rows and columns padded to
// 32 each. A gradient of few inputs and outputs over many rows grows many times.
int64_t padded_matrix_bytes(const KernelCall& call) {
  const auto padded = [](int64_t extent) { return (extent + 31) / 32 * 32; };
  int64_t bytes = 0;
  for (const auto* list : {&call.outputs, &call.inputs})
    for (const Operand& operand : *list) {
      if (operand.slot == Operand::kAbsent || operand.shape.empty() || operand.shape.back() == 0) continue;
      const int64_t columns = operand.shape.back(), size = dtype_bytes(operand.dtype);
      bytes += padded(dense_bytes(operand) / size / columns) * padded(columns) * size;
    }
  return bytes;
}

// For embeddings in f32 on CPU ranks, whose table is read or added to where it lies, if it is dense. The backward may
// count how often each row is asked for, and weigh it.
int64_t table_bytes(const KernelInfo& info, const KernelCall& call, int64_t operands) {
  const std::vector<Operand>& list = info.can_accumulate ? call.outputs : call.inputs;
  if (list.empty() || call.inputs.size() < 2 || list[0].shape.empty()) return 2 * operands;
  const bool dense = list[0].strides == contiguous_strides(list[0].shape);
  return 2 * (operands - (dense ? dense_bytes(list[0]) : 0)) + 8 * list[0].shape[0] + dense_bytes(call.inputs[1]);
}

// For one thread: two score tiles and the accumulators of the flash kernels, of at most 768 query by 512 key rows; or
// of the own kernels panels of at most 1024 keys and values, and the scores of 112 queries and their gradients.
int64_t attention_tile_bytes(int64_t queries, int64_t keys, int64_t head_dim) {
  const int64_t q = std::min<int64_t>(queries, 768), k = std::min<int64_t>(keys, 512);
  const int64_t panel = (std::min<int64_t>(keys, 1024) + 31) / 32 * 32;
  return 4 * std::max(2 * q * k + 4 * q * (head_dim + 4), 2 * panel * head_dim + 2 * 112 * (panel + 16));
}
// For f32 on CPU ranks. The flash kernels' backward makes one operand dense in an order of its own.
int64_t attention_bytes(const KernelInfo& info, const KernelCall& call, const Operand* mask, int64_t head_dim,
                        int threads) {
  const bool backward = info.max_inputs > 4;
  const size_t key = backward ? 2 : 1;
  if (call.inputs.size() <= key || call.inputs[0].shape.size() != 4 || call.inputs[key].shape.size() != 4) return 0;
  return 2 * copied_bytes(info, call, mask) + (mask != nullptr ? elements(*mask, true) * 4 : 0) +
         (backward ? dense_bytes(call.inputs[0]) : 0) +
         threads * attention_tile_bytes(call.inputs[0].shape[2], call.inputs[key].shape[2], head_dim);
}

// For attention by a predicate: the mask of a block of queries, of all keys; on GPUs with the numbers that it is made
// of and the sums of the keys' gradients in f32.
int64_t attends_bytes(const KernelInfo& info, const KernelCall& call, DeviceKind device) {
  constexpr int64_t kElement = 8, kElementOnGpu = 40;
  const bool backward = info.max_inputs > 4;
  const size_t query = backward ? 1 : 0;
  const bool attends =
      std::any_of(call.attrs.begin(), call.attrs.end(), [](const Attr& attr) { return attr.name == "attends"; });
  if (!attends || call.inputs.size() <= query + 1) return 0;
  const std::vector<int64_t>&q = call.inputs[query].shape, &k = call.inputs[query + 1].shape;
  if (q.size() != 4 || k.size() != 4) return 0;
  if (device == DeviceKind::kCpu) return kAttendsQueries * k[2] * kElement;
  const int64_t sums = backward ? 2 * q[0] * q[1] * k[2] * q[3] * 4 : 0;
  return q[0] * attends_queries_on_gpu(q[0], k[2]) * k[2] * kElementOnGpu + sums;
}

// For LibTorch's attention on GPUs, beside copies of operands: keys and values written out for every head of queries,
// and their gradients; of a backward of FlashAttention with the same bits in every run, a sum of the queries' gradients
// in f32 for each of as many splits as fill the GPU, of which none has more multiprocessors than these.
int64_t attention_on_gpu_bytes(const KernelInfo& info, const KernelCall& call) {
  constexpr int64_t kMultiprocessors = 160, kRows = 128, kColumns = 32;
  const bool backward = info.max_inputs > 4;
  const size_t query = backward ? 1 : 0;
  if (call.inputs.size() <= query + 1) return 0;
  const std::vector<int64_t>&q = call.inputs[query].shape, &k = call.inputs[query + 1].shape;
  if (q.size() != 4 || k.size() != 4) return 0;
  const auto rounded_up = [](int64_t extent, int64_t to) { return (extent + to - 1) / to * to; };
  const int64_t written_out = q[1] == k[1] ? 0 : q[0] * q[1] * k[2] * q[3] * dtype_bytes(call.inputs[query].dtype);
  if (!backward) return 2 * written_out;
  return 4 * written_out + (kMultiprocessors + q[0] * q[1]) * rounded_up(q[2], kRows) * rounded_up(q[3], kColumns) * 4;
}

// For an update that takes a matrix: two of its shape and two of the square of its shorter side, in f32.
int64_t update_bytes(const KernelCall& call) {
  if (call.outputs.empty() || call.outputs[0].shape.size() != 2) return 0;
  const int64_t rows = call.outputs[0].shape[0], columns = call.outputs[0].shape[1], side = std::min(rows, columns);
  return 2 * 4 * (rows * columns + side * side);
}

// For a factorisation: all operands and results in f32, those too that the plan does not want, once as the library
// wants them and once as it makes them, and of one matrix what LAPACK works on. A series of powers takes more.
int64_t factor_bytes(const KernelCall& call) {
  int64_t most = 0, side = 1, size = 4;
  for (const auto* list : {&call.outputs, &call.inputs})
    for (const Operand& operand : *list) {
      if (operand.slot == Operand::kAbsent || operand.shape.size() < 2) continue;
      const int64_t m = operand.shape[operand.shape.size() - 2], n = operand.shape.back(), longest = std::max(m, n);
      size = std::max(size, dtype_bytes(operand.dtype));
      most = std::max(most, m * n == 0 ? 0 : elements(operand) / (m * n) * longest * longest);
      side = std::max(side, longest);
    }
  const int64_t copies = call.kernel == "matrix_exp_backward" ? 96 : call.kernel == "matrix_exp" ? 24 : 12;
  return size * (copies * most + 8 * side * side + 256 * side);
}

}  // namespace

int64_t attends_queries_on_gpu(int64_t batch, int64_t keys) {
  constexpr int64_t kLeast = 128, kMost = 512, kElements = int64_t{1} << 22;  // rows begin at packs of any type
  return std::clamp(kElements / std::max<int64_t>(batch * keys, 1) / kLeast * kLeast, kLeast, kMost);
}

int64_t scratch_bytes(const KernelInfo& info, const KernelCall& call, DeviceKind device, int threads) {
  int64_t operands = 0, largest = 0, head_dim = 0;
  const bool f32 = device == DeviceKind::kCpu && !call.inputs.empty() && call.inputs[0].dtype == DType::kF32;
  // The mask of an attention is the one operand that is not made dense: it is converted where it is bool.
  const Operand* mask = nullptr;
  if (info.scratch == Scratch::kAttention && call.inputs.size() == static_cast<size_t>(info.max_inputs))
    mask = &call.inputs.back();
  for (const auto* list : {&call.outputs, &call.inputs})
    for (const Operand& operand : *list) {
      if (&operand == mask) {
        operands += elements(operand, true) * 4;
        continue;
      }
      operands += dense_bytes(operand);
      largest = std::max(largest, dense_bytes(operand));
      if (operand.slot != Operand::kAbsent && operand.shape.size() == 4)
        head_dim = std::max(head_dim, operand.shape[3]);
    }
  switch (info.scratch) {
    case Scratch::kNone: return kScratchSlack;
    case Scratch::kFactor: return factor_bytes(call) + kScratchSlack;
    case Scratch::kUpdate: return update_bytes(call) + kScratchSlack;
    case Scratch::kProduct: {
      if (f32) return 2 * copied_bytes(info, call, nullptr) + kScratchSlack;
      const bool narrow = device == DeviceKind::kCpu && !call.inputs.empty() && is_half(call.inputs[0].dtype);
      return 2 * (narrow ? padded_matrix_bytes(call) : operands) + kScratchSlack;
    }
    case Scratch::kTable: return (f32 ? table_bytes(info, call, operands) : 2 * operands) + kScratchSlack;
    case Scratch::kOperands: return 2 * operands + kScratchSlack;
    case Scratch::kConvolution: {
      const int64_t padded = padded_weight_bytes(call);
      // For grouped convolutions in 16 bits the library makes copies in f32 of all operands, and three of the weight.
      const bool narrow = padded > 0 && !call.outputs.empty() && dtype_bytes(call.outputs[0].dtype) < 4;
      const int64_t widths = narrow ? 2 : 1, weights = narrow ? 3 : 1;
      const int64_t laid_out =
          std::max(16 * largest, padded_channel_bytes(call));  // both, where few channels have each
      return widths * 2 * operands +
             std::max((widths * laid_out + weights * padded) * threads, column_bytes(call, device, f32)) +
             kScratchSlack;
    }
    case Scratch::kBlocks: {
      int64_t most = kScratchSlack;
      for (const KernelCall& block : calls_on_blocks(call))
        most = std::max(most, scratch_bytes(*find_kernel(block.kernel), block, device, threads));
      return most;
    }
    case Scratch::kAttention:
      if (f32)
        return attention_bytes(info, call, mask, head_dim, threads) + attends_bytes(info, call, device) + kScratchSlack;
      return 3 * operands + attends_bytes(info, call, device) + threads * attention_tile_bytes(768, 512, head_dim) +
             kScratchSlack + (device == DeviceKind::kCuda ? attention_on_gpu_bytes(info, call) : 0);
  }
  return 0;
}

}  // namespace piper::plan
