// Saving tensors that lie spread over ranks.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include "runtime/checkpoint/finite_state.h"
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

// Sends to a single rank come late; meetings of all do not.
class LateTransport : public hal::Transport {
 public:
  LateTransport(std::unique_ptr<hal::Transport> on_time, std::chrono::milliseconds late)
      : on_time_(std::move(on_time)), late_(late) {}
  int32_t rank() const override { return on_time_->rank(); }
  int32_t world_size() const override { return on_time_->world_size(); }
  std::unique_ptr<hal::Exchange> prepare(std::vector<hal::Transfer> transfers) override {
    if (transfers.size() == 1 && transfers[0].direction == hal::Direction::kSend) std::this_thread::sleep_for(late_);
    return on_time_->prepare(std::move(transfers));
  }
  int64_t buffer_bytes() const override { return on_time_->buffer_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { on_time_->keep(std::move(memory)); }

 private:
  std::unique_ptr<hal::Transport> on_time_;
  std::chrono::milliseconds late_;
};

TEST_CASE("ranks wait for a file that is saved longer than for a message, and go on together") {
  const TempFolder folder;
  plan::Manifest manifest;
  manifest.tensors = {info("w", 3)};
  std::vector<float> values = {3, 4, 5};
  const auto device = hal::make_cpu_device({}, {});
  hal::LocalWorld world(3);
  const hal::WaitControl wait{nullptr, std::chrono::milliseconds(400)};
  std::array<std::string, 3> failures;
  std::vector<std::thread> ranks;
  for (int32_t r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] {
      LateTransport transport(world.transport(r), std::chrono::milliseconds(1000));
      hal::TransportChannel control(transport);
      std::vector<Piece> mine;
      if (r == 1) mine.push_back({0, 0, 12, true, hal::Address(reinterpret_cast<std::byte*>(values.data()))});
      Status status = save_tensors({folder / "w.safetensors", nullptr}, manifest, mine, *device, control, wait);
      if (status.ok()) status = control.barrier(wait);
      if (!status.ok()) failures[static_cast<size_t>(r)] = status.error().message;
    });
  for (std::thread& rank : ranks) rank.join();
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(plan::SafetensorsFile::open(folder / "w.safetensors").ok());
}

plan::TensorToWrite two_floats(const std::string& name, float first, float second) {
  return {name,
          DType::kF32,
          {2},
          [=](const auto& write) {
            const float values[] = {first, second};
            return write(values, 8);
          },
          8};
}

TEST_CASE("a loaded file tells what is used, what is not and what is missing") {
  const TempFolder folder;
  plan::Manifest manifest;
  manifest.tensors = {info("wte", 2, {"lm_head"}), info("bias", 2), info("scale", 2)};
  const std::string path = folder / "w.safetensors";
  REQUIRE(plan::write_safetensors(path, {two_floats("extra", 1, 2), two_floats("lm_head", 3, 4),
                                         two_floats("bias", 5, 6), two_floats("rotary.inv_freq", 7, 8)})
              .ok());
  const auto source = WeightSource::open("/nowhere", path, manifest);
  REQUIRE(source.ok());
  const LoadReport report = source->load_report();
  CHECK(report.used == std::vector<std::string>{"bias", "lm_head"});
  CHECK(report.unused == std::vector<std::string>{"extra", "rotary.inv_freq"});
  CHECK(report.missing == std::vector<std::string>{"scale"});
  plan::Placement placement;
  placement.name = "scale";
  placement.shape = {2};
  CHECK(source->find(placement).error().message == "'" + path + "' holds no tensor 'scale'");
}

TEST_CASE("copies of a file that is loaded have one digest, and what differs has another") {
  const TempFolder folder;
  plan::Manifest manifest;
  constexpr int64_t kCount = 100'000;
  manifest.tensors = {info("bias", 2), info("wide", kCount)};
  std::vector<float> wide(static_cast<size_t>(kCount), 0.5f);
  int files = 0;
  const auto write = [&](float bias) {
    const std::string path = folder / (std::to_string(files++) + ".safetensors");
    const auto put = [&wide](const auto& to) { return to(wide.data(), 4 * kCount); };
    REQUIRE(
        plan::write_safetensors(path, {two_floats("bias", 1, bias), {"wide", DType::kF32, {kCount}, put, 4 * kCount}})
            .ok());
    return path;
  };
  const auto digest = [&](const std::string& load, const std::string& adapters = "") {
    const auto source = WeightSource::open("/nowhere", load, manifest, {adapters, {}});
    REQUIRE(source.ok());
    return source->quick_digest();
  };
  const std::string before = write(2), other = write(3);
  CHECK(digest("") == "");
  std::set<std::string> all = {"", digest(before)};
  CHECK(digest(write(2)) == digest(before));
  CHECK(all.insert(digest(other)).second);
  CHECK(all.insert(digest(before, other)).second);
  CHECK(all.insert(digest("", before)).second);
  wide.back() = 1;
  CHECK(all.insert(digest(write(2))).second);
  auto drawn = WeightSource::open("/nowhere", "", manifest);
  REQUIRE(drawn.ok());
  drawn->replace({{"bias", std::vector<std::byte>(8)}});
  CHECK(all.insert(drawn->quick_digest()).second);
}

TEST_CASE("a state has a fault where steps made a number that is none") {
  const TempFolder folder;
  plan::Manifest manifest;
  manifest.tensors = {info("mask", 2), info("w", 2), info("frozen", 2)};
  manifest.tensors[2].trained = false;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::string path = folder / "w.safetensors";
  REQUIRE(plan::write_safetensors(path, {two_floats("mask", 0, -infinity), two_floats("w", 1, 2)}).ok());
  const auto weights = WeightSource::open("/nowhere", path, manifest);
  REQUIRE(weights.ok());
  FiniteState finite(manifest, &*weights, nullptr);
  const auto fault = [&](StateKind kind, const char* name, float second) {
    const std::array<float, 2> values{1, second};
    return finite.fault(kind, name, DType::kF32, reinterpret_cast<const std::byte*>(values.data()), 2);
  };
  CHECK(fault(StateKind::kParameter, "w", 2) == "");
  CHECK(fault(StateKind::kParameter, "w", nan) == "parameter 'w' has a NaN");
  CHECK(fault(StateKind::kParameter, "mask", -infinity) == "");
  CHECK(fault(StateKind::kFirstMoment, "mask", infinity) == "the first moment of 'mask' has an infinity");
  CHECK(fault(StateKind::kSecondMoment, "w", nan) == "the second moment of 'w' has a NaN");
  CHECK(fault(StateKind::kParameter, "frozen", nan) == "");
  CHECK(fault(StateKind::kBuffer, "w", nan) == "");
  finite.saved();
  CHECK(fault(StateKind::kParameter, "mask", nan) == "");
  CHECK(fault(StateKind::kParameter, "w", infinity) == "parameter 'w' has an infinity");
}

TEST_CASE("two names of one parameter with different values are R0506") {
  const TempFolder folder;
  plan::Manifest manifest;
  manifest.tensors = {info("wte", 2, {"lm_head", "decoder"})};
  const std::string path = folder / "w.safetensors";
  const LoadOptions as_adapters{path, {}};
  for (const bool adapters : {false, true}) {
    const auto opened = [&](const std::vector<plan::TensorToWrite>& tensors) {
      REQUIRE(plan::write_safetensors(path, tensors).ok());
      return WeightSource::open("/nowhere", adapters ? "" : path, manifest, adapters ? as_adapters : LoadOptions());
    };
    CHECK(opened({two_floats("wte", 1, 2), two_floats("lm_head", 1, 2), two_floats("decoder", 1, 2)}).ok());
    CHECK(opened({two_floats("decoder", 1, 2)}).ok());
    for (const auto& tensors : {std::vector{two_floats("wte", 1, 2), two_floats("lm_head", 1, 3)},
                                std::vector{two_floats("lm_head", 1, 2), two_floats("decoder", 2, 2)}}) {
      const auto source = opened(tensors);
      REQUIRE_FALSE(source.ok());
      CHECK(source.error().code == "R0506");
      CHECK(source.error().message.find("'" + tensors[0].name + "' and '" + tensors[1].name + "'") !=
            std::string::npos);
    }
  }
}

// What the plan was made of is the bundle's own, whatever is loaded or drawn; what steps read is the file's.
TEST_CASE("another value of a fixed buffer is R0504") {
  const TempFolder folder;
  const std::vector<float> weight(2, 0.5f), mask{0, 1}, other{1, 0};
  const auto tensor = [](const char* name, const std::vector<float>& values, bool buffer) {
    return plan::WeightTensor{name, DType::kF32, {2}, "", 0, 8, reinterpret_cast<const std::byte*>(values.data()),
                              {},   buffer};
  };
  plan::Bundle bundle;
  bundle.manifest.ranks.resize(1);
  bundle.ranks.resize(1);
  bundle.manifest.tensors = {info("weight", 2), info("mask", 2), info("scale", 2)};
  bundle.manifest.tensors[1].trained = bundle.manifest.tensors[2].trained = false;
  bundle.manifest.tensors[1].buffer = plan::ModelBuffer::kFixed;
  bundle.manifest.tensors[2].buffer = plan::ModelBuffer::kRead;
  REQUIRE(plan::write_bundle(folder / "p", bundle,
                             {tensor("weight", weight, false), tensor("mask", mask, true), tensor("scale", mask, true)},
                             {}, plan::WeightMode::kNone)
              .ok());
  const auto opened = plan::open_bundle(folder / "p");
  REQUIRE(opened.ok());
  const auto loaded = [&](const std::vector<std::pair<const char*, const std::vector<float>*>>& tensors) {
    std::vector<plan::TensorToWrite> list;
    for (const auto& [name, values] : tensors)
      list.push_back(
          {name, DType::kF32, {2}, [values = values](const auto& write) { return write(values->data(), 8); }, 8});
    REQUIRE(plan::write_safetensors(folder / "w.safetensors", list).ok());
    return WeightSource::open(opened->directory, folder / "w.safetensors", opened->manifest);
  };
  const auto first = [](const WeightSource& source, const char* name) {
    plan::Placement placement;
    placement.name = name;
    placement.shape = {2};
    const auto view = source.find(placement);
    REQUIRE(view.ok());
    return reinterpret_cast<const float*>(view->data)[0];
  };
  CHECK(loaded({{"weight", &weight}, {"mask", &other}, {"scale", &other}}).status().error().code == "R0504");
  for (const bool has_mask : {true, false}) {  // a file may lack it
    auto source = has_mask ? loaded({{"weight", &weight}, {"mask", &mask}, {"scale", &other}})
                           : loaded({{"weight", &weight}, {"scale", &other}});
    REQUIRE(source.ok());
    CHECK(first(*source, "mask") == 0);
    CHECK(first(*source, "scale") == 1);
    CHECK(source->check_fixed("mask", 4, reinterpret_cast<const std::byte*>(&mask[1]), 4).ok());
    CHECK(source->check_fixed("mask", 4, reinterpret_cast<const std::byte*>(&other[1]), 4).error().code == "R0504");
    CHECK(source->check_fixed("scale", 0, reinterpret_cast<const std::byte*>(other.data()), 8).ok());
  }
  auto drawn = WeightSource::open(opened->directory, "", opened->manifest);
  REQUIRE(drawn.ok());
  plan::Placement placement;
  placement.name = "weight";
  placement.shape = {2};
  CHECK(drawn->find(placement).error().message.find("--weights none") != std::string::npos);
  std::vector<std::byte> bytes(8);
  std::memcpy(bytes.data(), other.data(), 8);
  drawn->replace({{"weight", bytes}});
  CHECK(first(*drawn, "weight") == 1);
  CHECK(first(*drawn, "scale") == 0);
  CHECK(first(*drawn, "mask") == 0);
}

// A base that others trained, in bf16, beside adapters that it does not have.
TEST_CASE("a file may lack what --missing covers, and f32 takes bf16 as it is") {
  const TempFolder folder;
  const std::vector<float> compiled(2, 0.5f);
  const std::vector<uint16_t> loaded{0x3f80, 0xc020};  // 1, -2.5
  const auto weight = [&](const char* name) {
    return plan::WeightTensor{name, DType::kF32, {2}, "", 0, 8, reinterpret_cast<const std::byte*>(compiled.data()),
                              {},   false};
  };
  plan::Bundle bundle;
  bundle.manifest.ranks.resize(1);
  bundle.ranks.resize(1);
  bundle.manifest.tensors = {info("h.0.q", 2), info("h.0.q_lora", 2), info("h.1.q_lora", 2)};
  bundle.manifest.tensors[2].aliases = {"tied"};
  const auto opened_with = [&](plan::WeightMode mode) {
    const std::string path = folder / (mode == plan::WeightMode::kNone ? "none" : "copied");
    REQUIRE(
        plan::write_bundle(path, bundle, {weight("h.0.q"), weight("h.0.q_lora"), weight("h.1.q_lora")}, {}, mode).ok());
    auto opened = plan::open_bundle(path);
    REQUIRE(opened.ok());
    return std::move(opened).value();
  };
  const std::string file = folder / "base.safetensors";
  const auto write = [&](const std::vector<std::string>& names) {
    std::vector<plan::TensorToWrite> list;
    for (const std::string& name : names)
      list.push_back({name, DType::kBF16, {2}, [&](const auto& put) { return put(loaded.data(), 4); }, 4});
    REQUIRE(plan::write_safetensors(file, list).ok());
  };
  plan::Placement placement;
  placement.shape = {2};
  const auto found = [&](const WeightSource& source, const char* name) {
    placement.name = name;
    const auto view = source.find(placement);
    return view.ok() ? std::string(dtype_name(view->dtype)) : view.status().error().code;
  };
  const auto opened = opened_with(plan::WeightMode::kCopy);
  const auto open = [&](const std::vector<std::string>& globs) {
    return WeightSource::open(opened.directory, file, opened.manifest, {"", globs});
  };
  write({"h.0.q"});
  CHECK(found(*open({}), "h.0.q") == "bf16");
  CHECK(found(*open({}), "h.0.q_lora") == "R0501");
  CHECK(open({"*.lora"}).status().error().code == "R0505");
  const auto both = open({"*_lora"});
  REQUIRE(both.ok());
  CHECK(both->missing() == std::set<std::string>{"h.0.q_lora", "h.1.q_lora"});
  CHECK(found(*both, "h.0.q") == "bf16");
  CHECK(found(*both, "h.0.q_lora") == "f32");
  const auto one = open({"h.0"});  // a module, of which the file has something
  REQUIRE(one.ok());
  CHECK(one->missing() == std::set<std::string>{"h.0.q_lora"});
  CHECK(found(*one, "h.1.q_lora") == "R0501");
  write({"h.0.q", "tied"});  // what is there is read, under any of its names
  CHECK(open({"*_lora"})->missing() == std::set<std::string>{"h.0.q_lora"});
  // What was trained takes precedence over both.
  const std::vector<float> trained(2, 7.0f);
  const std::string adapters = folder / "adapters.safetensors";
  const auto with_adapters = [&](const char* name, const std::string& load) {
    const auto put = [&](const auto& write) { return write(trained.data(), 8); };
    REQUIRE(plan::write_safetensors(adapters, {{name, DType::kF32, {2}, put, 8}}).ok());
    return WeightSource::open(opened.directory, load, opened.manifest, {adapters, {"*_lora"}});
  };
  const auto first = [&](const Result<WeightSource>& source, const char* name) {
    REQUIRE(source.ok());
    placement.name = name;
    return reinterpret_cast<const float*>(source->find(placement)->data)[0];
  };
  write({"h.0.q"});
  const auto over = with_adapters("tied", file);
  CHECK(first(over, "h.1.q_lora") == 7);
  CHECK(first(over, "h.0.q_lora") == 0.5f);
  CHECK(found(*over, "h.0.q") == "bf16");
  CHECK(over->missing() == std::set<std::string>{"h.0.q_lora"});
  const auto over_bundle = with_adapters("h.0.q", "");
  CHECK(first(over_bundle, "h.0.q") == 7);
  CHECK(first(over_bundle, "h.0.q_lora") == 0.5f);
  CHECK(with_adapters("h.0.k", file).status().error().code == "R0505");
  placement.dtype = DType::kI64;
  CHECK(found(*open({}), "h.0.q") == "R0502");
  placement.dtype = DType::kF32;
  const auto without = opened_with(plan::WeightMode::kNone);
  const auto nowhere = WeightSource::open(without.directory, file, without.manifest, {"", {"*_lora"}});
  REQUIRE(nowhere.ok());
  placement.name = "h.0.q_lora";
  CHECK(nowhere->find(placement).error().message.find("--weights none") != std::string::npos);
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
                                                " bytes from 3145728 on differ from the manifest (CRC32C)");
  std::filesystem::resize_file(path, 100);
  CHECK(WeightSource::open(opened->directory, "", opened->manifest).status().error().code == "P0604");
  CHECK(WeightSource::open(opened->directory, folder.write("x", "12"), opened->manifest).status().error().code ==
        "P0620");
}

}  // namespace
}  // namespace piper::checkpoint
