#include "launcher/cluster/lease.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace piper::launcher {

struct Lease::Image {
  std::atomic<int64_t> until_ns;  // 0 at first: it is over
};

Lease::Image* Lease::map(int file) {
  static_assert(std::atomic<int64_t>::is_always_lock_free);
  void* const mapped = mmap(nullptr, sizeof(Image), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<Image*>(mapped);
}

Result<Lease> Lease::create(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  // Its block is taken now: a write to a page for which the disk has no room is SIGBUS.
  const int error = file < 0 ? errno : posix_fallocate(file, 0, sizeof(Image));
  Image* const image = error == 0 ? map(file) : nullptr;
  if (file >= 0) close(file);
  if (image == nullptr) return Status::failure("L0133", "'" + path + "': " + std::strerror(error != 0 ? error : errno));
  return Lease(image);
}

Result<Lease> Lease::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  const bool whole = file >= 0 && lseek(file, 0, SEEK_END) >= static_cast<off_t>(sizeof(Image));
  Image* const image = whole ? map(file) : nullptr;
  if (file >= 0) close(file);
  if (image == nullptr) return Status::failure("L0104", "'" + path + "' is no lease of piperd");
  return Lease(image);
}

Lease::Lease(Lease&& other) noexcept : image_(std::exchange(other.image_, nullptr)) {}

Lease::~Lease() {
  if (image_ != nullptr) munmap(image_, sizeof(Image));
}

std::chrono::nanoseconds Lease::now() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void Lease::set_until(std::chrono::nanoseconds time) { image_->until_ns.store(time.count()); }

bool Lease::is_over() const { return now().count() > image_->until_ns.load(); }

}  // namespace piper::launcher
