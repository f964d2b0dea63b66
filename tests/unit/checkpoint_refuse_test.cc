// A rank that refuses a step keeps it from being committed, and nothing is left of it.
#include <catch2/catch.hpp>

#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "runtime/checkpoint/write_checkpoint.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "schemas/checkpoint/find_checkpoint.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/temp_folder.h"

namespace piper::checkpoint {
namespace {

constexpr int32_t kRanks = 3;

// One tensor that is cut over the ranks; `refuses` says which rank does.
Manifest manifest_of(int64_t step, const std::string& header) {
  Manifest manifest;
  manifest.step = step;
  manifest.optimizer = "sgd";
  StoredTensor tensor{"w", StateKind::kParameter, DType::kF32, {kRanks}, {}, {}};
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    tensor.parts.push_back({rank, "param/w", rank, rank + 1});
    manifest.files.push_back({shard_file(rank, kRanks), "", static_cast<int64_t>(header.size()) + 4});
  }
  manifest.tensors = {tensor};
  return manifest;
}

TEST_CASE("a step that one rank refuses is not committed, and the next one is") {
  const TempFolder folder;
  hal::LocalWorld world(kRanks);
  const std::string header = plan::safetensors_header({{"param/w", DType::kF32, {1}, {}, 4}});
  // By step: the rank that refuses; -1: none.
  const std::array<int32_t, 5> refusing = {-1, 0, 1, 2, -1};
  std::array<std::set<int64_t>, kRanks> refused;
  std::vector<std::thread> ranks;
  for (int32_t rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      const auto storage = open_storage(folder.path(), rank == 0);
      auto transport = world.transport(rank);
      hal::TransportChannel control(*transport);
      CheckpointWriter writer(**storage, control, {"run", 0, {}, "", 0});
      for (size_t i = 0; i < refusing.size(); ++i) {
        const auto step = static_cast<int64_t>(i + 1);
        const std::string shard = header + std::string("abcd");
        const Status status = refusing[i] == rank
                                  ? writer.refuse(manifest_of(step, header), {})
                                  : writer.write(manifest_of(step, header), shard_file(rank, kRanks), shard, {});
        if (!status.ok()) refused[static_cast<size_t>(rank)].insert(-step);
        if (writer.refused()) refused[static_cast<size_t>(rank)].insert(step);
      }
    });
  for (std::thread& rank : ranks) rank.join();
  for (const auto& steps : refused) CHECK(steps == std::set<int64_t>{2, 3, 4});
  const auto steps = list_steps(folder.path());
  REQUIRE(steps.ok());
  CHECK(*steps == std::vector<int64_t>{1, 5});
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.insert(entry.path().filename());
  CHECK(names == std::set<std::string>{"LOCK", step_folder(1), step_folder(5)});
}

}  // namespace
}  // namespace piper::checkpoint
