#include "schemas/live/ring.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

#include "schemas/live/process_state.h"

namespace piper::live {

namespace {

constexpr int64_t kLongestNs = std::numeric_limits<int64_t>::max() / 2;

class RingFile {
 public:
  explicit RingFile(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)) {}
  ~RingFile() {
    if (file_ >= 0) close(file_);
  }
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  Status damaged(const std::string& why) const { return Status::failure("R0911", "'" + path_ + "': " + why); }

  Result<Ring> read(bool newest) {
    if (file_ < 0) return damaged(std::strerror(errno));
    PIPER_RETURN_IF_ERROR(read_header());
    Ring ring = identity();
    for (uint64_t t = 0; t < tracks_; ++t) {
      PIPER_ASSIGN(RingTrack track, read_track(t, newest));
      ring.tracks.push_back(std::move(track));
    }
    return ring;
  }

 private:
  uint64_t header(HeaderWord word, uint64_t further = 0) const { return header_[static_cast<size_t>(word) + further]; }

  Status read_words(uint64_t first, uint64_t* words, uint64_t count) const {
    size_t done = 0;
    const size_t bytes = count * 8;
    while (done < bytes) {
      const ssize_t got =
          pread(file_, reinterpret_cast<char*>(words) + done, bytes - done, static_cast<off_t>(first * 8 + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return damaged(std::strerror(errno));
      if (got == 0) return damaged("it is cut off");
      done += static_cast<size_t>(got);
    }
    return {};
  }

  Status read_header() {
    struct stat about{};
    if (fstat(file_, &about) != 0 || !S_ISREG(about.st_mode)) return damaged("it is no file");
    PIPER_RETURN_IF_ERROR(read_words(0, header_.data(), kHeaderWords));
    if (header(HeaderWord::kMagic) != kRingMagic) return damaged("it is no ring of piper-run");
    if (header(HeaderWord::kVersion) != kRingVersion)
      return damaged("it is a ring of version " + std::to_string(header(HeaderWord::kVersion)) +
                     ", this program reads version " + std::to_string(kRingVersion));
    tracks_ = header(HeaderWord::kTracks);
    capacity_ = header(HeaderWord::kCapacity);
    const uint64_t rank = header(HeaderWord::kRank), world = header(HeaderWord::kWorldSize);
    const bool sizes = tracks_ > 0 && tracks_ <= kMaxTracks && std::has_single_bit(capacity_) &&
                       capacity_ <= kMaxRingBytes && ring_bytes(tracks_, capacity_) <= kMaxRingBytes;
    if (!sizes || header(HeaderWord::kBytes) != ring_bytes(tracks_, capacity_) ||
        static_cast<uint64_t>(about.st_size) != header(HeaderWord::kBytes))
      return damaged("its sizes do not agree");
    if (world == 0 || world > std::numeric_limits<int32_t>::max() || rank >= world)
      return damaged("it is of rank " + std::to_string(rank) + " of " + std::to_string(world));
    return {};
  }

  Ring identity() const {
    Ring ring;
    ring.rank = static_cast<int32_t>(header(HeaderWord::kRank));
    ring.world_size = static_cast<int32_t>(header(HeaderWord::kWorldSize));
    const uint64_t process = header(HeaderWord::kProcess);
    ring.process = process <= std::numeric_limits<int32_t>::max() ? static_cast<int64_t>(process) : 0;
    ring.process_start = header(HeaderWord::kProcessStart);
    ring.boot = header(HeaderWord::kBoot);
    for (uint64_t i = 0; i < 4; ++i) {
      char digits[17];
      std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(header(HeaderWord::kDigest, i)));
      ring.digest += digits;
    }
    const uint64_t state = header(HeaderWord::kProcessState);
    ring.process_state = state >= 'A' && state <= 'z' ? static_cast<char>(state) : '\0';
    ring.seen_ns = time_of(header(HeaderWord::kSeen));
    for (uint64_t s = 0; s < kNumSections; ++s)
      ring.sections[s] = {header(HeaderWord::kSections, s * kSectionWords),
                          time_of(header(HeaderWord::kSections, s * kSectionWords + 1))};
    return ring;
  }

  static int64_t time_of(uint64_t word) { return static_cast<int64_t>(std::min<uint64_t>(word, kLongestNs)); }

  uint64_t track_place(uint64_t track) const { return kHeaderWords + track * kTrackWords; }
  uint64_t event_place(uint64_t track, uint64_t event) const {
    return kHeaderWords + tracks_ * kTrackWords + (track * capacity_ + event % capacity_) * kEventWords;
  }
  Result<RingTrack> read_track(uint64_t t, bool newest) const {
    std::array<uint64_t, kTrackWords> words{};
    const auto read_words_of_track = [&] { return read_words(track_place(t), words.data(), kTrackWords); };
    PIPER_RETURN_IF_ERROR(read_words_of_track());
    const uint64_t kind = words[static_cast<size_t>(TrackWord::kKind)],
                   index = words[static_cast<size_t>(TrackWord::kIndex)];
    if (kind >= kNumTrackKinds || index >= kMaxTracks) return damaged("track " + std::to_string(t) + " is none");
    RingTrack track;
    track.kind = static_cast<TrackKind>(kind);
    track.index = static_cast<int32_t>(index);
    const uint64_t end = words[static_cast<size_t>(TrackWord::kWritten)];
    const uint64_t count = std::min<uint64_t>(end, newest ? 1 : capacity_);
    std::vector<uint64_t> events(count * kEventWords);
    for (uint64_t e = 0; e < count;) {  // up to the end of the ring's memory, then from its begin
      const uint64_t place = (end - count + e) % capacity_, run = std::min(count - e, capacity_ - place);
      PIPER_RETURN_IF_ERROR(
          read_words(event_place(t, end - count + e), events.data() + e * kEventWords, run * kEventWords));
      e += run;
    }
    // What was written meanwhile may have taken the places of the oldest; one more may be half written, by a writer
    // that runs or has died there.
    PIPER_RETURN_IF_ERROR(read_words_of_track());
    track.written = words[static_cast<size_t>(TrackWord::kWritten)];
    const uint64_t oldest = track.written >= capacity_ ? track.written - capacity_ + 1 : 0;
    for (uint64_t e = 0; e < count; ++e) {
      if (end - count + e < oldest) continue;
      RingEvent event;
      if (read_event(events.data() + e * kEventWords, event)) track.events.push_back(event);
    }
    const bool exchanges = track.kind == TrackKind::kHost ||
                           (!track.events.empty() && track.events.back().kind == EventKind::kInstruction);
    if (track.written == end && exchanges)
      track.exchange = exchange_of(words[static_cast<size_t>(TrackWord::kExchange)], end);
    if (track.exchange.waits && static_cast<uint64_t>(track.exchange.peer) >= header(HeaderWord::kWorldSize))
      return damaged("track " + std::to_string(t) + " waits for no rank of the run");
    return track;
  }

  static RingExchange exchange_of(uint64_t word, uint64_t written) {
    RingExchange exchange;
    if (word >> 48 != (written & (kExchangeWritten - 1))) return exchange;
    exchange.number = static_cast<int64_t>(word >> 26 & (kExchangeNumbers - 1));
    exchange.waits = (word & 1) != 0;
    exchange.receives = exchange.waits && (word >> 1 & 1) != 0;
    if (exchange.waits) exchange.peer = static_cast<int32_t>(word >> 2 & (kExchangeRanks - 1));
    return exchange;
  }

  // Whether it is one.
  static bool read_event(const uint64_t* words, RingEvent& event) {
    const uint64_t time = words[static_cast<size_t>(EventWord::kTime)],
                   step = words[static_cast<size_t>(EventWord::kStep)],
                   what = words[static_cast<size_t>(EventWord::kWhat)];
    if (time > static_cast<uint64_t>(kLongestNs) || step > static_cast<uint64_t>(kLongestNs) ||
        (what & 0xff) >= kNumEventKinds)
      return false;
    event.time_ns = static_cast<int64_t>(time);
    event.step = static_cast<int64_t>(step);
    event.kind = static_cast<EventKind>(what & 0xff);
    event.evaluation = (what >> 8 & 1) != 0;
    event.computes = (what >> 9 & 1) != 0;
    event.batch = static_cast<int64_t>(what >> 10 & 0x3f'ffff);
    event.instruction = event.kind == EventKind::kInstruction ? static_cast<int32_t>(what >> 32 & 0x7fff'ffff) : -1;
    return true;
  }

  std::string path_;
  int file_;
  std::array<uint64_t, kHeaderWords> header_{};
  uint64_t tracks_ = 0, capacity_ = 0;
};

}  // namespace

Result<Ring> read_ring(const std::string& path) { return RingFile(path).read(false); }

Result<Ring> read_newest(const std::string& path) { return RingFile(path).read(true); }

void look_at_process_of(Ring& ring) {
  if (ring.process_state != 0 || ring.boot == 0 || ring.boot != boot_id()) return;
  const ProcessState now = look_at_process(ring.process);
  // A later process of the same id is another one.
  ring.process_state = now.letter != 0 && now.start != ring.process_start ? 'X' : now.letter;
}

Status mark_copy(const std::string& path, const Ring& ring, int64_t now_ns) {
  const uint64_t words[] = {static_cast<uint64_t>(ring.process_state), static_cast<uint64_t>(now_ns)};
  static_assert(static_cast<int>(HeaderWord::kSeen) == static_cast<int>(HeaderWord::kProcessState) + 1);
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool written =
      file >= 0 && pwrite(file, words, sizeof words, 8 * static_cast<off_t>(HeaderWord::kProcessState)) == sizeof words;
  const int error = errno;
  if (file >= 0) close(file);
  return written ? Status() : Status::failure("R0911", "'" + path + "': " + std::strerror(error));
}

std::string ring_name(int32_t rank) {
  char name[32];
  std::snprintf(name, sizeof name, "rank-%05d.ring", rank);
  return name;
}

Result<std::vector<std::string>> find_rings(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().extension() == ".ring") paths.push_back(at->path().string());
  if (failed) return Status::failure("R0911", "'" + folder + "': " + failed.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace piper::live
