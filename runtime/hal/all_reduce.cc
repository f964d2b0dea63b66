#include "runtime/hal/all_reduce.h"

#include <algorithm>

#include "schemas/base/check.h"
#include "schemas/plan/all_reduce_scratch.h"

namespace piper::hal {

namespace {

template <class T>
void add_typed(std::byte* dst, const std::byte* src, int64_t count) {
  T* to = reinterpret_cast<T*>(dst);
  const T* from = reinterpret_cast<const T*>(src);
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

bool can_all_reduce(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kI64:
    case DType::kI32: return true;
    case DType::kBF16:
    case DType::kBool: return false;
  }
  return false;
}

std::unique_ptr<AllReduce> AllReduce::prepare(Communicator& communicator, const AllReduceSpec& spec) {
  auto result = std::make_unique<AllReduce>();
  result->spec_ = spec;
  const auto members = static_cast<int64_t>(spec.group.size());
  if (members <= 1 || spec.count == 0) return result;
  auto self = std::find(spec.group.begin(), spec.group.end(), communicator.rank());
  PIPER_CHECK(self != spec.group.end() && can_all_reduce(spec.dtype), "all_reduce on rank ", communicator.rank());
  const int64_t position = self - spec.group.begin();
  result->position_ = position;

  const int64_t element = dtype_bytes(spec.dtype);
  const int64_t piece_count = plan::all_reduce_piece_bytes(members) / element;
  result->scratch_stride_ = plan::all_reduce_scratch_bytes(spec.count, members, element) / (members - 1);
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
    result->pieces_.push_back({spec.data + begin * element, count});
  }
  // Exchange r hands out the sums of round r - 1 and collects the parts of round r.
  for (int64_t round = 0; round <= rounds; ++round) {
    std::vector<Transfer> transfers;
    auto transfer = [&](Direction direction, int64_t member, int32_t channel, std::byte* data, int64_t count) {
      if (count > 0) transfers.push_back({direction, spec.group[static_cast<size_t>(member)], channel, data, count * element});
    };
    for (int64_t other = 0; other < members; ++other) {
      if (other == position) continue;
      if (round > 0) {
        auto [mine_begin, mine_count] = part(position, round - 1);
        transfer(Direction::kSend, other, spec.channel + 1, spec.data + mine_begin * element, mine_count);
        auto [begin, count] = part(other, round - 1);
        transfer(Direction::kReceive, other, spec.channel + 1, spec.data + begin * element, count);
      }
      if (round < rounds) {
        auto [begin, count] = part(other, round);
        transfer(Direction::kSend, other, spec.channel, spec.data + begin * element, count);
        const int64_t place = other < position ? other : other - 1;
        transfer(Direction::kReceive, other, spec.channel, spec.scratch + place * result->scratch_stride_,
                 part(position, round).second);
      }
    }
    result->exchanges_.push_back(communicator.prepare(std::move(transfers)));
  }
  return result;
}

Status AllReduce::run(const WaitControl& control) {
  for (size_t round = 0; round < exchanges_.size(); ++round) {
    PIPER_RETURN_IF_ERROR(exchanges_[round]->run(control));
    if (round < pieces_.size()) add_piece(pieces_[round]);
  }
  return {};
}

void AllReduce::add_piece(const Piece& piece) const {
  if (piece.count == 0) return;
  // Positions before this one are summed in the first part's place; adding that to the own values is
  // the same sum (x + y = y + x, bit by bit), and saves a copy.
  for (int64_t place = 1; place < position_; ++place)
    add(spec_.scratch, spec_.scratch + place * scratch_stride_, piece.count);
  if (position_ > 0) add(piece.own, spec_.scratch, piece.count);
  const auto others = static_cast<int64_t>(spec_.group.size()) - 1;
  for (int64_t place = position_; place < others; ++place)
    add(piece.own, spec_.scratch + place * scratch_stride_, piece.count);
}

void AllReduce::add(std::byte* dst, const std::byte* src, int64_t count) const {
  switch (spec_.dtype) {
    case DType::kF32: return spec_.add_f32(reinterpret_cast<float*>(dst), reinterpret_cast<const float*>(src), count);
    case DType::kF64: return add_typed<double>(dst, src, count);
    case DType::kI64: return add_typed<int64_t>(dst, src, count);
    case DType::kI32: return add_typed<int32_t>(dst, src, count);
    case DType::kBF16:
    case DType::kBool: break;
  }
  PIPER_CHECK(false, "all_reduce of ", dtype_name(spec_.dtype));
}

}  // namespace piper::hal
