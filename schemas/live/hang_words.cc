#include "schemas/live/hang_words.h"

#include <tuple>
#include <utility>

namespace piper::live {
namespace {

using namespace plan;

std::string rank_name(int32_t rank) { return "rank " + std::to_string(rank); }

class HangWords {
 public:
  HangWords(const RunThreads& threads, int64_t now_ns) : threads_(threads), now_ns_(now_ns) {}

  Cause cause_of(const Thread& thread) const {
    if (threads_.ring(thread.rank) == nullptr) return Cause::kUnseen;
    if (threads_.process_state(thread.rank) == 'X') return Cause::kGone;
    if (threads_.halted(thread.rank)) return Cause::kStopped;
    if (thread.kind == TrackKind::kLoader) return Cause::kLoader;
    if (thread.kind == TrackKind::kWriter)
      return thread.at != nullptr && thread.at->kind == EventKind::kGather ? Cause::kMessage : Cause::kDisk;
    if (thread.kind == TrackKind::kHost) {
      if (thread.at == nullptr) return Cause::kBug;
      if (thread.exchange.waits) return Cause::kMessage;
      if (thread.at->kind == EventKind::kData) return Cause::kLoader;
      if (thread.at->kind == EventKind::kReport) return Cause::kDisk;
      return thread.at->kind == EventKind::kAgree ? Cause::kMessage : Cause::kSlow;
    }
    const Instruction* const instruction = threads_.instruction_at(thread);
    if (instruction != nullptr && std::holds_alternative<Wait>(instruction->action)) return Cause::kBug;
    if (const int32_t transfer = threads_.transfer_at(thread);
        transfer >= 0 && RunThreads::awaited(thread, threads_.other_ends(thread, transfer)) != nullptr)
      return Cause::kMessage;
    return threads_.process_state(thread.rank) == 'D' ? Cause::kDisk : Cause::kSlow;
  }

  std::pair<Culprit, std::string> culprit(const Thread& found) const {
    const Thread& thread = *stands(&found);
    Culprit culprit = describe(thread, cause_of(found));
    std::string text = std::string(cause_name(culprit.cause)) + ": " + message(thread, culprit);
    return {std::move(culprit), std::move(text)};
  }

  std::string waits(const Thread& thread) const {
    return rank_name(thread.rank) + " waits at " + place(thread) + since(thread) +
           (thread.exchange.waits ? ", for " + rank_name(thread.exchange.peer) : "");
  }

  Culprit describe(const Thread& thread, Cause cause) const {
    Culprit culprit;
    culprit.cause = cause;
    culprit.rank = thread.rank;
    if (thread.at == nullptr) return culprit;
    culprit.step = thread.at->step;
    culprit.evaluation = thread.at->evaluation;
    culprit.since_ns = thread.at->time_ns;
    if (threads_.instruction_at(thread) == nullptr) return culprit;
    const Bundle& bundle = *bundle_of(threads_.bundle(), thread.at->evaluation);
    const RankPlan& plan = threads_.plan_at(thread);
    culprit.instruction = thread.at->instruction;
    culprit.stream = plan.streams.at(static_cast<size_t>(thread.stream)).name;
    culprit.origin = origin_text(bundle, plan, thread.at->instruction);
    return culprit;
  }

 private:
  std::string since(const Thread& thread) const {
    return thread.at == nullptr ? "" : ", for " + seconds_text(now_ns_ - thread.at->time_ns);
  }

  std::string place(const Thread& thread) const {
    if (threads_.instruction_at(thread) == nullptr) return thread.at == nullptr ? "not begun" : state_text(*thread.at);
    const Bundle& bundle = *bundle_of(threads_.bundle(), thread.at->evaluation);
    const RankPlan& plan = threads_.plan_at(thread);
    return std::string(thread.at->evaluation ? "evaluation after step " : "step ") + std::to_string(thread.at->step) +
           ", " + instruction_text(bundle, plan, thread.at->instruction) + ", on stream \"" +
           plan.streams.at(static_cast<size_t>(thread.stream)).name + "\"";
  }

  // Where a halted rank is: the first of its streams that is in an instruction, else its host.
  const Thread* stands(const Thread* thread) const {
    if (!threads_.halted(thread->rank)) return thread;
    if (threads_.instruction_at(*thread) != nullptr) return thread;
    if (threads_.submission(thread->rank))
      for (const Thread& other : threads_.all())
        if (other.rank == thread->rank && other.kind == TrackKind::kStream && threads_.instruction_at(other) != nullptr)
          return &other;
    return &threads_[threads_.index(thread->rank, TrackKind::kHost)];
  }

  // A message that does not come: its sender is named, with the rank that waits as its peer.
  std::string blame_message(const Thread& thread, Culprit& culprit) const {
    const int32_t transfer = threads_.transfer_at(thread);
    if (transfer < 0 && thread.exchange.waits) {
      culprit.rank = thread.exchange.peer;
      culprit.peer = thread.rank;
      return "the message of rank " + std::to_string(culprit.rank) + " to rank " + std::to_string(culprit.peer) +
             " does not come through: rank " + std::to_string(thread.rank) + " " + place(thread) + since(thread);
    }
    if (transfer < 0) return rank_name(thread.rank) + " " + place(thread) + since(thread) + "; all others are there";
    const std::vector<TransferEnd> ends = threads_.other_ends(thread, transfer);
    const Bundle& bundle = *bundle_of(threads_.bundle(), thread.at->evaluation);
    const TransferEnd& other = *RunThreads::awaited(thread, ends);
    const bool receives = thread.exchange.receives;
    culprit.peer = receives ? thread.rank : other.rank;
    culprit.rank = receives ? other.rank : thread.rank;
    if (receives) culprit.instruction = other.instruction;
    const RankPlan& sender = *plan_of(bundle, culprit.rank);
    return "the message of rank " + std::to_string(culprit.rank) + " to rank " + std::to_string(culprit.peer) +
           " does not come through: " + instruction_text(bundle, sender, culprit.instruction) +
           (other.reached == Reached::kBehind ? " has ended" : " has begun") + ", and rank " +
           std::to_string(thread.rank) + " waits at " + place(thread) + since(thread);
  }

  // ", at step 3, instr 14, ...", "; it waits for the samples of step 3".
  std::string where(const Thread& thread) const {
    return (threads_.instruction_at(thread) != nullptr ? ", at " : "; it ") + place(thread) + since(thread);
  }

  std::string message(const Thread& thread, Culprit& culprit) const {
    const std::string rank = rank_name(thread.rank);
    const bool executes = threads_.instruction_at(thread) != nullptr;
    switch (culprit.cause) {
      case Cause::kStopped: return rank + " is stopped (by SIGSTOP, SIGTSTP or a debugger)" + where(thread);
      case Cause::kGone: return rank + " is gone: its process has ended" + where(thread);
      case Cause::kMessage: return blame_message(thread, culprit);
      case Cause::kSlow:
        return rank + (executes ? " does not end " : " does not continue: it ") + place(thread) + since(thread);
      case Cause::kLoader: return rank + " gets no samples: its loader " + place(thread) + since(thread);
      case Cause::kDisk:
        return rank + (executes ? " sleeps in the kernel" + where(thread) : " waits for storage" + where(thread));
      case Cause::kUnseen:
        return rank + " has no ring here: it is on another node, whose launcher knows more, or has not begun";
      case Cause::kBug: return rank + " should continue and does not" + where(thread);
    }
    return {};
  }

  const RunThreads& threads_;
  const int64_t now_ns_;
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

Cause cause_of(const RunThreads& threads, const Thread& thread) { return HangWords(threads, 0).cause_of(thread); }

Culprit describe(const RunThreads& threads, const Thread& thread, Cause cause) {
  return HangWords(threads, 0).describe(thread, cause);
}

Hang blame(const RunThreads& threads, const Thread& found, int64_t now_ns) {
  Hang hang;
  std::tie(hang.culprit, hang.message) = HangWords(threads, now_ns).culprit(found);
  return hang;
}

std::string waits_text(const RunThreads& threads, const Thread& thread, int64_t now_ns) {
  return HangWords(threads, now_ns).waits(thread);
}

}  // namespace piper::live
