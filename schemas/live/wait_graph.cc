#include "schemas/live/wait_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "schemas/live/positions.h"
#include "schemas/verify/match.h"
#include "schemas/verify/wait_cycle.h"

namespace piper::live {
namespace {

using namespace plan;

// A thread of a rank; where the rank has no ring, the rank as a whole.
struct Node {
  int32_t rank = -1;
  TrackKind kind = TrackKind::kHost;
  int32_t stream = -1;
  const RingEvent* at = nullptr;  // nullptr: it has not begun
  RingExchange exchange;          // of the instruction that it is at
};

// The order of what a host does with a step.
int phase_of(EventKind kind) {
  switch (kind) {
    case EventKind::kStarting: return 0;
    case EventKind::kData: return 1;
    case EventKind::kStep: return 2;
    case EventKind::kReport: return 3;
    case EventKind::kEvaluate: return 4;
    case EventKind::kAgree: return 5;
    case EventKind::kSave: return 6;
    case EventKind::kEnding: return 7;
    default: return 8;
  }
}

class Waiting {
 public:
  Waiting(const Bundle& bundle, const std::vector<Ring>& rings, int64_t now_ns)
      : bundle_(bundle), now_ns_(now_ns), ring_of_(static_cast<size_t>(bundle.manifest.world_size), nullptr) {
    for (const Ring& ring : rings) ring_of_[static_cast<size_t>(ring.rank)] = &ring;
  }

  Result<Hang> find() {
    PIPER_ASSIGN(matchings_[0], verify::match(bundle_));
    if (!bundle_.evaluation.empty()) {
      PIPER_ASSIGN(matchings_[1], verify::match(bundle_.evaluation.front()));
    }
    add_nodes();
    for (size_t n = 0; n < nodes_.size(); ++n) graph_.push_back(needs(nodes_[n]));
    const std::vector<int32_t> waiting = ranks_waiting_for();
    int32_t culprit = -1;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (!graph_[n].empty() || waiting[n] == 0) continue;
      if (culprit < 0 || before(static_cast<int32_t>(n), culprit, waiting)) culprit = static_cast<int32_t>(n);
    }
    return culprit >= 0 ? story(culprit) : cycle();
  }

 private:
  // ------------------------------------------------------------ nodes
  void add_nodes() {
    for (size_t r = 0; r < ring_of_.size(); ++r) {
      const auto rank = static_cast<int32_t>(r);
      if (ring_of_[r] == nullptr) {
        add({rank, TrackKind::kHost, -1, nullptr, {}});
        continue;
      }
      for (const RingTrack& track : ring_of_[r]->tracks)
        add({rank, track.kind, track.kind == TrackKind::kStream ? track.index : -1,
             track.events.empty() ? nullptr : &track.events.back(), track.exchange});
    }
  }
  void add(const Node& node) {
    index_[{node.rank, node.kind, node.stream}] = static_cast<int32_t>(nodes_.size());
    nodes_.push_back(node);
  }
  int32_t node(int32_t rank, TrackKind kind, int32_t stream = -1) const {
    const auto found = index_.find({rank, kind, stream});
    if (found != index_.end()) return found->second;
    return index_.at({rank, TrackKind::kHost, -1});  // of a rank without a ring
  }
  const Ring* ring(int32_t rank) const { return ring_of_[static_cast<size_t>(rank)]; }
  const RingEvent* host(int32_t rank) const {
    return ring(rank) == nullptr ? nullptr : newest(*ring(rank), TrackKind::kHost);
  }
  char process_state(int32_t rank) const { return ring(rank) == nullptr ? '\0' : ring(rank)->process_state; }
  // A process that has done all it had to do may be gone.
  bool halted(int32_t rank) const {
    const char state = process_state(rank);
    const RingEvent* const at = host(rank);
    if (at != nullptr && at->kind == EventKind::kEnded) return false;
    return state == 'T' || state == 't' || state == 'X';
  }

  // What the rank's streams execute; none: its host does something else.
  std::optional<Submission> submission(int32_t rank) const {
    const RingEvent* const at = host(rank);
    if (at == nullptr || (at->kind != EventKind::kStep && at->kind != EventKind::kEvaluate)) return std::nullopt;
    Submission now{at->step, at->kind == EventKind::kEvaluate, 0};
    for (const RingTrack& track : ring(rank)->tracks)
      if (track.kind == TrackKind::kStream && !track.events.empty())
        if (const Submission of = submission_of(track.events.back()); of.step == now.step && of > now) now = of;
    return now;
  }
  // Whether the streams of a rank have all ended what they executed.
  bool stream_done(const Node& node, const Submission& now) const {
    if (node.at == nullptr) return stream_is_empty(node, now);
    const Submission of = submission_of(*node.at);
    if (of == now) return node.at->kind == EventKind::kStreamDone;
    return of > now || stream_is_empty(node, now);
  }
  bool stream_is_empty(const Node& node, const Submission& now) const {
    const Bundle* const bundle = bundle_of(bundle_, now.evaluation);
    const RankPlan* const plan = bundle == nullptr ? nullptr : plan_of(*bundle, node.rank);
    return plan == nullptr || std::none_of(plan->instructions.begin(), plan->instructions.end(),
                                           [&](const Instruction& i) { return i.stream == node.stream; });
  }

  // ------------------------------------------------------------ edges
  std::vector<int32_t> needs(const Node& node) const {
    if (ring(node.rank) == nullptr || halted(node.rank)) return {};
    switch (node.kind) {
      case TrackKind::kStream: return stream_needs(node);
      case TrackKind::kHost: return host_needs(node);
      case TrackKind::kLoader: return {};
      case TrackKind::kWriter: return writer_needs(node);
    }
    return {};
  }

  std::vector<int32_t> stream_needs(const Node& node) const {
    const std::optional<Submission> now = submission(node.rank);
    const int32_t own_host = this->node(node.rank, TrackKind::kHost);
    if (!now || stream_done(node, *now)) return {own_host};
    const Instruction* const instruction = instruction_at(node);
    if (instruction == nullptr) return {};  // its thread was not woken yet
    if (const auto* wait = std::get_if<Wait>(&instruction->action)) return wait_needs(node, wait->event);
    const int32_t transfer = transfer_at(node);
    return transfer < 0 ? std::vector<int32_t>() : transfer_needs(node, transfer);
  }

  // Of what the rank executes now; nullptr: none.
  const Instruction* instruction_at(const Node& node) const {
    if (node.at == nullptr || node.at->kind != EventKind::kInstruction) return nullptr;
    if (submission(node.rank) != submission_of(*node.at)) return nullptr;
    const Bundle* const bundle = bundle_of(bundle_, node.at->evaluation);
    const RankPlan* const plan = bundle == nullptr ? nullptr : plan_of(*bundle, node.rank);
    const auto index = static_cast<size_t>(node.at->instruction);
    if (plan == nullptr || index >= plan->instructions.size()) return nullptr;
    const Instruction& instruction = plan->instructions[index];
    return instruction.stream == node.stream ? &instruction : nullptr;
  }

  std::vector<int32_t> wait_needs(const Node& node, int32_t event) const {
    const RankPlan& plan = *plan_of(*bundle_of(bundle_, node.at->evaluation), node.rank);
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const auto* record = std::get_if<Record>(&plan.instructions[i].action);
      if (record == nullptr || record->event != event) continue;
      const RingEvent* const at = newest(*ring(node.rank), TrackKind::kStream, plan.instructions[i].stream);
      if (at != nullptr && reached(*at, submission_of(*node.at), static_cast<int32_t>(i)) == Reached::kBehind)
        return {};
      return {this->node(node.rank, TrackKind::kStream, plan.instructions[i].stream)};
    }
    return {};
  }

  const verify::Matching& matching(bool evaluation) const { return matchings_[evaluation ? 1 : 0]; }
  size_t plan_index(const Node& node) const {
    const Bundle& bundle = *bundle_of(bundle_, node.at->evaluation);
    return static_cast<size_t>(plan_of(bundle, node.rank) - bundle.ranks.data());
  }
  int32_t transfer_at(const Node& node) const {
    if (instruction_at(node) == nullptr) return -1;
    return matching(node.at->evaluation).transfer_of[plan_index(node)][static_cast<size_t>(node.at->instruction)];
  }

  // An end of a transfer, and how far its rank is with it.
  struct End {
    int32_t rank = -1, stream = -1, instruction = -1;
    Reached reached = Reached::kBefore;
    int64_t exchange = 0;  // that it has begun at least, where it is at the instruction
  };
  // The other ends.
  std::vector<End> other_ends(const Node& node, int32_t transfer) const {
    const verify::Matching& all = matching(node.at->evaluation);
    const Bundle& bundle = *bundle_of(bundle_, node.at->evaluation);
    std::vector<End> ends;
    for (auto k = all.first[static_cast<size_t>(transfer)]; k < all.first[static_cast<size_t>(transfer) + 1]; ++k) {
      const auto& [plan, instruction] = all.participants[static_cast<size_t>(k)];
      const RankPlan& other = bundle.ranks[static_cast<size_t>(plan)];
      if (other.rank == node.rank && instruction == node.at->instruction) continue;
      End end{other.rank, other.instructions[static_cast<size_t>(instruction)].stream, instruction};
      const RingEvent* const at =
          ring(other.rank) == nullptr ? nullptr : newest(*ring(other.rank), TrackKind::kStream, end.stream);
      if (at != nullptr) end.reached = reached(*at, submission_of(*node.at), instruction);
      if (end.reached == Reached::kAt)
        end.exchange = track_of(*ring(other.rank), TrackKind::kStream, end.stream)->exchange.number;
      ends.push_back(end);
    }
    return ends;
  }
  // The one whose message it waits for; nullptr: it waits for none.
  static const End* awaited(const Node& node, const std::vector<End>& ends) {
    const auto found =
        std::find_if(ends.begin(), ends.end(), [&](const End& end) { return end.rank == node.exchange.peer; });
    return !node.exchange.waits || found == ends.end() ? nullptr : &*found;
  }
  // Who waits for a message needs the other end of it; who has not come that far, everyone who has not arrived.
  std::vector<int32_t> transfer_needs(const Node& node, int32_t transfer) const {
    const std::vector<End> ends = other_ends(node, transfer);
    const End* const only = awaited(node, ends);
    std::vector<int32_t> result;
    for (const End& end : ends) {
      if (only != nullptr && &end != only) continue;
      const bool there = end.reached == Reached::kBehind ||
                         (end.reached == Reached::kAt && (only == nullptr || end.exchange >= node.exchange.number));
      if (!there || halted(end.rank)) result.push_back(this->node(end.rank, TrackKind::kStream, end.stream));
    }
    return result;
  }

  std::vector<int32_t> host_needs(const Node& node) const {
    if (node.at == nullptr) return {};
    if (node.exchange.waits) return met_needs(node);
    switch (node.at->kind) {
      case EventKind::kStep:
      case EventKind::kEvaluate: return streams_are_seen(node.rank) ? unfinished_streams(node) : hosts_behind(node);
      case EventKind::kData: return busy(node.rank, TrackKind::kLoader);
      case EventKind::kSave: return busy(node.rank, TrackKind::kWriter);
      case EventKind::kEnding:
        if (auto writer = busy(node.rank, TrackKind::kWriter); !writer.empty()) return writer;
        return hosts_behind(node);
      case EventKind::kStarting:
      case EventKind::kAgree: return hosts_behind(node);
      default: return {};
    }
  }
  // Of a meeting of all hosts: whose message it waits for, unless that one is past the exchange, or waits in it.
  std::vector<int32_t> met_needs(const Node& node) const {
    const int32_t peer = this->node(node.exchange.peer, TrackKind::kHost);
    const Node& other = nodes_[static_cast<size_t>(peer)];
    const auto progress = [](const Node& n) {
      return std::tuple(n.at->step, phase_of(n.at->kind), n.exchange.number, n.exchange.waits);
    };
    if (other.at != nullptr && progress(other) >= progress(node) && !halted(other.rank)) return {};
    return {peer};
  }
  // On a GPU nobody tells what a stream has reached.
  bool streams_are_seen(int32_t rank) const {
    return std::any_of(ring(rank)->tracks.begin(), ring(rank)->tracks.end(),
                       [](const RingTrack& t) { return t.kind == TrackKind::kStream && !t.events.empty(); });
  }
  std::vector<int32_t> unfinished_streams(const Node& host) const {
    const std::optional<Submission> now = submission(host.rank);
    std::vector<int32_t> result;
    for (size_t n = 0; n < nodes_.size(); ++n)
      if (nodes_[n].rank == host.rank && nodes_[n].kind == TrackKind::kStream && !stream_done(nodes_[n], *now))
        result.push_back(static_cast<int32_t>(n));
    return result;
  }
  std::vector<int32_t> busy(int32_t rank, TrackKind kind) const {
    const RingEvent* const at = newest(*ring(rank), kind);
    if (at == nullptr || at->kind == EventKind::kIdle) return {};
    return {node(rank, kind)};
  }
  // Those that a meeting of all hosts waits for.
  std::vector<int32_t> hosts_behind(const Node& node) const {
    std::vector<int32_t> result;
    for (int32_t rank = 0; rank < bundle_.manifest.world_size; ++rank) {
      if (rank == node.rank) continue;
      const RingEvent* const at = host(rank);
      const bool there =
          at != nullptr && std::pair(at->step, phase_of(at->kind)) >= std::pair(node.at->step, phase_of(node.at->kind));
      const bool starting = node.at->kind == EventKind::kStarting && at != nullptr;
      if ((!there && !starting) || halted(rank)) result.push_back(this->node(rank, TrackKind::kHost));
    }
    return result;
  }
  // All writers of a checkpoint tell the same events, so who has told fewer is behind.
  std::vector<int32_t> writer_needs(const Node& node) const {
    if (node.at == nullptr || node.at->kind == EventKind::kIdle) return {this->node(node.rank, TrackKind::kHost)};
    if (node.at->kind != EventKind::kGather) return {};
    const uint64_t mine = track_of(*ring(node.rank), TrackKind::kWriter)->written;
    std::vector<int32_t> result;
    for (int32_t rank = 0; rank < bundle_.manifest.world_size; ++rank) {
      if (rank == node.rank) continue;
      const RingTrack* const track = ring(rank) == nullptr ? nullptr : track_of(*ring(rank), TrackKind::kWriter);
      if (track == nullptr || track->written < mine || halted(rank))
        result.push_back(this->node(rank, TrackKind::kWriter));
    }
    return result;
  }

  // ------------------------------------------------------------ culprit
  // [node]: from how many ranks a way of waits leads to it.
  std::vector<int32_t> ranks_waiting_for() const {
    std::vector<int32_t> count(nodes_.size(), 0);
    for (int32_t rank = 0; rank < bundle_.manifest.world_size; ++rank) {
      const RingEvent* const at = host(rank);
      if (at != nullptr && at->kind == EventKind::kEnded && !halted(rank)) continue;
      std::vector<char> seen(nodes_.size(), 0);
      std::vector<int32_t> open{node(rank, TrackKind::kHost)};
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

  Cause cause_of(const Node& node) const {
    if (ring(node.rank) == nullptr) return Cause::kUnseen;
    if (process_state(node.rank) == 'X') return Cause::kGone;
    if (halted(node.rank)) return Cause::kStopped;
    if (node.kind == TrackKind::kLoader) return Cause::kLoader;
    if (node.kind == TrackKind::kWriter)
      return node.at != nullptr && node.at->kind == EventKind::kGather ? Cause::kMessage : Cause::kDisk;
    if (node.kind == TrackKind::kHost) {
      if (node.at == nullptr) return Cause::kBug;
      if (node.exchange.waits) return Cause::kMessage;
      if (node.at->kind == EventKind::kData) return Cause::kLoader;
      if (node.at->kind == EventKind::kReport) return Cause::kDisk;
      return node.at->kind == EventKind::kAgree ? Cause::kMessage : Cause::kSlow;
    }
    const Instruction* const instruction = instruction_at(node);
    if (instruction != nullptr && std::holds_alternative<Wait>(instruction->action)) return Cause::kBug;
    if (const int32_t transfer = transfer_at(node);
        transfer >= 0 && awaited(node, other_ends(node, transfer)) != nullptr)
      return Cause::kMessage;
    return process_state(node.rank) == 'D' ? Cause::kDisk : Cause::kSlow;
  }

  // A process that is stopped or gone explains what others are at; then whoever most ranks wait for; then who has been
  // at it the longest.
  bool before(int32_t a, int32_t b, const std::vector<int32_t>& waiting) const {
    const auto key = [&](int32_t n) {
      const Node& node = nodes_[static_cast<size_t>(n)];
      const Cause cause = cause_of(node);
      const int rank_of_cause = cause == Cause::kGone ? 0 : cause == Cause::kStopped ? 1 : 2;
      return std::tuple(rank_of_cause, -waiting[static_cast<size_t>(n)],
                        node.at == nullptr ? int64_t{0} : node.at->time_ns, n);
    };
    return key(a) < key(b);
  }

  // ------------------------------------------------------------ words
  std::string rank_name(int32_t rank) const { return "rank " + std::to_string(rank); }
  std::string since(const Node& node) const {
    return node.at == nullptr ? "" : ", for " + seconds_text(now_ns_ - node.at->time_ns);
  }
  std::string place(const Node& node) const {
    if (instruction_at(node) == nullptr) return node.at == nullptr ? "not begun" : state_text(*node.at);
    const Bundle& bundle = *bundle_of(bundle_, node.at->evaluation);
    const RankPlan& plan = *plan_of(bundle, node.rank);
    return std::string(node.at->evaluation ? "evaluation behind step " : "step ") + std::to_string(node.at->step) +
           ", " + instruction_text(bundle, plan, node.at->instruction) + ", on stream \"" +
           plan.streams.at(static_cast<size_t>(node.stream)).name + "\"";
  }
  // Where a halted rank is: the first of its streams that is in an instruction, else its host.
  Node stands(const Node& node) const {
    if (!halted(node.rank)) return node;
    if (instruction_at(node) != nullptr) return node;
    if (submission(node.rank))
      for (const Node& other : nodes_)
        if (other.rank == node.rank && other.kind == TrackKind::kStream && instruction_at(other) != nullptr)
          return other;
    return nodes_[static_cast<size_t>(this->node(node.rank, TrackKind::kHost))];
  }

  Culprit describe(const Node& node, Cause cause) const {
    Culprit culprit;
    culprit.cause = cause;
    culprit.rank = node.rank;
    if (node.at == nullptr) return culprit;
    culprit.step = node.at->step;
    culprit.evaluation = node.at->evaluation;
    culprit.since_ns = node.at->time_ns;
    if (instruction_at(node) == nullptr) return culprit;
    const Bundle& bundle = *bundle_of(bundle_, node.at->evaluation);
    const RankPlan& plan = *plan_of(bundle, node.rank);
    culprit.instruction = node.at->instruction;
    culprit.stream = plan.streams.at(static_cast<size_t>(node.stream)).name;
    culprit.origin = origin_text(bundle, plan, node.at->instruction);
    return culprit;
  }

  // A message that does not come: its sender is named, with the rank that waits as its peer.
  std::string blame_message(const Node& node, Culprit& culprit) const {
    const int32_t transfer = transfer_at(node);
    if (transfer < 0 && node.exchange.waits) {
      culprit.rank = node.exchange.peer;
      culprit.peer = node.rank;
      return "the message of rank " + std::to_string(culprit.rank) + " to rank " + std::to_string(culprit.peer) +
             " does not come through: rank " + std::to_string(node.rank) + " " + place(node) + since(node);
    }
    if (transfer < 0) return rank_name(node.rank) + " " + place(node) + since(node) + "; all others are there";
    const std::vector<End> ends = other_ends(node, transfer);
    const Bundle& bundle = *bundle_of(bundle_, node.at->evaluation);
    const End& other = *awaited(node, ends);
    const bool receives = node.exchange.receives;
    culprit.peer = receives ? node.rank : other.rank;
    culprit.rank = receives ? other.rank : node.rank;
    if (receives) culprit.instruction = other.instruction;
    const RankPlan& sender = *plan_of(bundle, culprit.rank);
    return "the message of rank " + std::to_string(culprit.rank) + " to rank " + std::to_string(culprit.peer) +
           " does not come through: " + instruction_text(bundle, sender, culprit.instruction) +
           (other.reached == Reached::kBehind ? " has ended" : " has begun") + ", and rank " +
           std::to_string(node.rank) + " waits at " + place(node) + since(node);
  }

  // ", at step 3, instr 14, ...", "; it waits for the samples of step 3".
  std::string where(const Node& node) const {
    return (instruction_at(node) != nullptr ? ", at " : "; it ") + place(node) + since(node);
  }

  std::string message(const Node& node, Culprit& culprit) const {
    const std::string rank = rank_name(node.rank);
    const bool executes = instruction_at(node) != nullptr;
    switch (culprit.cause) {
      case Cause::kStopped: return rank + " is stopped (by SIGSTOP, SIGTSTP or a debugger)" + where(node);
      case Cause::kGone: return rank + " is gone: its process has ended" + where(node);
      case Cause::kMessage: return blame_message(node, culprit);
      case Cause::kSlow:
        return rank + (executes ? " does not end " : " does not go on: it ") + place(node) + since(node);
      case Cause::kLoader: return rank + " gets no samples: its loader " + place(node) + since(node);
      case Cause::kDisk:
        return rank + (executes ? " sleeps in the kernel" + where(node) : " waits for storage" + where(node));
      case Cause::kUnseen:
        return rank + " has no ring here: it is on another node, whose launcher knows more, or has not begun";
      case Cause::kBug: return rank + " should go on and does not" + where(node);
    }
    return {};
  }

  Hang story(int32_t culprit) const {
    const Node& found = nodes_[static_cast<size_t>(culprit)];
    const Node node = stands(found);
    Hang hang;
    hang.culprit = describe(node, cause_of(found));
    hang.message = std::string(cause_name(hang.culprit.cause)) + ": " + message(node, hang.culprit);
    // Breadth first against the edges: the nearest threads that wait for it.
    std::vector<char> told(nodes_.size(), 0);
    told[static_cast<size_t>(culprit)] = 1;
    std::vector<int32_t> layer{culprit};
    while (!layer.empty()) {
      std::vector<int32_t> next;
      for (size_t n = 0; n < nodes_.size(); ++n) {
        const auto reaches = [&](int32_t to) { return std::find(layer.begin(), layer.end(), to) != layer.end(); };
        if (told[n] || std::none_of(graph_[n].begin(), graph_[n].end(), reaches)) continue;
        next.push_back(static_cast<int32_t>(n));
      }
      for (const int32_t n : next) {
        told[static_cast<size_t>(n)] = 1;
        const Node& waits = nodes_[static_cast<size_t>(n)];
        if (waits.rank != found.rank && instruction_at(waits) != nullptr && hang.waits.size() < kMostWaits)
          hang.waits.push_back(rank_name(waits.rank) + " waits at " + place(waits) + since(waits) +
                               (waits.exchange.waits ? ", for " + rank_name(waits.exchange.peer) : ""));
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
    hang.culprit = describe(nodes_[static_cast<size_t>(cycle.front())], Cause::kBug);
    hang.message = "bug: ranks wait in a circle";
    for (const int32_t n : cycle) {
      const Node& node = nodes_[static_cast<size_t>(n)];
      hang.waits.push_back(rank_name(node.rank) + " waits at " + place(node) + since(node));
    }
    return hang;
  }

  static constexpr size_t kMostWaits = 16;

  const Bundle& bundle_;
  const int64_t now_ns_;
  std::vector<const Ring*> ring_of_;  // [rank]
  std::array<verify::Matching, 2> matchings_;
  std::vector<Node> nodes_;
  std::map<std::tuple<int32_t, TrackKind, int32_t>, int32_t> index_;
  verify::WaitGraph graph_;
};

}  // namespace

const char* cause_name(Cause cause) {
  switch (cause) {
    case Cause::kStopped: return "stopped process";
    case Cause::kGone: return "dead process";
    case Cause::kMessage: return "missing message";
    case Cause::kSlow: return "slow rank";
    case Cause::kLoader: return "loader";
    case Cause::kDisk: return "disk";
    case Cause::kUnseen: return "unseen rank";
    case Cause::kBug: return "bug";
  }
  return "";
}

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
  return Waiting(bundle, rings, now_ns).find();
}

}  // namespace piper::live
