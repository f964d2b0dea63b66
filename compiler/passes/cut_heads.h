// Logits that are large are never whole: the product of a head and the cross entropy that alone reads it become one
// operator (linear_cross_entropy), which computes them a block of rows at a time, and again in its gradients.
//
// Where the strategy says nothing, where the logits of a piece are more than kWorthCutting as f32; the largest pieces
// decide for all. Not of logits of which places have parts (vocabulary parallelism). Plans without such a head are as
// they were.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace piper::passes {

inline constexpr int64_t kWorthCutting = int64_t{512} << 20;  // bytes of logits as f32
inline constexpr int64_t kBlockBytes = int64_t{256} << 20;    // of a block, likewise

void cut_heads(ir::Module& module);

// For messages: what there is of heads in the module. After cut_heads.
struct Head {
  ir::ProvId prov;     // of the product
  int64_t logits = 0;  // bytes of a piece, as f32
  int64_t work = 0;    // bytes of a block; 0: it is not cut
  int64_t blocks = 0;  // 0: it is not cut
  std::string why_not;
};
std::vector<Head> find_heads(const ir::Module& module);

}  // namespace piper::passes
