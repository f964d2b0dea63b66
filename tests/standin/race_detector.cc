#include "tests/standin/race_detector.h"

#include <algorithm>

namespace piper::standin {

void VectorClock::advance(Lane lane, uint32_t to) {
  const auto index = static_cast<size_t>(lane);
  if (at_.size() <= index) at_.resize(index + 1, 0);
  at_[index] = std::max(at_[index], to);
}

void VectorClock::merge(const VectorClock& other) {
  if (at_.size() < other.at_.size()) at_.resize(other.at_.size(), 0);
  for (size_t i = 0; i < other.at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
}

RaceDetector& RaceDetector::instance() {
  static RaceDetector* detector = new RaceDetector;  // streams may outlive main
  return *detector;
}

Lane RaceDetector::open_lane() {
  std::lock_guard lock(mutex_);
  if (!closed_.empty()) {
    const Lane lane = closed_.back();
    closed_.pop_back();
    return lane;
  }
  clocks_.emplace_back();
  return static_cast<Lane>(clocks_.size()) - 1;
}

void RaceDetector::close_lane(Lane lane) {
  std::lock_guard lock(mutex_);
  // The next one knows its own past alone.
  VectorClock own;
  own.advance(lane, clocks_[static_cast<size_t>(lane)].of(lane));
  clocks_[static_cast<size_t>(lane)] = std::move(own);
  closed_.push_back(lane);
}

void RaceDetector::enqueue(Lane lane) {
  std::lock_guard lock(mutex_);
  VectorClock& clock = clocks_[static_cast<size_t>(lane)];
  clock.merge(threads_[std::this_thread::get_id()]);
  clock.merge(all_threads_);
}

VectorClock RaceDetector::clock(Lane lane) {
  std::lock_guard lock(mutex_);
  return clocks_[static_cast<size_t>(lane)];
}

void RaceDetector::learn(Lane lane, const VectorClock& clock) {
  std::lock_guard lock(mutex_);
  clocks_[static_cast<size_t>(lane)].merge(clock);
}

void RaceDetector::host_learns(const VectorClock& clock) {
  std::lock_guard lock(mutex_);
  threads_[std::this_thread::get_id()].merge(clock);
  all_threads_.advance(default_stream_, clock.of(default_stream_));
}

// The cell that begins at `at`, or the first one after.
RaceDetector::Cells::iterator RaceDetector::split(uintptr_t at) {
  auto next = cells_.lower_bound(at);
  if (next == cells_.begin() || (next != cells_.end() && next->first == at)) return next;
  auto before = std::prev(next);
  if (before->second.end <= at) return next;
  Cell rest = before->second;
  before->second.end = at;
  return cells_.emplace_hint(next, at, std::move(rest));
}

// Bytes that nothing happened to get a cell, too.
template <class Visit>
void RaceDetector::each_cell(const Range& range, const Visit& visit) {
  if (range.bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(range.place), end = begin + range.bytes;
  split(end);
  auto cell = split(begin);
  for (uintptr_t at = begin; at < end; ++cell) {
    if (cell == cells_.end() || cell->first > at) {
      Cell untouched;
      untouched.end = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.emplace_hint(cell, at, std::move(untouched));
    }
    visit(*cell);
    at = cell->second.end;
  }
}

void RaceDetector::check(const Access& before, const char* did, const Access& now, const char* does,
                         const Cells::value_type& cell, const VectorClock& known) {
  if (before.lane < 0 || known.of(before.lane) >= before.at) return;
  if (!told_.insert({*before.name, *now.name}).second) return;
  races_.push_back("nothing orders '" + *now.name + "', which " + does + ", behind '" + *before.name + "', which " +
                   did + " the same " + std::to_string(cell.second.end - cell.first) + " bytes");
}

void RaceDetector::operate(Lane lane, const std::string& name, const std::vector<Range>& reads,
                           const std::vector<Range>& writes) {
  std::lock_guard lock(mutex_);
  VectorClock& clock = clocks_[static_cast<size_t>(lane)];
  clock.advance(lane, clock.of(lane) + 1);
  const Access now{lane, clock.of(lane), &*names_.insert(name).first};
  for (const Range& range : reads)
    each_cell(range, [&](Cells::value_type& cell) {
      check(cell.second.write, "writes", now, "reads", cell, clock);
      for (Access& read : cell.second.reads)
        if (read.lane == lane) {
          read = now;
          return;
        }
      cell.second.reads.push_back(now);
    });
  for (const Range& range : writes)
    each_cell(range, [&](Cells::value_type& cell) {
      check(cell.second.write, "writes", now, "writes", cell, clock);
      for (const Access& read : cell.second.reads) check(read, "reads", now, "writes", cell, clock);
      cell.second.write = now;
      cell.second.reads.clear();
    });
}

void RaceDetector::forget(const Range& range) {
  std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(range.place);
  const auto end = split(begin + range.bytes);
  cells_.erase(split(begin), end);
}

std::vector<std::string> RaceDetector::take_races() {
  std::lock_guard lock(mutex_);
  told_.clear();
  return std::exchange(races_, {});
}

}  // namespace piper::standin
