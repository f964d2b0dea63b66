// Saving tensors that lie spread over ranks.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/checkpoint/save.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "schemas/plan/bundle_io.h"
#include "tests/unit/temp_folder.h"

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
  std::vector<std::vector<Piece>> pieces = {
      {{0, 0, 16, false, {}}, {1, 0, 8, true, {}}}, {{0, 8, 8, true, {}}, {1, 0, 8, true, {}}}, {{0, 0, 8, true, {}}}};
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
  std::vector<float> first = {1, 2}, second = {3, 4, 5};
  const auto device = hal::make_cpu_device({}, {});
  hal::LocalWorld world(3);
  const hal::WaitControl wait{nullptr, std::chrono::seconds(20)};
  std::vector<std::thread> ranks;
  for (int32_t r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] {
      std::vector<Piece> mine;
      if (r == 1) mine.push_back({1, 0, 12, true, hal::Address(reinterpret_cast<std::byte*>(second.data()))});
      if (r == 2) mine.push_back({0, 0, 8, true, hal::Address(reinterpret_cast<std::byte*>(first.data()))});
      auto transport = world.transport(r);
      hal::TransportChannel control(*transport);
      Status status = save_tensors({path, nullptr}, manifest, mine, *device, control, wait);
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
  CHECK(source->find(placement).ok());
  placement.shape = {4};
  CHECK(source->find(placement).error().code == "R0502");
  placement.name = "third";
  CHECK(source->find(placement).error().code == "R0501");
  std::filesystem::remove(path);
}

// A bundle of two tensors of 1.5 MiB: of a rank's weights, only the chunks it reads are looked at.
TEST_CASE("weights of the bundle are checked where they are read") {
  const TempFolder folder;
  constexpr int64_t kCount = 3 * plan::kChunkBytes / 8;
  const std::vector<float> values(static_cast<size_t>(kCount), 0.5f);
  std::vector<plan::WeightTensor> tensors;
  for (const char* name : {"first", "second"})
    tensors.push_back(
        {name, DType::kF32, {kCount}, "", 0, 4 * kCount, reinterpret_cast<const std::byte*>(values.data()), {}});
  plan::Bundle bundle;
  bundle.manifest.ranks.resize(1);
  bundle.ranks.resize(1);
  bundle.manifest.tensors = {info("first", kCount), info("second", kCount)};
  REQUIRE(plan::write_bundle(folder / "p", bundle, tensors, {}, plan::WeightMode::kCopy).ok());
  const std::string path = folder / "p/weights/model.safetensors";
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('x');

  const auto opened = plan::open_bundle(folder / "p");
  REQUIRE(opened.ok());
  CHECK(plan::check_weights(*opened).error().code == "P0604");
  const auto source = WeightSource::open(opened->directory, "", opened->manifest);
  REQUIRE(source.ok());
  plan::Placement placement;
  placement.shape = {kCount};
  const auto checked = [&](const char* name, int64_t first, int64_t count) {
    placement.name = name;
    const auto view = source->find(placement);
    REQUIRE(view.ok());
    const Status status = source->check(view->data + 4 * first, 4 * count);
    return status.ok() ? "ok" : status.error().code + " " + status.error().message;
  };
  CHECK(checked("first", 0, kCount) == "ok");
  CHECK(checked("second", 0, kCount / 2) == "ok");
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  CHECK(checked("second", kCount - 1, 1) == "P0604 " + path + ": damaged or changed by hand: the " +
                                                std::to_string(size - 3 * plan::kChunkBytes) +
                                                " bytes from 3145728 on are not the manifest's (CRC32C)");
  std::filesystem::resize_file(path, 100);
  CHECK(WeightSource::open(opened->directory, "", opened->manifest).status().error().code == "P0604");
  CHECK(WeightSource::open(opened->directory, folder.write("x", "12"), opened->manifest).status().error().code ==
        "P0620");
}

}  // namespace
}  // namespace piper::checkpoint
