// Following the contents of many replicas at the cost of one, as far as a step goes alike on all of them. Internal to
// the verifier.
//
// A replica is a set of ranks that meet nobody else from where they start to where they stop (below). Two replicas are
// alike where their ranks, in ascending order, do the same work, meet each other in the same way, have the same places
// in cuts and start with the same contents, but that all samples of the one are those of the other moved by one number.
// Then each step of the walk through the one is a step of the walk through the other, with samples moved: contents are
// made of labels, elements and lists of samples; lists are appended and cut, and compared with each other, which moving
// changes nothing of. So one replica is followed, and the others get what it has when it stops, moved. That they start
// alike is shown, not assumed: where they do not, every rank is followed by itself.
//
// A rank stops before the first instruction that this does not hold of: one that meets another replica, that updates,
// that asks whether a sum has all samples of the step, or names a buffer or an argument list in which replicas differ,
// as where each has a part of the optimizer's state. From there on every rank is followed by itself, so whatever a
// replica adds to a sum over all of them is counted with the samples that are its own. A rank starts after such
// instructions at the beginning of its step, as those that count a loss's terms on all ranks.
//
// It can only accept: where anything is refuted, check_contents() follows all ranks from the beginning and says of
// that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "schemas/verify/flow.h"

namespace piper::verify {

class Flow::Replicas {
 public:
  // For a flow whose ranks are at the beginning of a step. They are at their starts afterwards where there are several
  // replicas.
  explicit Replicas(Flow& flow);
  bool several() const { return of_.size() > 1; }
  size_t count() const { return of_.size(); }
  // Follows the first and sets the others to where it stops. False where they are not alike, or it asks for more than
  // it has; the flow is of no use then.
  bool play();

 private:
  struct Kind {                        // of ranks that do the same work
    std::pair<size_t, size_t> middle;  // instructions in the middle of the step
    std::vector<bool> outer;           // [communicator] it leads to other replicas
    std::vector<bool> own_lists;       // [argument list] some rank has one of its own
    std::vector<bool> differs;         // [buffer] replicas start with different contents
  };
  class Moved;  // contents with their samples moved

  Rank& rank(size_t replica, size_t i) { return flow_.ranks_[of_[replica][i]]; }
  Kind& kind(size_t plan) { return kinds_[static_cast<size_t>(kind_of_[plan])]; }
  void find_kinds();
  void find_replicas();
  // Every rank goes on until its `stop`, or waits; false where something is refuted.
  bool go_on(const std::vector<size_t>& plans);
  void go_to_starts();
  // Whether a list of ranks of the first replica, and one of another, name the same of its ranks in the same order.
  bool same_ranks(const std::vector<int32_t>& first, const std::vector<int32_t>& other, size_t replica) const;
  bool is_alike(size_t replica);
  bool meets_alike(size_t replica, size_t i);
  bool starts_alike(size_t replica, size_t i);
  bool stops_at(const plan::RankPlan& plan, const Kind& kind, const plan::Action& action) const;
  // The first instruction from `next` on that a rank stops at.
  size_t stop_of(size_t plan, size_t next);
  void set_to_first(size_t replica);

  Flow& flow_;
  std::vector<Kind> kinds_;
  std::vector<int32_t> kind_of_;            // [plan]
  std::vector<std::vector<size_t>> of_;     // [replica] plans, ascending
  std::vector<size_t> replica_of_, place_;  // [plan], and where in of_[replica]
  std::vector<int64_t> moved_by_;           // [replica] samples, from those of the first
  std::vector<size_t> num_replaced_;        // [place in the first replica] at the start
  bool in_vain_ = false;
};

}  // namespace piper::verify
