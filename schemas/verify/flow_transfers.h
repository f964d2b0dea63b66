// What moves contents between ranks as a step is followed: a message carries them from its sender to its receiver, a
// collective moves and adds them once all members are there. Internal to the verifier.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "schemas/verify/flow.h"

namespace piper::verify {

class Flow::Transfers {
 public:
  explicit Transfers(Flow& flow);

  // The instruction at `next`; `ready` has the ranks that can go on.
  Status send(Rank& rank, const plan::Send& send, std::vector<size_t>& ready);
  bool receive(Rank& rank, const plan::Recv& recv);  // false: it was not sent yet
  // At a collective, which goes on once all members are there.
  Status meet(Rank& rank, int32_t communicator, std::vector<size_t>& ready);
  bool has_met(const Rank& rank, int32_t communicator) const {
    return rank.arrived && rank.round != meetings_[meeting_of(rank, communicator)].round;
  }

  bool any_under_way() const {
    return std::any_of(under_way_.begin(), under_way_.end(), [](const auto& line) { return !line.empty(); });
  }
  // What waits for a rank, and what it waits for, becomes what does so with another of the same work, except what
  // communicators that are `outer` lead to.
  template <class Change>
  void go_on_as(const Rank& rank, const Rank& other, const std::vector<bool>& outer, Change& change) {
    for (size_t c = 0; c < outer.size(); ++c)
      if (!outer[c])
        meetings_[meeting_of(rank, static_cast<int32_t>(c))] = meetings_[meeting_of(other, static_cast<int32_t>(c))];
    for (size_t c = 0; c < rank.plan->channels.size(); ++c) {
      const auto into = static_cast<size_t>(flow_.meetings_.in(plan_of(rank), static_cast<int32_t>(c)));
      const auto from = static_cast<size_t>(flow_.meetings_.in(plan_of(other), static_cast<int32_t>(c)));
      if (!under_way_[into].empty()) continue;  // of two channels on one line
      for (const int32_t flight : under_way_[from]) {
        under_way_[into].push_back(static_cast<int32_t>(flights_.size()));
        Pieces pieces = flights_[static_cast<size_t>(flight)];
        for (Piece& piece : pieces) piece.content = change(piece.content);
        flights_.push_back(std::move(pieces));
      }
    }
  }

  // For the step: by the label at readers of what arrived.
  Exchanges exchanges() const;

 private:
  struct Member {
    Rank* rank = nullptr;
    const plan::Action* action = nullptr;
  };

  size_t plan_of(const Rank& rank) const { return static_cast<size_t>(&rank - flow_.ranks_.data()); }
  size_t meeting_of(const Rank& rank, int32_t communicator) const {
    return static_cast<size_t>(flow_.meetings_.of(plan_of(rank), communicator));
  }
  Status collective(size_t meeting);
  // For `members_`, where the first of them has a share, or a part, of a value: what becomes of it. `order`: their
  // ranks.
  bool moves_values(const plan::BufferRange& first, int64_t bytes);
  std::vector<plan::BufferRange> ranges_of_values() const;
  Result<int32_t> take_of_places(const std::vector<plan::BufferRange>& where, int64_t bytes, DType dtype, bool shares,
                                 const std::vector<int32_t>& order);  // into `sent_`; the cut
  Result<Piece> one_value(const std::string& verb);
  Status add_shares(const plan::AllReduce& shape, const std::vector<int32_t>& order);
  Status scatter_shares(const plan::ReduceScatter& shape, const std::vector<int32_t>& order);
  Status gather_parts(const plan::AllGather& shape, const std::vector<int32_t>& order);
  void note_conversion(Value& value, int32_t cut, Exchange::By by, DType dtype);
  Status exchange();  // of `members_`
  int32_t cut_across() const;
  Status cross(Value& value, const Rank& from, const Rank& to);
  // The label of the value by which a member counts the rows that it sends or gets, of the same samples as these.
  Result<int32_t> label_of_counts(Rank& rank, const plan::BufferRange& counts, const Pieces& rows);
  // By the label at arrival; of what is exchanged in different ways no more is known.
  Exchange& note(const Arrived& arrived, const Exchange& exchange);
  void note_exchange(const plan::AllToAll& action, int32_t label, int32_t sent_rows, int32_t received_rows);

  Flow& flow_;
  // A rank issues in order, so of a communicator one collective is at hand, and all its members are at that one.
  struct Meeting {
    size_t arrived = 0;  // members, at this collective
    uint32_t round = 0;  // which of its collectives that is
  };
  std::vector<Meeting> meetings_;               // as the flow's
  std::vector<std::deque<int32_t>> under_way_;  // [line] places in flights_ of what was sent and not received
  std::vector<Pieces> flights_;
  std::vector<int32_t> free_flights_;
  std::map<Arrived, Exchange> exchanges_;
  std::vector<Member> members_;                    // of the collective at hand, by position
  std::vector<Pieces> sent_, arrived_;             // of an exchange, by position
  std::vector<std::pair<size_t, int32_t>> moved_;  // members and the labels of what they send
  int32_t across_ = -1;                            // the cut at several places of which they are
  Pieces scratch_, scratch_sum_;
};

}  // namespace piper::verify
