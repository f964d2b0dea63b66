// Who meets whom on all ranks of a bundle: communicators of one name and the same members are one meeting, and messages
// of one directed pair of ranks and one channel id go along one line, in their order. Where rules 1 and 2 hold, the
// n-th operation on a rank's end is the n-th of the others, so that nobody has to list who takes part in which of
// millions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::verify {

class Meetings {
 public:
  explicit Meetings(const plan::Bundle& bundle);

  struct Member {
    int32_t plan = -1;          // index into Bundle::ranks
    int32_t communicator = -1;  // its index there
  };
  size_t size() const { return members_.size(); }
  int32_t of(size_t plan, int32_t communicator) const { return of_[plan][static_cast<size_t>(communicator)]; }
  // Those who have it, by their position in it.
  std::span<const Member> members(int32_t meeting) const { return members_[static_cast<size_t>(meeting)]; }

  size_t lines() const { return ends_.size(); }
  // The line that a rank's messages go along on a channel, and that it gets messages from.
  int32_t out(size_t plan, int32_t channel) const { return out_[plan][static_cast<size_t>(channel)]; }
  int32_t in(size_t plan, int32_t channel) const { return in_[plan][static_cast<size_t>(channel)]; }
  // The loaded rank at a line's end, -1: none.
  int32_t receiver(int32_t line) const { return ends_[static_cast<size_t>(line)]; }
  // The loaded rank of a number, -1: none.
  int32_t plan_of(int32_t rank) const {
    return rank >= 0 && static_cast<size_t>(rank) < plan_of_.size() ? plan_of_[static_cast<size_t>(rank)] : -1;
  }

 private:
  void find_meetings(const plan::Bundle& bundle);
  void find_lines(const plan::Bundle& bundle);

  std::vector<int32_t> plan_of_;                // [rank]
  std::vector<std::vector<Member>> members_;    // [meeting]
  std::vector<std::vector<int32_t>> of_;        // [plan][communicator]
  std::vector<int32_t> ends_;                   // [line]
  std::vector<std::vector<int32_t>> out_, in_;  // [plan][channel]
};

}  // namespace piper::verify
