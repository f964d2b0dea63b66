// What moves contents between ranks as a step is followed: a message carries them from its sender to its receiver, a
// collective moves and adds them once all members are there. Internal to the verifier.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "schemas/verify/flow.h"

namespace piper::verify {

class Flow::Transfers {
 public:
  explicit Transfers(Flow& flow);

  // Of the transfer that the instruction at `next` is an end of; `ready` has the ranks that can go on.
  Status send(Rank& rank, const plan::Send& send, size_t transfer, std::vector<size_t>& ready);
  bool receive(Rank& rank, const plan::Recv& recv, size_t transfer);  // false: it was not sent yet
  // At a collective, which goes on once all members are there.
  Status meet(Rank& rank, size_t transfer, std::vector<size_t>& ready);
  bool has_met(size_t transfer) const { return missing_[transfer] == 0; }

  // Of the step: by the label at readers of what arrived.
  Exchanges exchanges() const;

 private:
  struct Member {
    Rank* rank = nullptr;
    const plan::Action* action = nullptr;
  };

  Status collective(int32_t transfer);
  // Of `members_`, where the first of them has a share, or a part, of a value: what becomes of it. `order`: their
  // ranks.
  bool moves_values(const plan::BufferRange& first, int64_t bytes);
  std::vector<plan::BufferRange> ranges_of_values() const;
  Result<int32_t> take_of_places(const std::vector<plan::BufferRange>& where, int64_t bytes, DType dtype, bool shares,
                                 const std::vector<int32_t>& order);  // into `sent_`; the cut
  Result<Piece> one_value(const std::string& verb);
  Status add_shares(const plan::AllReduce& shape, const std::vector<int32_t>& order);
  Status scatter_shares(const plan::ReduceScatter& shape, const std::vector<int32_t>& order);
  Status gather_parts(const plan::AllGather& shape, const std::vector<int32_t>& order);
  void note_conversion(const Value& value, int32_t cut, Exchange::By by, DType dtype);
  Status exchange();  // of `members_`
  // The label of the value by which a member counts the rows that it sends or gets, of the same samples as these.
  Result<int32_t> label_of_counts(Rank& rank, const plan::BufferRange& counts, const Pieces& rows);
  // By the label at arrival; of what is exchanged in different ways no more is known.
  Exchange& note(const std::pair<int32_t, bool>& arrived, const Exchange& exchange);
  void note_exchange(const plan::AllToAll& action, int32_t label, int32_t sent_rows, int32_t received_rows);

  Flow& flow_;
  std::vector<int32_t> missing_;    // [transfer] participants that have not arrived
  std::vector<int32_t> flight_of_;  // [transfer] a sent message's place in flights_, or -1
  std::vector<Pieces> flights_;
  std::vector<int32_t> free_flights_;
  std::map<std::pair<int32_t, bool>, Exchange> exchanges_;  // by the label at arrival, and whether it was added up
  std::vector<Member> members_;                             // of the collective at hand, by position
  std::vector<Pieces> sent_, arrived_;                      // of an exchange, by position
  std::vector<std::pair<size_t, int32_t>> moved_;           // members and the labels of what they send
  Pieces scratch_, scratch_sum_;
};

}  // namespace piper::verify
