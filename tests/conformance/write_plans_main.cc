// Writes a hand-written bundle with its data and weights: write_plans NAME DIR makes DIR/plans,
// DIR/data.safetensors and DIR/weights.safetensors. Used by piper_run_test.sh.
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "schemas/plan/bundle_io.h"
#include "tests/unit/hand_written_plans.h"

namespace {

// Two replicas that do not add up their gradients: each would train on its own.
piper::plan::Bundle unsummed() {
  auto bundle = piper::hand_written::replicas();
  for (auto& rank : bundle.ranks) rank.instructions.edit().erase(rank.instructions.begin() + 3);
  return bundle;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string which = argv[1], directory = argv[2];
  std::filesystem::create_directories(directory);
  using namespace piper::hand_written;
  const std::map<std::string, piper::plan::Bundle (*)()> bundles = {{"pipeline", pipeline}, {"replicas", replicas},
                                                                    {"sharded", sharded},   {"exchanged", exchanged},
                                                                    {"unsummed", unsummed}, {"weighted", pipeline}};
  if (bundles.count(which) == 0) return 2;
  piper::plan::Bundle bundle = bundles.at(which)();
  for (size_t r = 0; r < bundle.ranks.size(); ++r) bundle.manifest.ranks[r].arena_bytes = bundle.ranks[r].arena_bytes;
  piper::Status status = piper::hand_written::write_files(directory);
  using namespace piper::plan;
  std::vector<WeightTensor> weights;  // "weighted": the pipeline with its weights in the bundle
  const auto add = [&weights](const char* name, std::vector<int64_t> shape, const std::vector<float>& values) {
    weights.push_back({name,
                       piper::DType::kF32,
                       std::move(shape),
                       "",
                       0,
                       static_cast<int64_t>(4 * values.size()),
                       reinterpret_cast<const std::byte*>(values.data()),
                       {}});
  };
  if (which == "weighted") {
    add("w", {3, 2}, kW);
    add("v", {2, 2}, kV);
  }
  if (status.ok())
    status = write_bundle(directory + "/plans", bundle, weights, {},
                          weights.empty() ? WeightMode::kNone : WeightMode::kCopy);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}
