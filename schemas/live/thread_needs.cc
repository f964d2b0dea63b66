#include "schemas/live/thread_needs.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "schemas/plan/actions.h"

namespace piper::live {
namespace {

using namespace plan;

class Needs {
 public:
  explicit Needs(const RunThreads& threads) : threads_(threads) {}

  std::vector<int32_t> of(const Thread& thread) const {
    if (threads_.ring(thread.rank) == nullptr || threads_.halted(thread.rank)) return {};
    switch (thread.kind) {
      case TrackKind::kStream: return stream_needs(thread);
      case TrackKind::kHost: return host_needs(thread);
      case TrackKind::kLoader: return {};
      case TrackKind::kWriter: return writer_needs(thread);
    }
    return {};
  }

 private:
  std::vector<int32_t> stream_needs(const Thread& thread) const {
    const std::optional<Submission> now = threads_.submission(thread.rank);
    const int32_t own_host = threads_.index(thread.rank, TrackKind::kHost);
    if (!now || threads_.stream_done(thread, *now)) return {own_host};
    const Instruction* const instruction = threads_.instruction_at(thread);
    if (instruction == nullptr) return {};  // its thread was not woken yet
    if (const int32_t event = awaited_event(instruction->action); event >= 0) return wait_needs(thread, event);
    const int32_t transfer = threads_.transfer_at(thread);
    return transfer < 0 ? std::vector<int32_t>() : transfer_needs(thread, transfer);
  }

  std::vector<int32_t> wait_needs(const Thread& thread, int32_t event) const {
    const RankPlan& plan = threads_.plan_at(thread);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      if (recorded_event(plan.instructions[i].action) != event) continue;
      const RingEvent* const at = newest(*threads_.ring(thread.rank), TrackKind::kStream, plan.instructions[i].stream);
      if (at != nullptr && reached(*at, submission_of(*thread.at), static_cast<int32_t>(i)) == Reached::kBehind)
        return {};
      return {threads_.index(thread.rank, TrackKind::kStream, plan.instructions[i].stream)};
    }
    return {};
  }

  // Who waits for a message needs the other end of it; who has not come that far, everyone who has not arrived.
  std::vector<int32_t> transfer_needs(const Thread& thread, int32_t transfer) const {
    const std::vector<TransferEnd> ends = threads_.other_ends(thread, transfer);
    const TransferEnd* const only = RunThreads::awaited(thread, ends);
    std::vector<int32_t> result;
    for (const TransferEnd& end : ends) {
      if (only != nullptr && &end != only) continue;
      const bool there = end.reached == Reached::kBehind ||
                         (end.reached == Reached::kAt && (only == nullptr || end.exchange >= thread.exchange.number));
      if (!there || threads_.halted(end.rank))
        result.push_back(threads_.index(end.rank, TrackKind::kStream, end.stream));
    }
    return result;
  }

  std::vector<int32_t> host_needs(const Thread& thread) const {
    if (thread.at == nullptr) return {};
    if (thread.exchange.waits) return met_needs(thread);
    switch (thread.at->kind) {
      case EventKind::kStep:
      case EventKind::kEvaluate:
        return streams_are_seen(thread.rank) ? unfinished_streams(thread) : hosts_behind(thread);
      case EventKind::kData: return busy(thread.rank, TrackKind::kLoader);
      case EventKind::kSave: return busy(thread.rank, TrackKind::kWriter);
      case EventKind::kEnding:
        if (auto writer = busy(thread.rank, TrackKind::kWriter); !writer.empty()) return writer;
        return hosts_behind(thread);
      case EventKind::kStarting:
      case EventKind::kAgree: return hosts_behind(thread);
      default: return {};
    }
  }

  // For a meeting of all hosts: whose message it waits for, unless that one is past the exchange, or waits in it.
  std::vector<int32_t> met_needs(const Thread& thread) const {
    const int32_t peer = threads_.index(thread.exchange.peer, TrackKind::kHost);
    const Thread& other = threads_[peer];
    const auto progress = [](const Thread& n) {
      return std::tuple(n.at->step, phase_of(n.at->kind), n.exchange.number, n.exchange.waits);
    };
    if (other.at != nullptr && progress(other) >= progress(thread) && !threads_.halted(other.rank)) return {};
    return {peer};
  }

  // On a GPU nobody knows what a stream has reached.
  bool streams_are_seen(int32_t rank) const {
    const auto& tracks = threads_.ring(rank)->tracks;
    return std::any_of(tracks.begin(), tracks.end(),
                       [](const RingTrack& t) { return t.kind == TrackKind::kStream && !t.events.empty(); });
  }

  std::vector<int32_t> unfinished_streams(const Thread& host) const {
    const std::optional<Submission> now = threads_.submission(host.rank);
    std::vector<int32_t> result;
    for (int32_t t = 0; t < threads_.size(); ++t) {
      const Thread& thread = threads_[t];
      if (thread.rank == host.rank && thread.kind == TrackKind::kStream && !threads_.stream_done(thread, *now))
        result.push_back(t);
    }
    return result;
  }

  std::vector<int32_t> busy(int32_t rank, TrackKind kind) const {
    const RingEvent* const at = newest(*threads_.ring(rank), kind);
    if (at == nullptr || at->kind == EventKind::kIdle) return {};
    return {threads_.index(rank, kind)};
  }

  // Those that a meeting of all hosts waits for.
  std::vector<int32_t> hosts_behind(const Thread& thread) const {
    std::vector<int32_t> result;
    for (int32_t rank = 0; rank < threads_.world_size(); ++rank) {
      if (rank == thread.rank) continue;
      const RingEvent* const at = threads_.host(rank);
      const bool there = at != nullptr && std::pair(at->step, phase_of(at->kind)) >=
                                              std::pair(thread.at->step, phase_of(thread.at->kind));
      const bool starting = thread.at->kind == EventKind::kStarting && at != nullptr;
      if ((!there && !starting) || threads_.halted(rank)) result.push_back(threads_.index(rank, TrackKind::kHost));
    }
    return result;
  }

  // All writers of a checkpoint record the same events, so who has recorded fewer lags behind.
  std::vector<int32_t> writer_needs(const Thread& thread) const {
    if (thread.at == nullptr || thread.at->kind == EventKind::kIdle)
      return {threads_.index(thread.rank, TrackKind::kHost)};
    if (thread.at->kind != EventKind::kGather) return {};
    const uint64_t mine = track_of(*threads_.ring(thread.rank), TrackKind::kWriter)->written;
    std::vector<int32_t> result;
    for (int32_t rank = 0; rank < threads_.world_size(); ++rank) {
      if (rank == thread.rank) continue;
      const RingTrack* const track =
          threads_.ring(rank) == nullptr ? nullptr : track_of(*threads_.ring(rank), TrackKind::kWriter);
      if (track == nullptr || track->written < mine || threads_.halted(rank))
        result.push_back(threads_.index(rank, TrackKind::kWriter));
    }
    return result;
  }

  const RunThreads& threads_;
};

}  // namespace

std::vector<int32_t> needs(const RunThreads& threads, const Thread& thread) { return Needs(threads).of(thread); }

}  // namespace piper::live
