// A checkpoint that was damaged in any way is refused before a byte of the damaged place is used, with its file's name.
#include <catch2/catch.hpp>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/checkpoint/choose_start.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "schemas/checkpoint/open_checkpoint.h"
#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/temp_folder.h"

namespace piper::checkpoint {
namespace {

constexpr int kShards = 3;
constexpr int64_t kElements = 900000, kPart = kElements / kShards;  // a shard is longer than a MiB

// "split" lies in all shards, "whole" in the second one.
std::vector<float> values_of(int64_t step, float first, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first + static_cast<float>(step) * 0.5f);
  return values;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

void write_step(const TempFolder& folder, int64_t step) {
  Manifest manifest;
  manifest.run = "r";
  manifest.step = step;
  manifest.world_size = kShards;
  StoredTensor split{"split", StateKind::kParameter, DType::kF32, {kElements}, {}, {}};
  for (int shard = 0; shard < kShards; ++shard) {
    const int64_t begin = shard * kPart;
    const std::string key = "param/split[" + std::to_string(begin) + ":" + std::to_string(begin + kPart) + "]";
    std::vector<plan::TensorToWrite> tensors = {{key, DType::kF32, {kPart}, {}, kPart * 4}};
    std::string data = bytes_of(values_of(step, static_cast<float>(begin), kPart));
    if (shard == 1) {
      tensors.push_back({"param/whole", DType::kF32, {10}, {}, 40});
      data += bytes_of(values_of(step, 1e6f, 10));
    }
    const std::string bytes = plan::safetensors_header(tensors) + data, name = shard_file(shard, kShards);
    folder.write(step_folder(step) + "/" + name, bytes);
    manifest.files.push_back(
        {name, plan::sha256(bytes), static_cast<int64_t>(bytes.size()), plan::chunk_digests(bytes)});
    split.parts.push_back({shard, key, begin, begin + kPart});
  }
  manifest.tensors = {split, {"whole", StateKind::kParameter, DType::kF32, {10}, {}, {{1, "param/whole", 0, 10}}}};
  folder.write(step_folder(step) + "/" + std::string(kManifestFile), print_manifest(manifest));
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// What is wrong; "": nothing. Whatever of a tensor is handed out before is what was committed.
std::string fault_of(const std::string& path, int64_t step) {
  const auto opened = OpenCheckpoint::open(path);
  if (!opened.ok()) {
    CHECK(opened.error().code == "R0705");
    return opened.error().message;
  }
  std::string fault;
  for (const StoredTensor& tensor : opened->manifest().tensors) {
    const bool whole = tensor.name == "whole";
    const std::string expected = bytes_of(values_of(step, whole ? 1e6f : 0.0f, whole ? 10 : kElements));
    const Status read = opened->read(
        tensor, {}, 0, tensor.shape[0], [&](int64_t offset, const std::byte* data, int64_t bytes) -> Status {
          CHECK(std::memcmp(expected.data() + offset, data, static_cast<size_t>(bytes)) == 0);
          return {};
        });
    if (!read.ok() && fault.empty()) fault = read.error().message;
  }
  const Status checked = opened->check_all(false);
  if (!checked.ok()) CHECK(checked.error().code == "R0705");
  // A rank reads parts; who reads all files finds what no part has.
  return checked.ok() || !fault.empty() ? fault : checked.error().message;
}

TEST_CASE("each of 1,000 damages is found, file and tensor named") {
  const TempFolder folder;
  write_step(folder, 1);
  write_step(folder, 2);
  const std::string path = folder / step_folder(2), other = folder / step_folder(1);
  REQUIRE(fault_of(path, 2).empty());
  REQUIRE(fault_of(other, 1).empty());
  std::vector<std::string> files = {std::string(kManifestFile)};
  for (int shard = 0; shard < kShards; ++shard) files.push_back(shard_file(shard, kShards));
  std::mt19937 random(1);
  for (int trial = 0; trial < 1000; ++trial) {
    const size_t index = random() % files.size();
    const std::string file = path + "/" + files[index], original = read_file(file);
    const bool shard = index > 0;
    std::string damaged = original, second;
    // Headers of shards are short: half of the damages are there, and in the manifest all are.
    const size_t at = random() % (shard && trial % 2 == 0 ? 256 : original.size());
    const unsigned kind = random() % 6;
    switch (kind) {
      case 0:
      case 1: damaged[at] = static_cast<char>(damaged[at] ^ 1 << random() % 8); break;
      case 2: damaged.resize(at); break;
      case 3: damaged += std::string(1 + random() % 5000, 'x'); break;
      case 4: damaged.replace(at, 512, std::string(std::min<size_t>(512, original.size() - at), '\0')); break;
      case 5: damaged = read_file(trial % 3 == 0 ? other + "/" + files[index] : path + "/" + files[(index + 1) % 4]);
    }
    if (damaged == original) continue;
    write_file(file, damaged);
    const std::string fault = fault_of(path, 2);
    INFO("trial " << trial << ", kind " << kind << " at " << at << " of " << files[index] << ": " << fault);
    CHECK(fault.find(files[index]) != std::string::npos);
    const bool of_a_tensor = shard && damaged.size() == original.size();
    CHECK((!of_a_tensor || fault.find("tensor '") != std::string::npos));
    write_file(file, original);
  }
  REQUIRE(fault_of(path, 2).empty());
}

TEST_CASE("shards of one checkpoint that were exchanged are found") {
  const TempFolder folder;
  write_step(folder, 1);
  const std::string path = folder / step_folder(1), a = path + "/" + shard_file(0, kShards),
                    b = path + "/" + shard_file(2, kShards), there = read_file(a);
  write_file(a, read_file(b));
  write_file(b, there);
  CHECK(fault_of(path, 1).find(shard_file(0, kShards)) != std::string::npos);
}

// A step whose last shard has another last byte than was written: its folder.
std::string with_damaged_end(const TempFolder& folder) {
  write_step(folder, 1);
  const std::string path = folder / step_folder(1), last = path + "/" + shard_file(2, kShards);
  std::string bytes = read_file(last);
  bytes.back() ^= 1;
  write_file(last, bytes);
  return path;
}

TEST_CASE("several processes check the bytes between them, however few the files are") {
  const TempFolder folder;
  const auto opened = OpenCheckpoint::open(with_damaged_end(folder));
  REQUIRE(opened.ok());
  // Three files of two digests each; the last one is wrong.
  for (const size_t parts : {1, 2, 3, 4, 6, 7})
    for (size_t part = 0; part < parts; ++part) {
      INFO("part " << part << " of " << parts);
      const Status checked = opened->check_part(part, parts);
      CHECK(checked.ok() == (part + 1 < parts));
    }
}

TEST_CASE("a damaged byte is found in whatever order elements are asked for") {
  const TempFolder folder;
  const auto opened = OpenCheckpoint::open(with_damaged_end(folder));
  REQUIRE(opened.ok());
  const StoredTensor& split = opened->manifest().tensors[0];
  const std::string expected = bytes_of(values_of(1, 0, kElements));
  const plan::ElementOrder columns({900, 1000}, {1, 4});
  int64_t seen = 0;
  const auto take = [&](int64_t offset, const std::byte* data, int64_t count) {
    for (const plan::ElementRun& run : columns.row_major_runs(offset / 4, count / 4))
      CHECK(std::memcmp(expected.data() + 4 * run.there, data + 4 * run.at, static_cast<size_t>(4 * run.count)) == 0);
    seen += count / 4;
    return Status();
  };
  CHECK(opened->read(split, columns, 0, 100000, take).ok());
  CHECK(seen == 100000);
  const Status read = opened->read(split, columns, 0, kElements, take);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == "R0705");
  CHECK(read.error().message.find("tensor 'split' lies there") != std::string::npos);
}

// What each of three processes finds; `notes` of the first one.
std::vector<Result<Start>> start_three(const StartOptions& options, std::vector<std::string>& notes,
                                       std::chrono::milliseconds timeout = std::chrono::seconds(60),
                                       std::chrono::milliseconds first_is_late = {}) {
  constexpr int32_t kProcesses = 3;
  hal::LocalWorld world(kProcesses);
  std::vector<Result<Start>> starts;
  for (int32_t rank = 0; rank < kProcesses; ++rank) starts.emplace_back(Start{});
  std::vector<std::unique_ptr<hal::Transport>> transports;
  for (int32_t rank = 0; rank < kProcesses; ++rank) transports.push_back(world.transport(rank));
  std::vector<std::thread> processes;
  for (size_t rank = 0; rank < starts.size(); ++rank)
    processes.emplace_back([&, rank] {
      hal::TransportChannel control(*transports[rank]);
      const hal::WaitControl wait{nullptr, timeout};
      if (rank == 0) std::this_thread::sleep_for(first_is_late);
      starts[rank] =
          choose_start(options, &control, wait, [&notes](const std::string& note) { notes.push_back(note); });
    });
  for (std::thread& process : processes) process.join();
  return starts;
}

TEST_CASE("a run goes on from the checkpoint that all processes find valid") {
  const TempFolder folder;
  write_step(folder, 1);
  write_step(folder, 2);
  std::vector<std::string> notes;
  const StartOptions newest{folder.path().string(), true, -1, 3}, second{folder.path().string(), true, 2, 3};
  for (const auto& start : start_three(newest, notes)) {
    REQUIRE(start.ok());
    REQUIRE(start->from.has_value());
    CHECK(start->from->manifest().step == 2);
    CHECK(start->storage != nullptr);
  }
  CHECK(notes.empty());
  // The last process alone reads this file.
  const std::string last = folder / step_folder(2) + "/" + shard_file(2, kShards);
  std::string bytes = read_file(last);
  bytes[bytes.size() / 2] ^= 1;
  write_file(last, bytes);
  std::string run;
  for (const auto& start : start_three(newest, notes)) {
    REQUIRE(start.ok());
    REQUIRE(start->from.has_value());
    CHECK(start->from->manifest().step == 1);
    CHECK((run.empty() || start->writer.run == run));
    run = start->writer.run;
  }
  REQUIRE(notes.size() == 1);
  CHECK(notes.front().find(shard_file(2, kShards)) != std::string::npos);
  const auto refused = start_three(second, notes);
  CHECK(refused.front().error().code == "R0702");
  for (size_t rank = 1; rank < refused.size(); ++rank) {
    REQUIRE(refused[rank].ok());
    CHECK(!refused[rank]->from.has_value());
  }
  write_file(folder / step_folder(1) + "/" + std::string(kManifestFile), "{}");
  CHECK(start_three(newest, notes).front().error().code == "R0702");
}

TEST_CASE("processes wait longer for files than for messages") {
  const TempFolder folder;
  write_step(folder, 1);
  std::vector<std::string> notes;
  using std::chrono::milliseconds;
  for (const auto& start :
       start_three({folder.path().string(), true, -1, 3}, notes, milliseconds(50), milliseconds(300)))
    CHECK(start.ok());
}

TEST_CASE("processes that begin without a checkpoint have the same run") {
  const TempFolder folder;
  std::vector<std::string> notes;
  std::string run;
  for (const auto& start : start_three({folder / "new", true, -1, 3}, notes)) {
    REQUIRE(start.ok());
    CHECK(!start->from.has_value());
    REQUIRE(start->storage != nullptr);
    CHECK((run.empty() || start->writer.run == run));
    run = start->writer.run;
  }
  CHECK(!run.empty());
}

}  // namespace
}  // namespace piper::checkpoint
