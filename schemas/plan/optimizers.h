// The optimizers that a strategy, a manifest and the kernels know: optimizers.def as data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/plan/plan.h"

namespace piper::plan {

enum class UpdateRule : uint8_t {
  kSgd,   // torch.optim.SGD with dampening 0: plain, with momentum, with Nesterov's
  kAdam,  // torch.optim.Adam and AdamW, without amsgrad
  kLion,  // Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), algorithm 2
};
enum class WeightDecay : uint8_t { kPenalty, kDecoupled };

struct OptimizerInfo {
  enum Numbers : uint8_t { kNone = 0, kBetas = 1, kEps = 2, kMomentum = 4 };  // kMomentum: and nesterov

  Kernel kernel{};
  std::string_view name;
  UpdateRule rule = UpdateRule::kSgd;
  uint8_t numbers = kNone;
  double beta1 = 0, beta2 = 0, weight_decay = 0;
  WeightDecay decay = WeightDecay::kPenalty;
  int moments = 0;  // of each element at most; with kMomentum none where the momentum is 0

  bool has(Numbers number) const { return (numbers & number) != 0; }
  // Of each element, with the numbers of this one.
  int num_moments(const Optimizer& optimizer) const { return has(kMomentum) && optimizer.momentum == 0 ? 0 : moments; }
};

namespace optimizers_def {

constexpr int count(std::string_view moments) {
  int found = 0;
  for (const char letter : moments) found += letter == ':' ? 1 : 0;
  return found;
}
constexpr auto kBetas = OptimizerInfo::kBetas, kEps = OptimizerInfo::kEps, kMomentum = OptimizerInfo::kMomentum;

}  // namespace optimizers_def

inline constexpr OptimizerInfo kOptimizers[] = {
#define PIPER_OPTIMIZER(kernel, name, rule, numbers, beta1, beta2, weight_decay, decay, moments) \
  {Kernel::kernel,                                                                               \
   name,                                                                                         \
   UpdateRule::rule,                                                                             \
   [] {                                                                                          \
     using namespace optimizers_def;                                                             \
     return uint8_t{numbers};                                                                    \
   }(),                                                                                          \
   beta1,                                                                                        \
   beta2,                                                                                        \
   weight_decay,                                                                                 \
   WeightDecay::decay,                                                                           \
   optimizers_def::count(moments)},
#include "schemas/plan/optimizers.def"
#undef PIPER_OPTIMIZER
};

// nullptr: no optimizer of that name.
inline const OptimizerInfo* find_optimizer(std::string_view name) {
  for (const OptimizerInfo& info : kOptimizers)
    if (info.name == name) return &info;
  return nullptr;
}

}  // namespace piper::plan
