#include "runtime/kernels/cuda/attention_rows.h"

#include <array>
#include <cstdlib>
#include <string>

#include "runtime/kernels/call_reader.h"
#include "schemas/forms/attends.h"

namespace piper::kernels::cuda {

namespace {

// For calls with the attribute `attends`.
enum class Predicates : uint8_t { kNone, kBands, kAll };

// What a row takes. Heads of any width are padded to what a kernel reads at once (library_attention.cc).
struct Served {
  AttentionRow row;
  int least_major;             // compute capability
  bool f32, masks, key_heads;  // f32 beside the halves; a mask; fewer heads of keys than of queries
  bool uneven_causal;          // as plans have it: query i attends to keys 0..i, however many there are
  int64_t most_head_dim;       // 0: any
  bool backward;
  Predicates predicates;
};
constexpr std::array kServed = {
    Served{AttentionRow::kCudnn, 9, false, false, false, false, 128, false, Predicates::kNone},
    Served{AttentionRow::kFlash, 8, false, false, true, false, 256, true, Predicates::kBands},
    Served{AttentionRow::kEfficient, 8, true, true, true, true, 0, true, Predicates::kAll},
};

bool is_causal(const plan::KernelCall& call) {
  for (const plan::Attr& attr : call.attrs)
    if (attr.name == "is_causal") return !(attr.value == plan::AttrValue(false));
  return false;
}

// Empty: a mask says where queries attend, or nothing does.
std::string attends_of(const plan::KernelCall& call) {
  for (const plan::Attr& attr : call.attrs)
    if (attr.name == "attends") return std::get<std::string>(attr.value);
  return {};
}

// Whether a band says where queries attend, each to the key of its own place among others, as many keys as queries.
bool is_band(const std::string& text, const plan::Operand& q, const plan::Operand& k, const plan::Operand* vectors) {
  if (vectors != nullptr || q.shape[2] != k.shape[2]) return false;
  const Result<form::Attends> attends = form::parse_attends(text, q.shape[2], k.shape[2], 0, 0);
  if (!attends.ok() || !form::is_band(*attends)) return false;
  const form::Band band = form::band_of(*attends);
  return band.low <= 0 && band.high >= 0;
}

// The backward of wide heads wants the shared memory of data centres' GPUs.
bool has_wide_backward(const AttentionTraits& traits) {
  return (traits.major == 8 && traits.minor == 0) || traits.major == 9 || traits.major == 10;
}

bool serves(const Served& served, const plan::KernelCall& call, const std::vector<BoundOperand>& inputs,
            const AttentionTraits& traits) {
  const bool backward = is_attention_backward(call);
  const size_t first = backward ? 1 : 0, mask = backward ? 6 : 3;
  if (traits.major < served.least_major || (backward && !served.backward)) return false;
  if (served.row == AttentionRow::kCudnn && traits.first != AttentionRow::kCudnn) return false;
  for (size_t i = 0; i < first + 3; ++i) {
    if (!is_present(inputs[i]) || inputs[i].operand->shape.size() != 4) return false;
    const DType type = inputs[i].operand->dtype;
    if (!is_half(type) && !(served.f32 && type == DType::kF32)) return false;
    for (const int64_t extent : inputs[i].operand->shape)
      if (extent < 1) return false;
  }
  const bool has_mask = inputs.size() > mask && is_present(inputs[mask]);
  const plan::Operand &q = *inputs[first].operand, &k = *inputs[first + 1].operand;
  if (const std::string attends = attends_of(call); !attends.empty()) {
    if (served.predicates == Predicates::kNone) return false;
    if (served.predicates == Predicates::kBands && !is_band(attends, q, k, has_mask ? inputs[mask].operand : nullptr))
      return false;
  } else if (has_mask && !served.masks) {
    return false;
  }
  if (k.shape[1] != q.shape[1] && !served.key_heads) return false;
  if (is_causal(call) && q.shape[2] != k.shape[2] && !served.uneven_causal) return false;
  constexpr int64_t kMostForAnyBackward = 192;
  if (backward && served.row == AttentionRow::kFlash && q.shape[3] > kMostForAnyBackward && !has_wide_backward(traits))
    return false;
  return served.most_head_dim == 0 || q.shape[3] <= served.most_head_dim;
}

}  // namespace

std::string_view name_of(AttentionRow row) {
  switch (row) {
    case AttentionRow::kCudnn: return "cudnn";
    case AttentionRow::kFlash: return "flash";
    case AttentionRow::kEfficient: return "efficient";
    case AttentionRow::kOwn: break;
  }
  return "own";
}

Result<AttentionRow> first_attention_row() {
  const char* const asked = std::getenv("PIPER_GPU_ATTENTION");
  if (asked == nullptr || *asked == '\0') return AttentionRow::kFlash;
  for (const AttentionRow row :
       {AttentionRow::kCudnn, AttentionRow::kFlash, AttentionRow::kEfficient, AttentionRow::kOwn})
    if (name_of(row) == asked) return row;
  return Status::failure(
      "R0106", "PIPER_GPU_ATTENTION is '" + std::string(asked) + "', which is none of cudnn, flash, efficient and own");
}

bool is_attention_backward(const plan::KernelCall& call) {
  return call.kernel == plan::Kernel::kScaledDotProductAttentionBackward;
}
bool is_attention(const plan::KernelCall& call) {
  return call.kernel == plan::Kernel::kScaledDotProductAttention || is_attention_backward(call);
}

AttentionRow attention_row(const plan::KernelCall& call, const std::vector<BoundOperand>& inputs,
                           const AttentionTraits& traits) {
  if (traits.first == AttentionRow::kOwn || inputs.size() < (is_attention_backward(call) ? 6u : 3u))
    return AttentionRow::kOwn;
  // The first row, then the others in their order.
  for (const bool others : {false, true})
    for (const Served& served : kServed)
      if ((served.row == traits.first) != others && serves(served, call, inputs, traits)) return served.row;
  return AttentionRow::kOwn;
}

}  // namespace piper::kernels::cuda
