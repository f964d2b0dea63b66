// What each thread of a run's ranks is at, from their rings and the bundle that they execute: its streams, its host,
// its loader, its writer of checkpoints. Used by what finds who waits for whom (thread_needs.h) and by what says it in
// words (hang_words.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/live/positions.h"
#include "schemas/live/ring.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/match.h"

namespace piper::live {

// A thread of a rank; where the rank has no ring, the rank as a whole.
struct Thread {
  int32_t rank = -1;
  TrackKind kind = TrackKind::kHost;
  int32_t stream = -1;
  const RingEvent* at = nullptr;  // of the ring; nullptr: it has not begun
  RingExchange exchange;          // of the instruction that it is at
};

// An end of a transfer, and how far its rank is with it.
struct TransferEnd {
  int32_t rank = -1, stream = -1, instruction = -1;
  Reached reached = Reached::kBefore;
  int64_t exchange = 0;  // that it has begun at least, where it is at the instruction
};

// The order of what a host does with a step: starting, data, the step, report, evaluation, agreement, save, ending.
int phase_of(EventKind kind);

class RunThreads {
 public:
  // `rings`: of the bundle's ranks, each once, with a track of its host (wait_graph.h checks). Both must outlive the
  // result. Errors of verify::match().
  static Result<RunThreads> of(const plan::Bundle& bundle, const std::vector<Ring>& rings);

  const plan::Bundle& bundle() const { return *bundle_; }
  int32_t world_size() const { return bundle_->manifest.world_size; }
  const std::vector<Thread>& all() const { return threads_; }
  int32_t size() const { return static_cast<int32_t>(threads_.size()); }
  const Thread& operator[](int32_t thread) const { return threads_[static_cast<size_t>(thread)]; }
  // The index of a thread in all(); of a rank without a ring, that of the rank.
  int32_t index(int32_t rank, TrackKind kind, int32_t stream = -1) const;

  // nullptr: the rank has none.
  const Ring* ring(int32_t rank) const { return ring_of_[static_cast<size_t>(rank)]; }
  // What its host does; nullptr: unknown.
  const RingEvent* host(int32_t rank) const;
  // As the kernel says it ('T', 'D', ...), 'X': gone, 0: unknown.
  char process_state(int32_t rank) const { return ring(rank) == nullptr ? '\0' : ring(rank)->process_state; }
  // Stopped or gone. A process that has done all it had to do may be gone.
  bool halted(int32_t rank) const;

  // What the rank's streams execute; none: its host does something else.
  std::optional<Submission> submission(int32_t rank) const;
  // Whether a stream has ended what it executed of `now`.
  bool stream_done(const Thread& stream, const Submission& now) const;
  // What a stream is in the middle of; nullptr: nothing.
  const plan::Instruction* instruction_at(const Thread& thread) const;
  // The plan of what the thread is at, which must be an instruction.
  const plan::RankPlan& plan_at(const Thread& thread) const;
  // The transfer of which a stream's instruction is an end; -1: of none.
  int32_t transfer_at(const Thread& thread) const;
  // For that transfer.
  std::vector<TransferEnd> other_ends(const Thread& thread, int32_t transfer) const;
  // The one whose message the thread waits for; nullptr: it waits for none.
  static const TransferEnd* awaited(const Thread& thread, const std::vector<TransferEnd>& ends);

 private:
  RunThreads(const plan::Bundle& bundle, const std::vector<Ring>& rings);
  void add(const Thread& thread);
  bool stream_is_empty(const Thread& stream, const Submission& now) const;

  const plan::Bundle* bundle_;
  std::vector<const Ring*> ring_of_;           // [rank]
  std::array<verify::Matching, 2> matchings_;  // of steps, of evaluations
  std::vector<Thread> threads_;
  std::map<std::tuple<int32_t, TrackKind, int32_t>, int32_t> index_;
};

}  // namespace piper::live
