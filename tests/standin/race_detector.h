// Races found by vector clocks: two accesses to the same bytes, one of them a write, that nothing orders, whatever
// their real timing was. Who acts in a sequence is a lane: a stream, the nodes of a graph that were captured from one
// stream. A lane knows how much of each lane it has waited for; recording an event keeps that knowledge,
// waiting for it passes it on. Threads of the host know what they waited for, and pass that on to the lanes that they
// enqueue to; what they tell each other is not seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace piper::standin {

struct Range {
  const void* place = nullptr;  // in memory of the device, or page-locked
  size_t bytes = 0;
};

using Lane = int32_t;

class VectorClock {
 public:
  uint32_t of(Lane lane) const { return static_cast<size_t>(lane) < at_.size() ? at_[static_cast<size_t>(lane)] : 0; }
  void advance(Lane lane, uint32_t to);
  void merge(const VectorClock& other);

 private:
  std::vector<uint32_t> at_;  // by lane: its operations so far
};

// Any thread.
class RaceDetector {
 public:
  // For the stand-in's streams and graphs.
  static RaceDetector& instance();
  RaceDetector() : default_stream_(open_lane()) {}

  Lane open_lane();
  // For others to open: a lane goes on where a closed one ended.
  void close_lane(Lane lane);
  // The default stream's. What the host has waited for of its operations, all threads know.
  Lane default_stream() const { return default_stream_; }

  // What is enqueued now comes after what the calling thread has waited for.
  void enqueue(Lane lane);
  // The next operation of a lane.
  void operate(Lane lane, const std::string& name, const std::vector<Range>& reads, const std::vector<Range>& writes);
  VectorClock clock(Lane lane);
  void learn(Lane lane, const VectorClock& clock);
  // The calling thread has waited for what `clock` has seen.
  void host_learns(const VectorClock& clock);
  // Nobody will touch these bytes as what they were.
  void forget(const Range& range);

  // What was found since the last call, at most once for the same two names; both are in the words.
  std::vector<std::string> take_races();

 private:
  struct Access {
    Lane lane = -1;  // none yet
    uint32_t at = 0;
    const std::string* name = nullptr;
  };
  // What last happened to bytes.
  struct Cell {
    uintptr_t end = 0;
    Access write;
    std::vector<Access> reads;  // since
  };
  using Cells = std::map<uintptr_t, Cell>;

  Cells::iterator split(uintptr_t at);
  template <class Visit>
  void each_cell(const Range& range, const Visit& visit);
  void check(const Access& before, const char* did, const Access& now, const char* does, const Cells::value_type& cell,
             const VectorClock& known);

  std::mutex mutex_;
  std::vector<VectorClock> clocks_;  // by lane
  std::vector<Lane> closed_;
  std::map<std::thread::id, VectorClock> threads_;
  VectorClock all_threads_;
  Cells cells_;  // by their first byte
  std::set<std::string> names_;
  std::set<std::pair<std::string, std::string>> told_;
  std::vector<std::string> races_;
  Lane default_stream_;
};

}  // namespace piper::standin
