// Reads the ring of a rank (ring_layout.h), of one that runs, hangs or is gone. A ring may be damaged or made up: all
// of it is checked before it is used, and nothing of it is trusted to be true beyond that. Used by piper-plan and
// piper-launch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/live/ring_layout.h"

namespace piper::live {

struct RingEvent {
  int64_t time_ns = 0;
  int64_t step = 0;
  EventKind kind = EventKind::kIdle;
  bool evaluation = false;   // the instruction is one of the bundle's evaluation
  bool computes = false;     // the instruction neither communicates nor waits
  int64_t batch = 0;         // of the evaluation
  int32_t instruction = -1;  // of the rank's plan; -1: none
};

// How far a stream's instruction, or a host in what it does, is with its exchanges (pack_exchange() of ring_layout.h).
struct RingExchange {
  int64_t number = 0;  // that it has begun at least; 0: unknown
  bool waits = false;  // for a message: inside of that exchange, all of whose messages are posted
  bool receives = false;
  int32_t peer = -1;  // whose message, or who does not take this one; -1: it does not wait
  friend bool operator==(const RingExchange&, const RingExchange&) = default;
};

struct RingTrack {
  TrackKind kind = TrackKind::kStream;
  int32_t index = 0;              // of the stream
  uint64_t written = 0;           // events so far
  std::vector<RingEvent> events;  // the newest ones, oldest first
  RingExchange exchange;          // of the last of them
};

struct SectionTimes {
  uint64_t count = 0;
  int64_t longest_ns = 0;
};

struct Ring {
  int32_t rank = 0, world_size = 0;
  int64_t process = 0;
  uint64_t process_start = 0, boot = 0;
  std::string digest;      // of the bundle, 64 hexadecimal digits
  char process_state = 0;  // 0: nobody has looked
  int64_t seen_ns = 0;     // when it was copied; 0: it was not
  std::array<SectionTimes, kNumSections> sections;
  std::vector<RingTrack> tracks;
};

// R0911: it cannot be read, or is no ring. Tracks without an event are among the result's.
Result<Ring> read_ring(const std::string& path);
// As read_ring(), with the newest event of each track alone: what is looked at many times a second.
Result<Ring> read_newest(const std::string& path);

// Where nobody has looked before: what the process does now, if this machine can tell.
void look_at_process_of(Ring& ring);
// Writes what look_at_process_of() found, and the time, to a copy of the ring, for who reads it later. R0911.
Status mark_copy(const std::string& path, const Ring& ring, int64_t now_ns);

// "rank-00003.ring".
std::string ring_name(int32_t rank);
// Paths of the rings in a folder, by name. R0911: the folder cannot be read.
Result<std::vector<std::string>> find_rings(const std::string& folder);

}  // namespace piper::live
