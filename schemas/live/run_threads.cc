#include "schemas/live/run_threads.h"

#include <algorithm>

namespace piper::live {

using namespace plan;

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

RunThreads::RunThreads(const Bundle& bundle, const std::vector<Ring>& rings)
    : bundle_(&bundle), ring_of_(static_cast<size_t>(bundle.manifest.world_size), nullptr) {
  for (const Ring& ring : rings) ring_of_[static_cast<size_t>(ring.rank)] = &ring;
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

Result<RunThreads> RunThreads::of(const Bundle& bundle, const std::vector<Ring>& rings) {
  RunThreads threads(bundle, rings);
  PIPER_ASSIGN(threads.matchings_[0], verify::match(bundle));
  if (!bundle.evaluation.empty()) {
    PIPER_ASSIGN(threads.matchings_[1], verify::match(bundle.evaluation.front()));
  }
  return threads;
}

void RunThreads::add(const Thread& thread) {
  index_[{thread.rank, thread.kind, thread.stream}] = static_cast<int32_t>(threads_.size());
  threads_.push_back(thread);
}

int32_t RunThreads::index(int32_t rank, TrackKind kind, int32_t stream) const {
  const auto found = index_.find({rank, kind, stream});
  if (found != index_.end()) return found->second;
  return index_.at({rank, TrackKind::kHost, -1});  // of a rank without a ring
}

const RingEvent* RunThreads::host(int32_t rank) const {
  return ring(rank) == nullptr ? nullptr : newest(*ring(rank), TrackKind::kHost);
}

bool RunThreads::halted(int32_t rank) const {
  const char state = process_state(rank);
  const RingEvent* const at = host(rank);
  if (at != nullptr && at->kind == EventKind::kEnded) return false;
  return state == 'T' || state == 't' || state == 'X';
}

std::optional<Submission> RunThreads::submission(int32_t rank) const {
  const RingEvent* const at = host(rank);
  if (at == nullptr || (at->kind != EventKind::kStep && at->kind != EventKind::kEvaluate)) return std::nullopt;
  Submission now{at->step, at->kind == EventKind::kEvaluate, 0};
  for (const RingTrack& track : ring(rank)->tracks)
    if (track.kind == TrackKind::kStream && !track.events.empty())
      if (const Submission of = submission_of(track.events.back()); of.step == now.step && of > now) now = of;
  return now;
}

bool RunThreads::stream_is_empty(const Thread& stream, const Submission& now) const {
  const Bundle* const bundle = bundle_of(*bundle_, now.evaluation);
  const RankPlan* const plan = bundle == nullptr ? nullptr : plan_of(*bundle, stream.rank);
  return plan == nullptr || std::none_of(plan->instructions.begin(), plan->instructions.end(),
                                         [&](const Instruction& i) { return i.stream == stream.stream; });
}

bool RunThreads::stream_done(const Thread& stream, const Submission& now) const {
  if (stream.at == nullptr) return stream_is_empty(stream, now);
  const Submission of = submission_of(*stream.at);
  if (of == now) return stream.at->kind == EventKind::kStreamDone;
  return of > now || stream_is_empty(stream, now);
}

const RankPlan& RunThreads::plan_at(const Thread& thread) const {
  return *plan_of(*bundle_of(*bundle_, thread.at->evaluation), thread.rank);
}

const Instruction* RunThreads::instruction_at(const Thread& thread) const {
  if (thread.at == nullptr || thread.at->kind != EventKind::kInstruction) return nullptr;
  if (submission(thread.rank) != submission_of(*thread.at)) return nullptr;
  const Bundle* const bundle = bundle_of(*bundle_, thread.at->evaluation);
  const RankPlan* const plan = bundle == nullptr ? nullptr : plan_of(*bundle, thread.rank);
  const auto index = static_cast<size_t>(thread.at->instruction);
  if (plan == nullptr || index >= plan->instructions.size()) return nullptr;
  const Instruction& instruction = plan->instructions[index];
  return instruction.stream == thread.stream ? &instruction : nullptr;
}

int32_t RunThreads::transfer_at(const Thread& thread) const {
  if (instruction_at(thread) == nullptr) return -1;
  const auto plan = static_cast<size_t>(&plan_at(thread) - bundle_of(*bundle_, thread.at->evaluation)->ranks.data());
  return matchings_[thread.at->evaluation ? 1 : 0].transfer_of[plan][static_cast<size_t>(thread.at->instruction)];
}

std::vector<TransferEnd> RunThreads::other_ends(const Thread& thread, int32_t transfer) const {
  const verify::Matching& all = matchings_[thread.at->evaluation ? 1 : 0];
  const Bundle& bundle = *bundle_of(*bundle_, thread.at->evaluation);
  std::vector<TransferEnd> ends;
  for (auto k = all.first[static_cast<size_t>(transfer)]; k < all.first[static_cast<size_t>(transfer) + 1]; ++k) {
    const auto& [plan, instruction] = all.participants[static_cast<size_t>(k)];
    const RankPlan& other = bundle.ranks[static_cast<size_t>(plan)];
    if (other.rank == thread.rank && instruction == thread.at->instruction) continue;
    TransferEnd end{other.rank, other.instructions[static_cast<size_t>(instruction)].stream, instruction};
    const RingEvent* const at =
        ring(other.rank) == nullptr ? nullptr : newest(*ring(other.rank), TrackKind::kStream, end.stream);
    if (at != nullptr) end.reached = reached(*at, submission_of(*thread.at), instruction);
    if (end.reached == Reached::kAt)
      end.exchange = track_of(*ring(other.rank), TrackKind::kStream, end.stream)->exchange.number;
    ends.push_back(end);
  }
  return ends;
}

const TransferEnd* RunThreads::awaited(const Thread& thread, const std::vector<TransferEnd>& ends) {
  const auto found =
      std::find_if(ends.begin(), ends.end(), [&](const TransferEnd& end) { return end.rank == thread.exchange.peer; });
  return !thread.exchange.waits || found == ends.end() ? nullptr : &*found;
}

}  // namespace piper::live
