#include "runtime/hal/position_group.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schemas/plan/all_reduce_scratch.h"

namespace piper::hal {

namespace {

class Sequence : public Command {
 public:
  void add(std::unique_ptr<Command> command) { commands_.push_back(std::move(command)); }
  Status add(MadeCommand made) {
    if (!made.ok()) return made.take_status();
    commands_.push_back(std::move(*made));
    return {};
  }
  Status issue(Queue& queue, const Submission& submission) override {
    for (const auto& command : commands_) PIPER_RETURN_IF_ERROR(command->issue(queue, submission));
    return {};
  }
  const char* prevents_capture() const override {
    for (const auto& command : commands_)
      if (const char* reason = command->prevents_capture()) return reason;
    return nullptr;
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
    auto sequence = std::make_unique<Sequence>();
    if (members() == 1 || operands.count == 0) return std::unique_ptr<Command>(std::move(sequence));
    PIPER_ASSIGN(const Staged staged, stage(*sequence, operands, operands.count));
    const int64_t element = dtype_bytes(operands.types.message);
    const int64_t piece = plan::all_reduce_piece_bytes(members()) / element;
    const int64_t stride = plan::all_reduce_scratch_bytes(operands.count, members(), element) / (members() - 1);
    const int64_t rounds = plan::pieces_of_segment(plan::segment_bytes(operands.count, members(), element), members());
    const auto segment = [&](int64_t member) { return member * operands.count / members(); };
    // The part of a member's segment that is summed in a round: where it begins, and how many elements.
    const auto part = [&](int64_t member, int64_t round) {
      const int64_t begin = std::min(segment(member) + round * piece, segment(member + 1));
      return std::pair(staged.data + begin * element, std::min(piece, segment(member + 1) - begin));
    };
    PieceSum sum = sum_of(operands, staged, stride);
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
        transfer(Direction::kReceive, other, channel_, sum.place_of(other), part(position_, round).second);
      }
      PIPER_RETURN_IF_ERROR(sequence->add(parts_.exchange(transfers)));
      if (round == rounds) continue;
      std::tie(sum.own, sum.count) = part(position_, round);
      if (sum.count > 0) PIPER_RETURN_IF_ERROR(sequence->add(parts_.sum(sum)));
    }
    if (staged.data != operands.data)
      PIPER_RETURN_IF_ERROR(sequence->add(
          parts_.convert({operands.data, operands.types.data}, {staged.data, operands.types.message}, operands.count)));
    return std::unique_ptr<Command>(std::move(sequence));
  }

  MadeCommand reduce_scatter(const SumOperands& operands) override {
    auto sequence = std::make_unique<Sequence>();
    const plan::SumTypes& types = operands.types;
    const int64_t kept = operands.count * dtype_bytes(types.data);
    const Address own = operands.data + position_ * kept;
    const bool as_they_are = types.message == types.data || members() == 1;
    if (as_they_are && operands.out != own && kept > 0) sequence->add(parts_.copy(operands.out, own, kept));
    if (members() == 1 || operands.count == 0) return std::unique_ptr<Command>(std::move(sequence));
    PIPER_ASSIGN(const Staged staged, stage(*sequence, operands, operands.count * members()));
    const int64_t element = dtype_bytes(types.message), bytes = operands.count * element;
    const int64_t piece = plan::all_reduce_piece_bytes(members()) / element;
    const int64_t stride = plan::reduce_scatter_scratch_bytes(operands.count, members(), element) / (members() - 1);
    const Address sums = as_they_are ? operands.out : staged.data + position_ * bytes;
    PieceSum sum = sum_of(operands, staged, stride);
    for (int64_t begin = 0; begin < operands.count; begin += piece) {
      sum.count = std::min(piece, operands.count - begin);
      sum.own = sums + begin * element;
      std::vector<DeviceTransfer> transfers;
      for (int64_t other = 0; other < members(); ++other) {
        if (other == position_) continue;
        const Address theirs = staged.data + (other * bytes + begin * element);
        transfers.push_back({Direction::kSend, rank(other), channel_, theirs, sum.count * element});
        transfers.push_back({Direction::kReceive, rank(other), channel_, sum.place_of(other), sum.count * element});
      }
      PIPER_RETURN_IF_ERROR(sequence->add(parts_.exchange(transfers)));
      PIPER_RETURN_IF_ERROR(sequence->add(parts_.sum(sum)));
    }
    if (!as_they_are)
      PIPER_RETURN_IF_ERROR(
          sequence->add(parts_.convert({operands.out, types.data}, {sums, types.message}, operands.count)));
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
    if (!operands.send_counts.nowhere()) {
      if (parts_.exchange_counted) return parts_.exchange_counted(operands);
      return Status::failure("R0404", "rows that travel are counted, and this device's counts are not the host's");
    }
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

  // The operand of a sum in the type in which it travels: apart, at the beginning of the scratch, where that is not its
  // own. `scratch`: what is left.
  struct Staged {
    Address data, scratch;
  };
  Result<Staged> stage(Sequence& sequence, const SumOperands& operands, int64_t count) {
    const int64_t bytes = plan::staged_bytes(count, operands.types);
    if (bytes == 0) return Staged{operands.data, operands.scratch};
    PIPER_RETURN_IF_ERROR(sequence.add(
        parts_.convert({operands.scratch, operands.types.message}, {operands.data, operands.types.data}, count)));
    return Staged{operands.scratch, operands.scratch + bytes};
  }

  PieceSum sum_of(const SumOperands& operands, const Staged& staged, int64_t stride) const {
    return {operands.types.message, operands.types.sum, members(), position_, Address(), staged.scratch, stride, 0};
  }

  MadeCommand exchanged(std::unique_ptr<Sequence> sequence, const std::vector<DeviceTransfer>& transfers) {
    if (!transfers.empty()) PIPER_RETURN_IF_ERROR(sequence->add(parts_.exchange(transfers)));
    return std::unique_ptr<Command>(std::move(sequence));
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
