// Committing checkpoints on a disk that fails a call, or loses its power: what is read afterwards is one whole step.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/write_checkpoint.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "schemas/checkpoint/find_checkpoint.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/unsure_disk.h"

namespace piper::checkpoint {
namespace {

constexpr int64_t kSteps = 4;

// A checkpoint of one tensor, which holds the step.
struct Step {
  explicit Step(int64_t step) {
    const std::vector<float> values(64, static_cast<float>(step));
    manifest.step = step;
    manifest.optimizer = "sgd";
    manifest.tensors = {{"w", StateKind::kParameter, DType::kF32, {64}, {}, {{0, "param/w", 0, 64}}}};
    shard = plan::safetensors_header({{"param/w", DType::kF32, {64}, {}, 256}}) +
            std::string(reinterpret_cast<const char*>(values.data()), 256);
    manifest.files = {{shard_file(0, 1), "", static_cast<int64_t>(shard.size())}};
  }
  Manifest manifest;
  std::string shard;
};

// A run of one rank.
class OneTensor {
 public:
  explicit OneTensor(Storage& storage, WriterOptions options = {"run", 2, {}, "", 0})
      : writer_(storage, control_, std::move(options)) {}

  void begin_line() { writer_.begin_line(); }
  void remove_leavings() { writer_.remove_leavings(); }
  Status write(int64_t step) {
    const Step of(step);
    return writer_.write(of.manifest, shard_file(0, 1), of.shard, {});
  }

 private:
  hal::LocalWorld world_{1};
  std::unique_ptr<hal::Transport> transport_ = world_.transport(0);
  hal::TransportChannel control_{*transport_};
  CheckpointWriter writer_;
};

// What the next owner of the folder does first.
void clear(const std::string& folder) {
  const auto owner = open_storage(folder, true);
  REQUIRE(owner.ok());
  clear_leavings(**owner);
}

// The step that a run goes on from, 0: none. Its tensor is that step's.
int64_t step_found(const std::string& folder) {
  const auto found = find_newest_valid(folder, [](const std::string&) {});
  if (!found.ok() || !found->has_value()) return 0;
  const OpenCheckpoint& checkpoint = **found;
  float value = 0;
  const Status read = checkpoint.read(checkpoint.manifest().tensors.front(), {}, 63, 1,
                                      [&value](int64_t, const std::byte* data, int64_t bytes) {
                                        std::memcpy(&value, data, static_cast<size_t>(bytes));
                                        return Status();
                                      });
  REQUIRE(read.ok());
  REQUIRE(value == static_cast<float>(checkpoint.manifest().step));
  return checkpoint.manifest().step;
}

// Steps, and then the last one anew, as a run of another plan does that has no steps to do. What was committed.
int64_t train(UnsureDisk& disk) {
  OneTensor run(disk);
  int64_t committed = 0;
  while (committed < kSteps && run.write(committed + 1).ok()) ++committed;
  if (committed < kSteps) return committed;
  OneTensor resharded(disk, {"next", 2, {}, "", kSteps});
  return resharded.write(kSteps).ok() ? kSteps + 1 : kSteps;
}

int calls_of_a_run() {
  UnsureDisk disk;
  REQUIRE(train(disk) == kSteps + 1);
  return disk.calls;
}

// `seeds`: states for each call at which the power goes off. How many there were.
int look_at_states(unsigned seeds) {
  const int calls = calls_of_a_run();
  REQUIRE(calls > 40);
  int states = 0;
  for (int off_at = 0; off_at <= calls; ++off_at) {
    UnsureDisk disk;
    disk.off_at = off_at;
    const int64_t committed = std::min(train(disk), kSteps);
    std::set<Left> seen;
    for (unsigned seed = 0; seed < seeds; ++seed, ++states) {
      std::mt19937 random(seed);
      const auto [left, other] = seen.insert(disk.left(&random));
      if (!other) continue;
      const TempFolder folder;
      lay(*left, folder.path() / "c");
      clear(folder / "c");
      const int64_t found = step_found(folder / "c");
      INFO("power off at call " << off_at << ", seed " << seed);
      REQUIRE(found >= committed);
      REQUIRE(found <= std::min(committed + 1, kSteps));
    }
  }
  return states;
}

TEST_CASE("whatever a power loss leaves, one whole step is read") { REQUIRE(look_at_states(140) >= 10000); }

TEST_CASE("a call that fails once is made good by another attempt") {
  const int calls = calls_of_a_run();
  for (const int number : {EIO, ENOSPC})
    for (int fail_at = 0; fail_at < calls; ++fail_at) {
      UnsureDisk disk;
      disk.fail_at = fail_at;
      disk.fail_with = number;
      INFO("call " << fail_at << " failed");
      REQUIRE(train(disk) == kSteps + 1);
      const TempFolder folder;
      lay(disk.left(nullptr), folder.path() / "c");
      REQUIRE(step_found(folder / "c") == kSteps);
    }
}

TEST_CASE("what fails each time is never called saved") {
  for (const char* kind : {"mkdir", "create", "write", "fsync", "close", "rename", "fsync of a directory"}) {
    UnsureDisk disk;
    OneTensor run(disk);
    REQUIRE(run.write(1).ok());
    disk.always = kind;
    const Status status = run.write(2);
    INFO(kind);
    REQUIRE(!status.ok());
    CHECK(status.error().code == "R0701");
    CHECK(status.error().message.find("step 2") != std::string::npos);
    const TempFolder folder;
    lay(disk.left(nullptr), folder.path() / "c");
    CHECK(step_found(folder / "c") >= 1);
  }
}

TEST_CASE("writes that write nothing fail") {
  UnsureDisk disk;
  disk.writes_nothing = true;
  OneTensor run(disk);
  const Status status = run.write(1);
  REQUIRE(!status.ok());
  CHECK(status.error().code == "R0701");
}

std::vector<std::string> names_in(UnsureDisk& disk) {
  std::vector<std::string> names;
  REQUIRE(disk.list(".", names) == 0);
  return names;
}

TEST_CASE("what is later than where a run went on from is set aside at its first commit") {
  UnsureDisk disk;
  OneTensor before(disk, {"old", 0, {}, "", 0});
  for (int64_t step = 1; step <= 6; ++step) REQUIRE(before.write(step).ok());
  OneTensor run(disk, {"new", 2, {6}, "", 2});
  REQUIRE(run.write(4).ok());
  // Step 6 is known to be damaged, and left alone.
  CHECK(names_in(disk) == std::vector<std::string>{"abandoned-step-000000003-new", "abandoned-step-000000005-new",
                                                   "step-000000002", "step-000000004", "step-000000006"});
}

TEST_CASE("what is later is set aside when the run begins, before it has saved anything") {
  UnsureDisk disk;
  OneTensor before(disk, {"old", 0, {}, "", 0});
  for (int64_t step = 1; step <= 4; ++step) REQUIRE(before.write(step).ok());
  OneTensor run(disk, {"new", 2, {4}, "", 2});
  run.begin_line();
  const std::vector<std::string> begun{"abandoned-step-000000003-new", "step-000000001", "step-000000002",
                                       "step-000000004"};
  CHECK(names_in(disk) == begun);
  for (unsigned seed = 0; seed < 20; ++seed) {  // also after a power loss
    const TempFolder folder;
    std::mt19937 random(seed);
    lay(disk.left(&random), folder.path() / "c");
    CHECK(*list_steps(folder / "c") == std::vector<int64_t>{1, 2, 4});
  }
  // What was damaged is written anew, and counted from then on.
  REQUIRE(run.write(4).ok());
  REQUIRE(run.write(5).ok());
  CHECK(names_in(disk) == std::vector<std::string>{"abandoned-step-000000003-new", "abandoned-step-000000004-new",
                                                   "step-000000004", "step-000000005"});
}

TEST_CASE("what a run was to remove when it was killed, the next one removes, also without steps of its own") {
  UnsureDisk disk;
  OneTensor before(disk, {"killed", 0, {}, "", 0});
  for (int64_t step = 1; step <= 4; ++step) REQUIRE(before.write(step).ok());
  OneTensor run(disk, {"next", 2, {4}, "", 3});
  run.remove_leavings();
  // Step 4 is known to be damaged, and left alone.
  CHECK(names_in(disk) == std::vector<std::string>{"step-000000002", "step-000000003", "step-000000004"});
}

TEST_CASE("a checkpoint of the same step is replaced, and found again where the new one never got its name") {
  UnsureDisk disk;
  OneTensor before(disk);
  REQUIRE(before.write(1).ok());
  OneTensor run(disk, {"new", 2, {}, "", 1});
  REQUIRE(run.write(1).ok());
  CHECK(names_in(disk) == std::vector<std::string>{"step-000000001"});
  REQUIRE(disk.rename("step-000000001", "replaced-step-000000001-new") == 0);
  clear_leavings(disk);
  CHECK(names_in(disk) == std::vector<std::string>{"step-000000001"});
}

class SlowDisk : public UnsureDisk {
 public:
  int remove_directory(const std::string& path) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    removed = true;
    return UnsureDisk::remove_directory(path);
  }
  std::atomic<bool> removed{false};
};

TEST_CASE("ranks leave a commit together, when the first one has removed what is old") {
  SlowDisk disk;
  UnsureDisk nothing;
  hal::LocalWorld world(2);
  const auto run = [&](int32_t rank) {
    const auto transport = world.transport(rank);
    hal::TransportChannel control(*transport);
    CheckpointWriter writer(rank == 0 ? static_cast<Storage&>(disk) : nothing, control, {"run", 1, {}, "", 0});
    bool ends_well = true;
    for (const int64_t step : {1, 2}) {
      const Step of(step);
      ends_well = writer.write(of.manifest, rank == 0 ? shard_file(0, 1) : "", of.shard, {}).ok() && ends_well;
    }
    return ends_well && disk.removed;
  };
  bool first = false, second = false;
  std::thread rank([&] { first = run(0); });
  second = run(1);
  rank.join();
  CHECK(first);
  CHECK(second);
}

// A plan of one rank whose one parameter is saved.
class OneParameter {
 public:
  explicit OneParameter(Storage& storage, bool only_finite = false) {
    plan_.buffers = {{"w", plan::BufferClass::kParameter, 256, 0, DType::kF32, {64}}};
    plan_.placements = {{"w", plan::PlacementKind::kValue, DType::kF32, {64}, {{0, 0}, 0, 64, true}}};
    memory_ = device_->allocate(256).value();
    buffers_ = {memory_->base()};
    WriterOptions options{"run", 2, {}, "", 0};
    if (only_finite) options.finite = &finite_;
    options.writing = &writing;
    auto made = Checkpointer::make(manifest_, plan_, buffers_, *device_, control_, {}, storage, {}, options);
    REQUIRE(made.ok());
    checkpointer = std::move(made).value();
  }
  void set(int64_t element, float value) {
    REQUIRE(device_->write(buffers_[0] + element * 4, &value, sizeof value).ok());
  }

 private:
  static plan::Manifest of_one_tensor() {
    plan::Manifest manifest;
    manifest.tensors.emplace_back();
    manifest.tensors[0].name = "w";
    manifest.tensors[0].shape = {64};
    return manifest;
  }
  plan::Manifest manifest_ = of_one_tensor();
  FiniteState finite_{manifest_, nullptr, nullptr};
  plan::RankPlan plan_;
  std::unique_ptr<hal::Device> device_ = hal::make_cpu_device({}, {});
  std::shared_ptr<hal::MemoryRegion> memory_;
  std::vector<hal::Address> buffers_;
  hal::LocalWorld world_{1};
  std::unique_ptr<hal::Transport> transport_ = world_.transport(0);
  hal::TransportChannel control_{*transport_};

 public:
  std::atomic<int> writing{0};
  std::unique_ptr<Checkpointer> checkpointer;
};

class ThrowingDisk : public UnsureDisk {
 public:
  int sync_file(int file) override {
    if (no_memory) throw std::bad_alloc();
    if (mistaken) throw std::runtime_error("a mistake");
    if (writing != nullptr) most_writing = std::max(most_writing, writing->load());
    return UnsureDisk::sync_file(file);
  }
  bool no_memory = false, mistaken = false;
  const std::atomic<int>* writing = nullptr;
  int most_writing = 0;
};

TEST_CASE("what the writing thread meets is told by the next call") {
  ThrowingDisk disk;
  OneParameter run(disk);
  CHECK(run.checkpointer->write_seconds() == 0);
  disk.writing = &run.writing;
  REQUIRE(run.checkpointer->save(1, 8).ok());
  REQUIRE(run.checkpointer->finish().ok());
  CHECK(disk.most_writing == 1);
  CHECK(run.writing == 0);
  CHECK(run.checkpointer->committed_step() == 1);
  CHECK(run.checkpointer->write_seconds() > 0);
  CHECK(run.checkpointer->total_bytes() == run.checkpointer->bytes());
  disk.no_memory = true;
  REQUIRE(run.checkpointer->save(2, 16).ok());
  const Status failure = run.checkpointer->finish();
  REQUIRE(!failure.ok());
  CHECK(failure.error().code == "R0701");
  CHECK(failure.error().message.find("no memory") != std::string::npos);
  CHECK(run.checkpointer->save(3, 24).error().code == "R0701");
  CHECK(run.checkpointer->committed_step() == 1);

  ThrowingDisk other;
  OneParameter second(other);
  other.mistaken = true;
  REQUIRE(second.checkpointer->save(1, 8).ok());
  CHECK(second.checkpointer->finish().error().code == "bug");
}

TEST_CASE("a state that is not finite is not committed, and no older one is removed for it") {
  for (const bool only_finite : {true, false}) {
    UnsureDisk disk;
    OneParameter run(disk, only_finite);
    const auto save = [&run](int64_t step) {
      REQUIRE(run.checkpointer->save(step, step).ok());
      REQUIRE(run.checkpointer->finish().ok());
    };
    save(1);
    save(2);
    CHECK(run.checkpointer->not_finite().step == 0);
    run.set(63, -std::numeric_limits<float>::infinity());
    save(3);
    run.set(63, 0);
    run.set(0, std::numeric_limits<float>::quiet_NaN());
    save(4);
    CHECK(run.checkpointer->committed_step() == (only_finite ? 2 : 4));
    CHECK(run.checkpointer->not_finite().step == (only_finite ? 3 : 0));
    CHECK(run.checkpointer->not_finite().what == (only_finite ? "parameter 'w' has an infinity" : ""));
    const std::vector<std::string> kept = only_finite ? std::vector<std::string>{"step-000000001", "step-000000002"}
                                                      : std::vector<std::string>{"step-000000003", "step-000000004"};
    CHECK(names_in(disk) == kept);
  }
}

TEST_CASE("writes that are cut short go on") {
  UnsureDisk disk;
  disk.short_writes = true;
  OneTensor run(disk);
  REQUIRE(run.write(1).ok());
  const TempFolder folder;
  lay(disk.left(nullptr), folder.path() / "c");
  CHECK(step_found(folder / "c") == 1);
}

TEST_CASE("an owner keeps others out and clears what died") {
  const TempFolder folder;
  folder.write("c/step-000000004.tmp-dead/shard", "x");
  folder.write("c/trash-step-000000001-dead/shard", "x");
  folder.write("c/mine.tmp-x", "x");
  {
    const auto owner = open_storage(folder / "c", true);
    REQUIRE(owner.ok());
    CHECK(open_storage(folder / "c", true).status().error().code == "R0704");
    CHECK(open_storage(folder / "c", false).ok());
    clear_leavings(**owner);
    std::vector<std::string> names;
    REQUIRE((*owner)->list(".", names) == 0);
    std::sort(names.begin(), names.end());
    CHECK(names == std::vector<std::string>{"LOCK", "mine.tmp-x"});
    OneTensor run(**owner);
    for (int64_t step = 1; step <= 5; ++step) REQUIRE(run.write(step).ok());
  }
  CHECK(open_storage(folder / "c", true).ok());
  const auto steps = list_steps(folder / "c");
  REQUIRE(steps.ok());
  CHECK(*steps == std::vector<int64_t>{4, 5});
  CHECK(step_found(folder / "c") == 5);
  CHECK(find_exact(folder / "c", 1).status().error().code == "R0702");
  CHECK(open_storage(folder.write("file", ""), true).status().error().code == "R0701");
}

TEST_CASE("a manifest is read as it was written, and not otherwise") {
  Manifest manifest;
  manifest.run = "r";
  manifest.step = 7;
  manifest.seed = UINT64_MAX;
  manifest.files = {{"shard-00000-of-00001.safetensors", "", 100, {1}}};
  manifest.tensors = {{"a", StateKind::kParameter, DType::kF32, {4}, {"b"}, {{0, "k", 0, 1}, {0, "l", 1, 4}}}};
  const std::string text = print_manifest(manifest);
  const auto read = parse_manifest(text, "M");
  REQUIRE(read.ok());
  Manifest again = *read;
  CHECK(print_manifest(again) == text);
  CHECK(read->seed == UINT64_MAX);
  CHECK(find_tensor(*read, StateKind::kParameter, "a") != nullptr);
  CHECK(find_tensor(*read, StateKind::kFirstMoment, "a") == nullptr);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string turned = text;
    turned[i] = static_cast<char>(turned[i] ^ 1);
    CHECK(!parse_manifest(turned, "M").ok());
    CHECK(!parse_manifest(text.substr(0, i), "M").ok());
  }
  const auto refused = [&](const std::function<void(Manifest&)>& edit) {
    Manifest edited = manifest;
    edit(edited);
    const auto result = parse_manifest(print_manifest(edited), "M");
    return !result.ok() && result.error().code == "R0705";
  };
  CHECK(refused([](Manifest& m) { m.tensors[0].parts[1].begin = 2; }));
  CHECK(refused([](Manifest& m) { m.tensors[0].parts.pop_back(); }));
  CHECK(refused([](Manifest& m) { m.tensors[0].parts[0].file = 1; }));
  CHECK(refused([](Manifest& m) { m.tensors.push_back(m.tensors[0]); }));
  CHECK(refused([](Manifest& m) { m.tensors[0].shape = {INT64_MAX, 2}; }));
  CHECK(refused([](Manifest& m) { m.files[0].path = "../x"; }));
  CHECK(refused([](Manifest& m) { m.files[0].chunks = {}; }));
  CHECK(step_of_folder(step_folder(1200)) == 1200);
  CHECK(step_of_folder("step-000001200.tmp-x") == -1);
  CHECK(step_of_folder("step-1200") == -1);
}

}  // namespace
}  // namespace piper::checkpoint
