#include "runtime/trace/ring_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <cstdlib>

#include "schemas/live/process_state.h"
#include "schemas/live/ring.h"

namespace piper::trace {

namespace {

using live::HeaderWord;
using live::Section;
using live::TrackKind;

Status refused(const std::string& path, int error) {
  return Status::failure("R0912", "'" + path + "': " + std::strerror(error));
}

// With all of its bytes there: a store to a page that a full disk has no place for would end the rank.
int reserve(int file, uint64_t bytes) {
  int error = 0;
  while ((error = posix_fallocate(file, 0, static_cast<off_t>(bytes))) == EINTR) {
  }
  return error;
}

// For the four that a SHA-256 makes.
uint64_t digest_word(const std::string& digest, uint64_t number) {
  if (digest.size() != 64) return 0;
  return std::strtoull(digest.substr(number * 16, 16).c_str(), nullptr, 16);
}

}  // namespace

Result<std::unique_ptr<RingWriter>> RingWriter::make(const std::string& folder, const Owner& owner) {
  std::unique_ptr<RingWriter> ring(new RingWriter);
  ring->streams_ = static_cast<uint64_t>(owner.streams);
  ring->tracks_ = ring->streams_ + 3;
  ring->capacity_ =
      std::bit_ceil(std::max<uint64_t>(live::kTrackEvents, live::kRingEvents / std::max<uint64_t>(ring->streams_, 1)));
  while (live::ring_bytes(ring->tracks_, ring->capacity_) > live::kMaxRingBytes && ring->capacity_ > 1)
    ring->capacity_ /= 2;
  ring->bytes_ = live::ring_bytes(ring->tracks_, ring->capacity_);
  if (ring->tracks_ > live::kMaxTracks || ring->bytes_ > live::kMaxRingBytes)
    return Status::failure("R0912", "no ring holds " + std::to_string(owner.streams) + " streams");
  const bool own = folder.empty();
  if (!own) (void)mkdir(folder.c_str(), 0700);
  ring->path_ = own ? "memory of the process" : folder + "/" + live::ring_name(owner.rank);
  const std::string made = ring->path_ + ".new";
  const int file = own ? memfd_create("ring", MFD_CLOEXEC)
                       : open(made.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return refused(ring->path_, errno);
  int error = reserve(file, ring->bytes_);
  if (error == 0) {
    void* const mapped = mmap(nullptr, ring->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    error = mapped == MAP_FAILED ? errno : 0;
    if (error == 0) ring->words_ = static_cast<uint64_t*>(mapped);
  }
  if (error == 0) {
    ring->fill(owner);
    if (!own && rename(made.c_str(), ring->path_.c_str()) != 0) error = errno;
  }
  if (own && error == 0) {
    ring->file_ = file;
    ring->path_ = "/proc/self/fd/" + std::to_string(file);
  } else {
    close(file);
  }
  if (error == 0) return ring;
  if (!own) (void)unlink(made.c_str());
  return refused(ring->path_, error);
}

RingWriter::~RingWriter() {
  if (words_ != nullptr) munmap(words_, bytes_);
  if (file_ >= 0) close(file_);
}

// Before anybody can read it.
void RingWriter::fill(const Owner& owner) {
  const auto pid = static_cast<int64_t>(getpid());
  *header(HeaderWord::kMagic) = live::kRingMagic;
  *header(HeaderWord::kVersion) = live::kRingVersion;
  *header(HeaderWord::kBytes) = bytes_;
  *header(HeaderWord::kRank) = static_cast<uint64_t>(owner.rank);
  *header(HeaderWord::kWorldSize) = static_cast<uint64_t>(owner.world_size);
  *header(HeaderWord::kProcess) = static_cast<uint64_t>(pid);
  *header(HeaderWord::kProcessStart) = live::look_at_process(pid).start;
  *header(HeaderWord::kBoot) = live::boot_id();
  *header(HeaderWord::kTracks) = tracks_;
  *header(HeaderWord::kCapacity) = capacity_;
  for (uint64_t i = 0; i < 4; ++i) *header(HeaderWord::kDigest, i) = digest_word(owner.digest, i);
  for (uint64_t t = 0; t < tracks_; ++t) {
    uint64_t* const words = words_ + live::kHeaderWords + t * live::kTrackWords;
    const TrackKind kind = t < streams_ ? TrackKind::kStream : static_cast<TrackKind>(t - streams_ + 1);
    words[static_cast<size_t>(live::TrackWord::kKind)] = static_cast<uint64_t>(kind);
    words[static_cast<size_t>(live::TrackWord::kIndex)] = t < streams_ ? t : 0;
  }
  host_ = track(streams_);
  since_ns_ = RingTrack::now_ns();
}

RingTrack RingWriter::track(uint64_t number) const {
  uint64_t* const tracks = words_ + live::kHeaderWords;
  uint64_t* const events = tracks + tracks_ * live::kTrackWords;
  return {tracks + number * live::kTrackWords, events + number * capacity_ * live::kEventWords, capacity_};
}

void RingWriter::host(live::EventKind kind, int64_t step) {
  host_.event(kind, step);
  const bool goes_on = (section_ == Section::kFirstStep || section_ == Section::kStep) && step == step_ &&
                       (kind == live::EventKind::kStep || kind == live::EventKind::kReport);
  if (goes_on) return;
  const int64_t now = RingTrack::now_ns();
  const uint64_t place = static_cast<uint64_t>(section_) * live::kSectionWords;
  const std::atomic_ref count(*header(HeaderWord::kSections, place)),
      longest(*header(HeaderWord::kSections, place + 1));
  if (step_ >= 0) {
    longest.store(std::max(longest.load(std::memory_order_relaxed), static_cast<uint64_t>(now - since_ns_)),
                  std::memory_order_relaxed);
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  const uint64_t first = static_cast<uint64_t>(Section::kFirstStep) * live::kSectionWords;
  section_ = live::section_of(kind, *header(HeaderWord::kSections, first) > 0);
  step_ = step;
  since_ns_ = now;
}

}  // namespace piper::trace
