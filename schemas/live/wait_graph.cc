#include "schemas/live/wait_graph.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schemas/live/hang_words.h"
#include "schemas/live/run_threads.h"
#include "schemas/live/thread_needs.h"
#include "schemas/verify/wait_cycle.h"

namespace piper::live {
namespace {

constexpr size_t kMostWaits = 16;

class Waiting {
 public:
  Waiting(const RunThreads& threads, int64_t now_ns) : threads_(threads), now_ns_(now_ns) {
    for (const Thread& thread : threads.all()) graph_.push_back(needs(threads, thread));
  }

  Hang find() const {
    const std::vector<int32_t> waiting = ranks_waiting_for();
    int32_t culprit = -1;
    for (int32_t t = 0; t < threads_.size(); ++t) {
      if (!needs_of(t).empty() || waiting[static_cast<size_t>(t)] == 0) continue;
      if (culprit < 0 || before(t, culprit, waiting)) culprit = t;
    }
    return culprit >= 0 ? story(culprit) : cycle();
  }

 private:
  const std::vector<int32_t>& needs_of(int32_t thread) const { return graph_[static_cast<size_t>(thread)]; }

  // [thread]: from how many ranks a way of waits leads to it.
  std::vector<int32_t> ranks_waiting_for() const {
    std::vector<int32_t> count(graph_.size(), 0);
    for (int32_t rank = 0; rank < threads_.world_size(); ++rank) {
      const RingEvent* const at = threads_.host(rank);
      if (at != nullptr && at->kind == EventKind::kEnded && !threads_.halted(rank)) continue;
      std::vector<char> seen(graph_.size(), 0);
      std::vector<int32_t> open{threads_.index(rank, TrackKind::kHost)};
      while (!open.empty()) {
        const auto n = static_cast<size_t>(open.back());
        open.pop_back();
        if (seen[n]) continue;
        seen[n] = 1;
        ++count[n];
        open.insert(open.end(), graph_[n].begin(), graph_[n].end());
      }
    }
    return count;
  }

  // A process that is stopped or gone explains what others are at; then whoever most ranks wait for; then who has been
  // at it the longest.
  bool before(int32_t a, int32_t b, const std::vector<int32_t>& waiting) const {
    const auto key = [&](int32_t n) {
      const Thread& thread = threads_[n];
      const Cause cause = cause_of(threads_, thread);
      const int rank_of_cause = cause == Cause::kGone ? 0 : cause == Cause::kStopped ? 1 : 2;
      return std::tuple(rank_of_cause, -waiting[static_cast<size_t>(n)],
                        thread.at == nullptr ? int64_t{0} : thread.at->time_ns, n);
    };
    return key(a) < key(b);
  }

  Hang story(int32_t culprit) const {
    const int32_t rank = threads_[culprit].rank;
    Hang hang = blame(threads_, threads_[culprit], now_ns_);
    // Breadth first against the edges: the nearest threads that wait for it.
    std::vector<char> told(graph_.size(), 0);
    told[static_cast<size_t>(culprit)] = 1;
    std::vector<int32_t> layer{culprit};
    while (!layer.empty()) {
      std::vector<int32_t> next;
      const auto in_layer = [&](int32_t to) { return std::find(layer.begin(), layer.end(), to) != layer.end(); };
      for (int32_t t = 0; t < threads_.size(); ++t)
        if (!told[static_cast<size_t>(t)] && std::any_of(needs_of(t).begin(), needs_of(t).end(), in_layer))
          next.push_back(t);
      for (const int32_t t : next) {
        told[static_cast<size_t>(t)] = 1;
        const Thread& waits = threads_[t];
        if (waits.rank != rank && threads_.instruction_at(waits) != nullptr && hang.waits.size() < kMostWaits)
          hang.waits.push_back(waits_text(threads_, waits, now_ns_));
      }
      layer = std::move(next);
    }
    return hang;
  }

  Hang cycle() const {
    Hang hang;
    const std::vector<int32_t> cycle = verify::shortest_cycle(graph_);
    if (cycle.empty()) {
      hang.message = "nothing in the rings waits: all ranks have ended, or none has begun";
      return hang;
    }
    hang.culprit = describe(threads_, threads_[cycle.front()], Cause::kBug);
    hang.message = "bug: ranks wait in a circle";
    for (const int32_t t : cycle) hang.waits.push_back(waits_text(threads_, threads_[t], now_ns_));
    return hang;
  }

  const RunThreads& threads_;
  const int64_t now_ns_;
  verify::WaitGraph graph_;  // [thread]: needs()
};

}  // namespace

Result<Hang> find_culprit(const plan::Bundle& bundle, const std::string& digest, const std::vector<Ring>& rings,
                          int64_t now_ns) {
  const auto wrong = [](const Ring& ring, const std::string& why) {
    return Status::failure("R0911", "the ring of rank " + std::to_string(ring.rank) + " " + why);
  };
  std::vector<char> seen(static_cast<size_t>(bundle.manifest.world_size), 0);
  for (const Ring& ring : rings) {
    if (ring.world_size != bundle.manifest.world_size || plan_of(bundle, ring.rank) == nullptr)
      return wrong(ring, "is of " + std::to_string(ring.world_size) + " ranks, the bundle has " +
                             std::to_string(bundle.manifest.world_size));
    if (ring.digest != digest) return wrong(ring, "is of a run of another bundle");
    if (seen[static_cast<size_t>(ring.rank)]++ != 0) return wrong(ring, "is there twice");
    if (track_of(ring, TrackKind::kHost) == nullptr) return wrong(ring, "has no track of its host");
  }
  PIPER_ASSIGN(const RunThreads threads, RunThreads::of(bundle, rings));
  return Waiting(threads, now_ns).find();
}

}  // namespace piper::live
