#include "runtime/exec/session/group_norms.h"

#include <cmath>

namespace piper::exec {

std::vector<std::pair<std::string, float>> group_norms(const plan::Manifest& manifest, float norm,
                                                       std::span<const float> squares) {
  std::vector<std::pair<std::string, float>> norms;
  const size_t groups = manifest.optimizer.groups.size();
  std::vector<double> sums(groups);
  std::vector<size_t> tensors(groups);
  double whole = 0;
  for (size_t t = 0; t < squares.size(); ++t) {
    if (!manifest.tensors[t].trained) continue;
    const auto group = static_cast<size_t>(manifest.tensors[t].group);
    sums[group] += static_cast<double>(squares[t]);
    whole += static_cast<double>(squares[t]);
    ++tensors[group];
  }
  for (size_t g = 0; g < groups; ++g)
    if (tensors[g] > 0)
      norms.emplace_back(
          manifest.optimizer.groups[g].name,
          whole == 0 ? 0.0f : static_cast<float>(static_cast<double>(norm) * std::sqrt(sums[g] / whole)));
  return norms;
}

}  // namespace piper::exec
