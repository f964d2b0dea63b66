#include "runtime/hal/position_group.h"

#include <algorithm>

#include "schemas/plan/all_reduce_scratch.h"

namespace piper::hal {

namespace {

class Sequence : public Command {
 public:
  void add(std::unique_ptr<Command> command) { commands_.push_back(std::move(command)); }
  Status issue(Queue& queue, const Submission& submission) override {
    for (const auto& command : commands_) PIPER_RETURN_IF_ERROR(command->issue(queue, submission));
    return {};
  }

 private:
  std::vector<std::unique_ptr<Command>> commands_;
};

class PositionGroup : public Group {
 public:
  PositionGroup(GroupParts parts, std::vector<int32_t> ranks, int64_t position, int32_t channel)
      : parts_(std::move(parts)), ranks_(std::move(ranks)), position_(position), channel_(channel) {}

  // Each member owns a contiguous segment: it collects the others' parts of it, adds them, and hands out the sum. The
  // exchange that hands out the sums of one piece collects the parts of the next.
  MadeCommand all_reduce(const SumOperands& operands) override {
    PIPER_RETURN_IF_ERROR(check_types(operands.types));
    auto sequence = std::make_unique<Sequence>();
    if (members() == 1 || operands.count == 0) return std::unique_ptr<Command>(std::move(sequence));
    const DType dtype = operands.types.data;
    const int64_t element = dtype_bytes(dtype);
    const int64_t piece = plan::all_reduce_piece_bytes(members()) / element;
    const int64_t stride = plan::all_reduce_scratch_bytes(operands.count, members(), element) / (members() - 1);
    const int64_t longest = (operands.count + members() - 1) / members(), rounds = (longest + piece - 1) / piece;
    const auto segment = [&](int64_t member) { return member * operands.count / members(); };
    // The part of a member's segment that is summed in a round: where it begins, and how many elements.
    const auto part = [&](int64_t member, int64_t round) {
      const int64_t begin = std::min(segment(member) + round * piece, segment(member + 1));
      return std::pair(operands.data + begin * element, std::min(piece, segment(member + 1) - begin));
    };
    for (int64_t round = 0; round <= rounds; ++round) {
      std::vector<DeviceTransfer> transfers;
      const auto transfer = [&](Direction direction, int64_t member, int32_t channel, Address data, int64_t count) {
        if (count > 0) transfers.push_back({direction, rank(member), channel, data, count * element});
      };
      for (int64_t other = 0; other < members(); ++other) {
        if (other == position_) continue;
        if (round > 0) {
          const auto [mine, mine_count] = part(position_, round - 1);
          transfer(Direction::kSend, other, channel_ + 1, mine, mine_count);
          const auto [theirs, their_count] = part(other, round - 1);
          transfer(Direction::kReceive, other, channel_ + 1, theirs, their_count);
        }
        if (round == rounds) continue;
        const auto [theirs, their_count] = part(other, round);
        transfer(Direction::kSend, other, channel_, theirs, their_count);
        transfer(Direction::kReceive, other, channel_, place_of(other, operands.scratch, stride),
                 part(position_, round).second);
      }
      PIPER_ASSIGN(auto exchange, parts_.exchange(transfers));
      sequence->add(std::move(exchange));
      if (round == rounds) continue;
      const auto [mine, count] = part(position_, round);
      PIPER_RETURN_IF_ERROR(add_piece(*sequence, mine, count, dtype, operands.scratch, stride));
    }
    return std::unique_ptr<Command>(std::move(sequence));
  }

  MadeCommand reduce_scatter(const SumOperands& operands) override {
    PIPER_RETURN_IF_ERROR(check_types(operands.types));
    auto sequence = std::make_unique<Sequence>();
    const DType dtype = operands.types.data;
    const int64_t element = dtype_bytes(dtype), bytes = operands.count * element;
    const Address own = operands.data + position_ * bytes;
    if (operands.out != own && bytes > 0) sequence->add(parts_.copy(operands.out, own, bytes));
    if (members() == 1 || operands.count == 0) return std::unique_ptr<Command>(std::move(sequence));
    const int64_t piece = plan::all_reduce_piece_bytes(members()) / element;
    const int64_t stride = plan::reduce_scatter_scratch_bytes(operands.count, members(), element) / (members() - 1);
    for (int64_t begin = 0; begin < operands.count; begin += piece) {
      const int64_t count = std::min(piece, operands.count - begin);
      std::vector<DeviceTransfer> transfers;
      for (int64_t other = 0; other < members(); ++other) {
        if (other == position_) continue;
        const Address theirs = operands.data + (other * bytes + begin * element);
        transfers.push_back({Direction::kSend, rank(other), channel_, theirs, count * element});
        transfers.push_back(
            {Direction::kReceive, rank(other), channel_, place_of(other, operands.scratch, stride), count * element});
      }
      PIPER_ASSIGN(auto exchange, parts_.exchange(transfers));
      sequence->add(std::move(exchange));
      PIPER_RETURN_IF_ERROR(
          add_piece(*sequence, operands.out + begin * element, count, dtype, operands.scratch, stride));
    }
    return std::unique_ptr<Command>(std::move(sequence));
  }

  MadeCommand all_gather(const GatherOperands& operands) override {
    auto sequence = std::make_unique<Sequence>();
    if (operands.bytes == 0) return std::unique_ptr<Command>(std::move(sequence));
    const Address own = operands.data + position_ * operands.bytes;
    if (operands.part != own) sequence->add(parts_.copy(own, operands.part, operands.bytes));
    std::vector<DeviceTransfer> transfers;
    for (int64_t other = 0; other < members(); ++other) {
      if (other == position_) continue;
      transfers.push_back({Direction::kSend, rank(other), channel_ + 1, operands.part, operands.bytes});
      transfers.push_back(
          {Direction::kReceive, rank(other), channel_ + 1, operands.data + other * operands.bytes, operands.bytes});
    }
    return exchanged(std::move(sequence), transfers);
  }

  MadeCommand all_to_all(const ExchangeOperands& operands) override {
    if (!operands.send_counts.nowhere())
      return Status::failure("R0404", "rows that travel are counted, and this device's counts are not the host's");
    auto sequence = std::make_unique<Sequence>();
    if (operands.bytes == 0) return std::unique_ptr<Command>(std::move(sequence));
    const int64_t own = position_ * operands.bytes;
    sequence->add(parts_.copy(operands.recv + own, operands.send + own, operands.bytes));
    std::vector<DeviceTransfer> transfers;
    for (int64_t other = 0; other < members(); ++other) {
      if (other == position_) continue;
      const int64_t at = other * operands.bytes;
      transfers.push_back({Direction::kSend, rank(other), channel_, operands.send + at, operands.bytes});
      transfers.push_back({Direction::kReceive, rank(other), channel_, operands.recv + at, operands.bytes});
    }
    return exchanged(std::move(sequence), transfers);
  }

 private:
  int64_t members() const { return static_cast<int64_t>(ranks_.size()); }
  int32_t rank(int64_t member) const { return ranks_[static_cast<size_t>(member)]; }

  static Status check_types(const plan::SumTypes& types) {
    if (types == plan::SumTypes(types.data)) return {};
    return Status::failure("R0404", "these ranks cannot sum " + std::string(dtype_name(types.message)) + " as " +
                                        std::string(dtype_name(types.sum)) + " into " +
                                        std::string(dtype_name(types.data)));
  }

  MadeCommand exchanged(std::unique_ptr<Sequence> sequence, const std::vector<DeviceTransfer>& transfers) {
    if (!transfers.empty()) {
      PIPER_ASSIGN(auto exchange, parts_.exchange(transfers));
      sequence->add(std::move(exchange));
    }
    return std::unique_ptr<Command>(std::move(sequence));
  }

  // The others' pieces, by position without the own one, lie `stride` bytes apart.
  Address place_of(int64_t member, Address scratch, int64_t stride) const {
    return scratch + (member < position_ ? member : member - 1) * stride;
  }

  // Positions before this one are summed in the first one's place; adding that to the own values is the same sum
  // (x + y = y + x, bit by bit), and saves a copy.
  Status add_piece(Sequence& sequence, Address own, int64_t count, DType dtype, Address scratch, int64_t stride) {
    if (count == 0) return {};
    const auto add = [&](Address to, Address from) -> Status {
      PIPER_ASSIGN(auto command, parts_.add(to, from, count, dtype));
      sequence.add(std::move(command));
      return {};
    };
    for (int64_t place = 1; place < position_; ++place) PIPER_RETURN_IF_ERROR(add(scratch, scratch + place * stride));
    if (position_ > 0) PIPER_RETURN_IF_ERROR(add(own, scratch));
    for (int64_t place = position_; place < members() - 1; ++place)
      PIPER_RETURN_IF_ERROR(add(own, scratch + place * stride));
    return {};
  }

  GroupParts parts_;
  std::vector<int32_t> ranks_;
  int64_t position_;
  int32_t channel_;
};

}  // namespace

std::unique_ptr<Group> make_position_group(GroupParts parts, std::vector<int32_t> ranks, int64_t position,
                                           int32_t channel) {
  return std::make_unique<PositionGroup>(std::move(parts), std::move(ranks), position, channel);
}

}  // namespace piper::hal
