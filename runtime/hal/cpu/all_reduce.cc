#include "runtime/hal/cpu/all_reduce.h"

#include <algorithm>

#include "schemas/base/check.h"
#include "schemas/plan/all_reduce_scratch.h"
#include "schemas/plan/convert_elements.h"

namespace piper::hal {

std::unique_ptr<AllReduce> AllReduce::prepare(Transport& transport, const AllReduceSpec& spec) {
  auto result = std::make_unique<AllReduce>();
  const auto members = static_cast<int64_t>(spec.group.size());
  if (members <= 1 || spec.count == 0) return result;
  auto self = std::find(spec.group.begin(), spec.group.end(), transport.rank());
  PIPER_CHECK(self != spec.group.end() && can_sum(spec.types), "all_reduce on rank ", transport.rank());
  const int64_t position = self - spec.group.begin();
  const int64_t element = dtype_bytes(spec.types.message), staged = plan::staged_bytes(spec.count, spec.types);
  result->types_ = spec.types;
  result->data_ = spec.data;
  result->count_ = spec.count;
  if (staged > 0) result->staged_ = spec.scratch;
  std::byte* const data = staged > 0 ? spec.scratch : spec.data;
  const int64_t piece_count = plan::all_reduce_piece_bytes(members) / element;
  const int64_t stride = plan::all_reduce_scratch_bytes(spec.count, members, element) / (members - 1);
  plan::SumTypes types = spec.types;
  types.data = spec.types.message;  // staged data travel, and so do their sums
  result->sum_ = {types, spec.add_f32, members, position, spec.scratch + staged, stride};
  auto segment_begin = [&](int64_t member) { return member * spec.count / members; };
  const int64_t longest = (spec.count + members - 1) / members;
  const int64_t rounds = (longest + piece_count - 1) / piece_count;

  // The part of `member`'s segment that is summed in `round`: first element and number.
  auto part = [&](int64_t member, int64_t round) {
    const int64_t begin = std::min(segment_begin(member) + round * piece_count, segment_begin(member + 1));
    return std::pair(begin, std::min(piece_count, segment_begin(member + 1) - begin));
  };
  for (int64_t round = 0; round < rounds; ++round) {
    auto [begin, count] = part(position, round);
    result->pieces_.push_back({data + begin * element, count});
  }
  // Exchange r hands out the sums of round r - 1 and collects the parts of round r.
  for (int64_t round = 0; round <= rounds; ++round) {
    std::vector<Transfer> transfers;
    auto transfer = [&](Direction direction, int64_t member, int32_t channel, std::byte* data, int64_t count) {
      if (count > 0)
        transfers.push_back({direction, spec.group[static_cast<size_t>(member)], channel, data, count * element});
    };
    for (int64_t other = 0; other < members; ++other) {
      if (other == position) continue;
      if (round > 0) {
        auto [mine_begin, mine_count] = part(position, round - 1);
        transfer(Direction::kSend, other, spec.channel + 1, data + mine_begin * element, mine_count);
        auto [begin, count] = part(other, round - 1);
        transfer(Direction::kReceive, other, spec.channel + 1, data + begin * element, count);
      }
      if (round < rounds) {
        auto [begin, count] = part(other, round);
        transfer(Direction::kSend, other, spec.channel, data + begin * element, count);
        transfer(Direction::kReceive, other, spec.channel, result->sum_.place_of(other), part(position, round).second);
      }
    }
    result->exchanges_.push_back(transport.prepare(std::move(transfers)));
  }
  return result;
}

Status AllReduce::run(const WaitControl& control) {
  if (staged_ != nullptr) convert_elements(types_.data, data_, types_.message, staged_, count_);
  for (size_t round = 0; round < exchanges_.size(); ++round) {
    PIPER_RETURN_IF_ERROR(exchanges_[round]->run(control));
    if (round < pieces_.size()) sum_.add_piece(pieces_[round].own, pieces_[round].own, pieces_[round].count);
  }
  if (staged_ != nullptr) convert_elements(types_.message, staged_, types_.data, data_, count_);
  return {};
}

}  // namespace piper::hal
