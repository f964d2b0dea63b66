#include "runtime/hal/cpu/reduce_scatter.h"

#include <algorithm>
#include <cstring>

#include "schemas/base/check.h"
#include "schemas/plan/all_reduce_scratch.h"

namespace piper::hal {

std::unique_ptr<ReduceScatter> ReduceScatter::prepare(Transport& transport, const ReduceScatterSpec& spec) {
  auto result = std::make_unique<ReduceScatter>();
  const auto members = static_cast<int64_t>(spec.group.size());
  const auto self = std::find(spec.group.begin(), spec.group.end(), transport.rank());
  PIPER_CHECK(self != spec.group.end() && can_sum(spec.dtype), "reduce_scatter on rank ", transport.rank());
  const int64_t position = self - spec.group.begin();
  const int64_t element = dtype_bytes(spec.dtype);
  result->bytes_ = spec.count * element;
  result->own_ = spec.data + position * result->bytes_;
  result->out_ = spec.out;
  if (members == 1 || spec.count == 0) return result;

  const int64_t piece_count = plan::all_reduce_piece_bytes(members) / element;
  const int64_t stride = plan::reduce_scatter_scratch_bytes(spec.count, members, element) / (members - 1);
  result->sum_ = {spec.dtype, spec.add_f32, members, position, spec.scratch, stride};
  for (int64_t begin = 0; begin < spec.count; begin += piece_count) {
    const int64_t count = std::min(piece_count, spec.count - begin);
    result->pieces_.push_back({spec.out + begin * element, count});
    std::vector<Transfer> transfers;
    for (int64_t other = 0; other < members; ++other) {
      if (other == position) continue;
      const int32_t peer = spec.group[static_cast<size_t>(other)];
      auto* theirs = const_cast<std::byte*>(spec.data + other * result->bytes_ + begin * element);  // a send only reads
      transfers.push_back({Direction::kSend, peer, spec.channel, theirs, count * element});
      transfers.push_back({Direction::kReceive, peer, spec.channel, result->sum_.place_of(other), count * element});
    }
    result->exchanges_.push_back(transport.prepare(std::move(transfers)));
  }
  return result;
}

Status ReduceScatter::run(const WaitControl& control) {
  if (out_ != own_ && bytes_ > 0) std::memcpy(out_, own_, static_cast<size_t>(bytes_));
  for (size_t round = 0; round < exchanges_.size(); ++round) {
    PIPER_RETURN_IF_ERROR(exchanges_[round]->run(control));
    sum_.add_piece(pieces_[round].out, pieces_[round].count);
  }
  return {};
}

}  // namespace piper::hal
