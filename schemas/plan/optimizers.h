// The optimizers that a strategy, a manifest and the kernels know: optimizers.def as data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "schemas/plan/plan.h"

namespace piper::plan {

enum class UpdateRule : uint8_t {
  kSgd,   // torch.optim.SGD with dampening 0: plain, with momentum, with Nesterov's
  kAdam,  // torch.optim.Adam and AdamW, without amsgrad
  kLion,  // Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), algorithm 2
  kMuon,  // torch.optim.Muon, after Jordan et al. (2024): a step along the momentum made orthogonal
};
enum class WeightDecay : uint8_t { kPenalty, kDecoupled };

struct OptimizerInfo {
  // kMomentum: and nesterov; kOrthogonal: steps of Newton-Schulz, and how the rate follows a matrix's shape.
  enum Numbers : uint8_t { kNone = 0, kBetas = 1, kEps = 2, kMomentum = 4, kOrthogonal = 8 };

  Kernel kernel{};
  std::string_view name;
  UpdateRule rule = UpdateRule::kSgd;
  uint8_t numbers = kNone;
  double beta1 = 0, beta2 = 0, eps = 0, momentum = 0, weight_decay = 0;
  WeightDecay decay = WeightDecay::kPenalty;
  bool of_matrices = false;  // an update takes one whole matrix
  int moments = 0;           // of each element at most; with kMomentum none where the momentum is 0

  bool has(Numbers number) const { return (numbers & number) != 0; }
  // For each element, with the numbers of this one.
  int num_moments(const OptimizerNumbers& numbers) const {
    return has(kMomentum) && numbers.momentum == 0 ? 0 : moments;
  }
};

// torch.optim.Muon's bound.
inline constexpr int64_t kMostOrthogonalSteps = 99;

namespace optimizers_def {

constexpr int count(std::string_view moments) {
  int found = 0;
  for (const char letter : moments) found += letter == ':' ? 1 : 0;
  return found;
}
constexpr auto kBetas = OptimizerInfo::kBetas, kEps = OptimizerInfo::kEps, kMomentum = OptimizerInfo::kMomentum,
               kOrthogonal = OptimizerInfo::kOrthogonal;

}  // namespace optimizers_def

inline constexpr OptimizerInfo kOptimizers[] = {
#define PIPER_OPTIMIZER(kernel, name, rule, numbers, beta1, beta2, eps, momentum, weight_decay, decay, shape, moments) \
  {Kernel::kernel,                                                                                                     \
   name,                                                                                                               \
   UpdateRule::rule,                                                                                                   \
   [] {                                                                                                                \
     using namespace optimizers_def;                                                                                   \
     return uint8_t{numbers};                                                                                          \
   }(),                                                                                                                \
   beta1,                                                                                                              \
   beta2,                                                                                                              \
   eps,                                                                                                                \
   momentum,                                                                                                           \
   weight_decay,                                                                                                       \
   WeightDecay::decay,                                                                                                 \
   std::string_view(shape) == "r,c",                                                                                   \
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

// The row of the optimizer that updates a group's parameters, and its numbers with those of the group.
struct GroupUpdate {
  const OptimizerInfo* info = nullptr;
  OptimizerNumbers numbers;
  double weight_decay = 0;
  double rate = 1;  // of the step's rate, which is the optimizer's own lr by the schedule
  int num_moments() const { return info->num_moments(numbers); }
};
inline GroupUpdate group_update(const Optimizer& optimizer, int32_t group) {
  const OptimizerGroup& of = optimizer.groups.at(static_cast<size_t>(group));
  OptimizerNumbers numbers = of.rest ? *optimizer.rest : optimizer;
  numbers.beta1 = of.beta1.value_or(numbers.beta1);
  numbers.beta2 = of.beta2.value_or(numbers.beta2);
  const double rate = of.lr_factor * (of.rest ? numbers.lr / optimizer.lr : 1);
  return {find_optimizer(numbers.kind), std::move(numbers), of.weight_decay, rate};
}

// By which a training's moments are distinguished from those of another: "adamw", "muon, adamw".
inline std::string optimizer_title(const Optimizer& optimizer) {
  return optimizer.rest ? optimizer.kind + ", " + optimizer.rest->kind : optimizer.kind;
}

}  // namespace piper::plan
