#include "runtime/hal/cpu/cpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/hal/cpu/available_memory.h"

namespace piper::hal {

namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
// Memory is filled piece by piece, and before each the rest must be there: ranks that load side by side, in one process
// or in several, see each other only by what is left. The margin is for what they do within a piece, and for the
// kernels.
constexpr int64_t kPiece = int64_t{64} << 20, kMargin = int64_t{128} << 20;

Status check_available(const std::string& machine, int64_t bytes, int64_t missing) {
  const auto available = available_memory(machine);
  if (!available || *available - kMargin >= missing) return {};
  return Status::failure("R0405", "cannot allocate " + std::to_string(bytes) + " bytes: " + std::to_string(missing) +
                                      " of them are still to be filled, and the machine or the cgroup has " +
                                      std::to_string(*available) + " bytes available, of which " +
                                      std::to_string(kMargin) + " are left alone");
}

class MappedRegion : public MemoryRegion {
 public:
  static Result<std::unique_ptr<MemoryRegion>> map(int64_t bytes, const DeviceOptions& options) {
    auto region = std::make_unique<MappedRegion>();
    region->bytes_ = bytes;
    if (bytes == 0) return std::unique_ptr<MemoryRegion>(std::move(region));
    PIPER_RETURN_IF_ERROR(check_available(options.machine, bytes, bytes));
    // One huge page more, so that the region can start on the boundary of one.
    region->mapped_bytes_ = static_cast<size_t>(bytes + (options.huge_pages ? kHugePage : 0));
    void* base = mmap(nullptr, region->mapped_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
      return Status::failure("R0405", "cannot allocate " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
    region->mapping_ = base;
    auto* first = static_cast<std::byte*>(base);
    if (options.huge_pages) {
      const auto behind = reinterpret_cast<uintptr_t>(base) % kHugePage;
      if (behind > 0) first += kHugePage - behind;
      // Refused on kernels without transparent huge pages: small pages then, only slower.
      (void)madvise(first, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    }
    for (int64_t at = 0; at < bytes; at += kPiece) {  // faults every page in, before the timed steps
      if (at > 0) PIPER_RETURN_IF_ERROR(check_available(options.machine, bytes, bytes - at));
      std::memset(first + at, 0, static_cast<size_t>(std::min(kPiece, bytes - at)));
    }
    region->base_ = Address(first);
    return std::unique_ptr<MemoryRegion>(std::move(region));
  }
  ~MappedRegion() override {
    if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
  }

 private:
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<MemoryRegion>> map_memory(int64_t bytes, const DeviceOptions& options) {
  return MappedRegion::map(bytes, options);
}

}  // namespace piper::hal
