// Recognises constant attention masks that need no tensor, by their elements. Used by fold; it changes nothing itself.
#pragma once

#include "compiler/frontend/fold.h"

namespace piper::frontend {

enum class MaskPattern : uint8_t {
  kFull,    // every query attends to every key: no mask
  kCausal,  // query i attends to keys 0..i, on every batch entry and head
  kOther,
};
// For an element of a float mask: exp of a score lowered by this much is 0 in every float format, whatever the score.
constexpr bool never_attends(double element) { return element <= -1e9; }

// What `mask` and `causal` (query i also restricted to keys 0..i) allow together over [S, T].
// Bool: true attends. Float: 0 attends, -1e9 and below does not, any other number is kOther.
MaskPattern recognise_mask(const ConstantTensor& mask, bool causal, int64_t queries, int64_t keys);

}  // namespace piper::frontend
