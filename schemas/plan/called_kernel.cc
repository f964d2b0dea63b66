#include "schemas/plan/called_kernel.h"

#include <unordered_map>

#include "schemas/plan/kernels.h"

namespace piper::plan {

std::string_view kernel_name(Kernel kernel) { return kKernels[static_cast<size_t>(kernel)].name; }

std::optional<Kernel> kernel_from_name(std::string_view name) {
  static const auto* const kByName = [] {
    auto* const by_name = new std::unordered_map<std::string_view, Kernel>;
    for (int k = 0; k < kNumKernels; ++k) by_name->emplace(kKernels[k].name, static_cast<Kernel>(k));
    return by_name;
  }();
  const auto found = kByName->find(name);
  return found == kByName->end() ? std::nullopt : std::optional(found->second);
}

}  // namespace piper::plan
