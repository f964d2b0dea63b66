// Saving tensors that lie spread over ranks.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/checkpoint/save.h"
#include "runtime/hal/local/local_communicator.h"

namespace piper::checkpoint {
namespace {

plan::TensorInfo info(const std::string& name, int64_t count, std::vector<std::string> aliases = {}) {
  plan::TensorInfo tensor;
  tensor.name = name;
  tensor.shape = {count};
  tensor.aliases = std::move(aliases);
  return tensor;
}

TEST_CASE("each byte comes from the rank that owns it") {
  const std::vector<plan::TensorInfo> tensors = {info("a", 4), info("b", 2), info("nowhere", 2)};
  std::vector<std::vector<Piece>> pieces = {{{0, 0, 16, false, nullptr}, {1, 0, 8, true, nullptr}},
                                            {{0, 8, 8, true, nullptr}, {1, 0, 8, true, nullptr}},
                                            {{0, 0, 8, true, nullptr}}};
  const auto chosen = choose_pieces(pieces, tensors);
  REQUIRE(chosen.ok());
  REQUIRE(chosen->size() == 3);
  CHECK((*chosen)[0].rank == 2);
  CHECK((*chosen)[0].bytes == 8);
  CHECK((*chosen)[1].rank == 1);
  CHECK((*chosen)[1].offset == 8);
  CHECK((*chosen)[1].bytes == 8);
  CHECK((*chosen)[2].tensor == 1);
  CHECK((*chosen)[2].rank == 0);

  pieces[1][0].owner = false;
  const auto hole = choose_pieces(pieces, tensors);
  REQUIRE(!hole.ok());
  CHECK(hole.error().code == "R0503");
  CHECK(hole.error().message == "tensor 'a' cannot be saved: no rank owns its element 2");
}

TEST_CASE("rank 0 writes the tensors of all ranks under all their names") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("piper-save-test-" + std::to_string(getpid()) + ".safetensors"))
          .string();
  plan::Manifest manifest;
  manifest.tensors = {info("first", 2, {"tied.first"}), info("second", 3)};
  const std::vector<float> first = {1, 2}, second = {3, 4, 5};
  hal::LocalWorld world(3);
  const hal::WaitControl wait{nullptr, std::chrono::seconds(20)};
  std::vector<std::thread> ranks;
  for (int32_t r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] {
      std::vector<Piece> mine;
      if (r == 1) mine.push_back({1, 0, 12, true, reinterpret_cast<const std::byte*>(second.data())});
      if (r == 2) mine.push_back({0, 0, 8, true, reinterpret_cast<const std::byte*>(first.data())});
      auto communicator = world.communicator(r);
      Status status = save_tensors({path, nullptr}, manifest, mine, *communicator, wait);
      if (!status.ok()) throw std::runtime_error(status.error().message);
    });
  for (std::thread& rank : ranks) rank.join();
  auto file = plan::SafetensorsFile::open(path);
  REQUIRE(file.ok());
  CHECK(file->tensors().size() == 3);
  for (const char* name : {"first", "tied.first"}) {
    REQUIRE(file->find(name) != nullptr);
    CHECK(std::memcmp(file->find(name)->data, first.data(), 8) == 0);
  }
  CHECK(std::memcmp(file->find("second")->data, second.data(), 12) == 0);

  auto source = WeightSource::open("/nowhere", path, manifest);
  REQUIRE(source.ok());
  plan::Placement placement;
  placement.name = "second";
  placement.shape = {3};
  CHECK(source->find(placement, false).ok());
  placement.shape = {4};
  CHECK(source->find(placement, false).error().code == "R0502");
  placement.name = "third";
  CHECK(source->find(placement, false).error().code == "R0501");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace piper::checkpoint
