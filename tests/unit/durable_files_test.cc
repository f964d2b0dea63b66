// What is written is on the disk before it gets its name, and a bundle that is replaced is there all the time. The
// system's calls are listened to: those of this program come here first.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/plan_bundle_example.h"
#include "tests/unit/temp_folder.h"

namespace fs = std::filesystem;
using namespace piper;
using namespace piper::plan;

namespace {

struct Listener {
  std::vector<std::string> calls;  // "fsync NAME", "syncfs NAME", "rename NAME", with the base name of what it is about
  std::string watched;             // a path; how often it was missing after a rename
  int missing = 0;
  bool can_swap = true;
} listener;

void heard(const std::string& call, const fs::path& path) {
  std::string name = path.filename().string();
  listener.calls.push_back(call + " " + name.substr(0, name.find(".partial-")));
  if (!listener.watched.empty() && !fs::exists(listener.watched)) ++listener.missing;
}

fs::path path_of(int fd) { return fs::read_symlink("/proc/self/fd/" + std::to_string(fd)); }

int answer(long result) { return static_cast<int>(result); }

}  // namespace

extern "C" int fsync(int fd) {
  const int result = answer(syscall(SYS_fsync, fd));
  heard("fsync", path_of(fd));
  return result;
}

extern "C" int syncfs(int fd) noexcept {
  const int result = answer(syscall(SYS_syncfs, fd));
  heard("syncfs", path_of(fd));
  return result;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  const int result = answer(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
  heard("rename", to);
  return result;
}

extern "C" int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) noexcept {
  if (!listener.can_swap) {
    errno = EINVAL;
    return -1;
  }
  const int result = answer(syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
  heard("swap", to);
  return result;
}

namespace {

void write_bundle_to(const std::string& directory) {
  auto bundle = example::two_ranks();
  const Status status = write_bundle(directory, bundle, {}, {}, WeightMode::kNone);
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
}

size_t entries(const fs::path& directory) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST_CASE("a saved file is on the disk before it gets its name, and its name before the call ends") {
  const TempFolder folder;
  TensorToWrite tensor{"w", DType::kF32, {2}, {}, 8};
  tensor.produce = [](const auto& write) { return write("12345678", 8); };
  listener = {};
  REQUIRE(write_safetensors(folder / "w.safetensors", {tensor}).ok());
  CHECK(listener.calls == std::vector<std::string>{"fsync w.safetensors", "rename w.safetensors",
                                                   "fsync " + folder.path().filename().string()});
}

TEST_CASE("a bundle is on the disk before it gets its name, and is there all the time while it is replaced") {
  const TempFolder folder;
  const std::string parent = folder.path().filename().string();
  listener = {};
  write_bundle_to(folder / "plans");
  CHECK(listener.calls == std::vector<std::string>{"syncfs plans", "rename plans", "fsync " + parent});

  listener = {};
  listener.watched = folder / "plans/manifest.json";
  write_bundle_to(folder / "plans");
  CHECK(listener.calls == std::vector<std::string>{"syncfs plans", "swap plans", "fsync " + parent});
  CHECK(listener.missing == 0);
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a file system that cannot swap gets two renames") {
  const TempFolder folder;
  write_bundle_to(folder / "plans");
  folder.write("plans/ranks/rank-00009.json", "stale");
  listener = {};
  listener.can_swap = false;
  write_bundle_to(folder / "plans");
  CHECK(listener.calls.size() == 4);
  CHECK(listener.calls.back() == "fsync " + folder.path().filename().string());
  CHECK(entries(folder.path()) == 1);
  CHECK_FALSE(fs::exists(folder / "plans/ranks/rank-00009.json"));
  CHECK(fs::exists(folder / "plans/manifest.json"));
}

}  // namespace
