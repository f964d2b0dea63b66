#include "schemas/live/page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace piper::live {

namespace {

constexpr uint64_t kVersion = 2;
constexpr size_t kWords = sizeof(RankStatus) / 8;
static_assert(sizeof(RankStatus) == 14 * 8 && std::is_trivially_copyable_v<RankStatus>,
              "another layout is another version");
static_assert(std::atomic<uint64_t>::is_always_lock_free);
using Words = std::array<uint64_t, kWords>;

int64_t now_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Status failed(const std::string& path, const std::string& what) {
  return Status::failure("L0137", "status pages '" + path + "': " + what);
}

bool possible(const Words& words, int64_t rank) {
  const auto status = std::bit_cast<RankStatus>(words);
  const auto state = static_cast<int64_t>(status.state);
  return status.rank == rank && status.pid > 0 && status.step >= 0 && status.steps >= 0 && state >= 0 &&
         state < kNumRankStates && status.checkpoint_step >= 0 && status.skipped >= 0 && status.restarts >= 0 &&
         status.tokens_per_s >= 0 && std::isfinite(status.tokens_per_s) && status.checkpoint_s >= 0 &&
         std::isfinite(status.checkpoint_s) && status.mfu >= 0 && std::isfinite(status.mfu);
}

}  // namespace

struct Page::Image {
  std::atomic<uint64_t> version;  // 0: no rank has been here
  std::atomic<uint64_t> written;  // states, so far; the newest is at written % 2
  std::array<std::array<std::atomic<uint64_t>, kWords>, 2> states;
};

const char* name_of(RankState state) {
  switch (state) {
    case RankState::kStarting: return "starting";
    case RankState::kTraining: return "training";
    case RankState::kCheckpointing: return "checkpointing";
    case RankState::kEvaluating: return "evaluating";
    case RankState::kStopping: return "stopping";
    case RankState::kDone: return "done";
  }
  return "";
}

Page::Page(Page&& other) noexcept : image_(std::exchange(other.image_, nullptr)) {}

Page& Page::operator=(Page&& other) noexcept {
  std::swap(image_, other.image_);
  return *this;
}

Page::~Page() {
  if (image_ != nullptr) munmap(image_, kPageBytes);
}

Result<Page> Page::map(const std::string& path, int64_t rank) {
  static_assert(sizeof(Image) <= kPageBytes);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return failed(path, std::strerror(errno));
  struct stat about{};
  const bool fits =
      fstat(file, &about) == 0 && S_ISREG(about.st_mode) && rank >= 0 && rank < about.st_size / kPageBytes;
  void* const mapped =
      fits ? mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, rank * kPageBytes) : MAP_FAILED;
  close(file);
  if (!fits) return failed(path, "no page of rank " + std::to_string(rank));
  if (mapped == MAP_FAILED) return failed(path, std::strerror(errno));
  return Page(static_cast<Image*>(mapped));
}

// Words are released and acquired one by one, so that a reader who sees one of a later state sees its count, too; on
// x86-64 and with fences on others that is what a sequence lock does.
void Page::copy(const RankStatus& status) {
  if (image_ == nullptr) return;
  const auto words = std::bit_cast<Words>(status);
  const uint64_t count = image_->written.load(std::memory_order_relaxed) + 1;
  for (size_t i = 0; i < kWords; ++i) image_->states[count % 2][i].store(words[i], std::memory_order_release);
  image_->version.store(kVersion, std::memory_order_relaxed);
  image_->written.store(count, std::memory_order_release);
}

void Page::write(RankStatus status) {
  status.monotonic_ns = now_ns(CLOCK_MONOTONIC);
  status.wall_ns = now_ns(CLOCK_REALTIME);
  copy(status);
}

std::optional<RankStatus> Page::read(int64_t rank) const {
  if (image_ == nullptr) return std::nullopt;
  for (int tries = 0; tries < 1000; ++tries) {
    const uint64_t count = image_->written.load(std::memory_order_acquire);
    if (count == 0 || image_->version.load(std::memory_order_relaxed) != kVersion) return std::nullopt;
    Words words;
    for (size_t i = 0; i < kWords; ++i) words[i] = image_->states[count % 2][i].load(std::memory_order_acquire);
    if (image_->written.load(std::memory_order_relaxed) != count) continue;
    return possible(words, rank) ? std::optional(std::bit_cast<RankStatus>(words)) : std::nullopt;
  }
  return std::nullopt;  // nobody writes that often
}

Status create_pages(const std::string& path, int64_t ranks) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return failed(path, std::strerror(errno));
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return failed(path, std::strerror(errno));
  // Blocks are taken now: a rank that writes to a page for which the disk has no room is ended by SIGBUS.
  const int error = posix_fallocate(file, 0, ranks * kPageBytes);
  close(file);
  return error == 0 ? Status() : failed(path, std::strerror(error));
}

}  // namespace piper::live
