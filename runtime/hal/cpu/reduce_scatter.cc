#include "runtime/hal/cpu/reduce_scatter.h"

#include <algorithm>
#include <cstring>

#include "schemas/base/check.h"
#include "schemas/plan/all_reduce_scratch.h"
#include "schemas/plan/convert_elements.h"

namespace piper::hal {

std::unique_ptr<ReduceScatter> ReduceScatter::prepare(Transport& transport, const ReduceScatterSpec& spec) {
  auto result = std::make_unique<ReduceScatter>();
  const auto members = static_cast<int64_t>(spec.group.size());
  const auto self = std::find(spec.group.begin(), spec.group.end(), transport.rank());
  PIPER_CHECK(self != spec.group.end() && can_sum(spec.types), "reduce_scatter on rank ", transport.rank());
  const int64_t position = self - spec.group.begin();
  if (members == 1 || spec.count == 0) {
    result->bytes_ = spec.count * dtype_bytes(spec.types.data);
    result->own_ = spec.data;
    result->out_ = spec.out;
    return result;
  }
  const int64_t element = dtype_bytes(spec.types.message), kept = dtype_bytes(spec.types.data);
  const int64_t staged = plan::staged_bytes(spec.count * members, spec.types);
  const std::byte* const data = staged > 0 ? spec.scratch : spec.data;
  result->bytes_ = spec.count * element;
  result->own_ = data + position * result->bytes_;
  result->out_ = spec.out;
  result->types_ = spec.types;
  result->data_ = spec.data;
  if (staged > 0) result->staged_ = spec.scratch;

  const int64_t piece_count = plan::all_reduce_piece_bytes(members) / element;
  const int64_t stride = plan::reduce_scatter_scratch_bytes(spec.count, members, element) / (members - 1);
  result->sum_ = {spec.types, spec.add_f32, members, position, spec.scratch + staged, stride};
  for (int64_t begin = 0; begin < spec.count; begin += piece_count) {
    const int64_t count = std::min(piece_count, spec.count - begin);
    std::byte* const out = spec.out + begin * kept;
    std::byte* const own = staged > 0 ? result->staged_ + position * result->bytes_ + begin * element : out;
    result->pieces_.push_back({own, out, count});
    std::vector<Transfer> transfers;
    for (int64_t other = 0; other < members; ++other) {
      if (other == position) continue;
      const int32_t peer = spec.group[static_cast<size_t>(other)];
      auto* theirs = const_cast<std::byte*>(data + other * result->bytes_ + begin * element);  // a send only reads
      transfers.push_back({Direction::kSend, peer, spec.channel, theirs, count * element});
      transfers.push_back({Direction::kReceive, peer, spec.channel, result->sum_.place_of(other), count * element});
    }
    result->exchanges_.push_back(transport.prepare(std::move(transfers)));
  }
  return result;
}

Status ReduceScatter::run(const WaitControl& control) {
  if (staged_ != nullptr)
    convert_elements(types_.data, data_, types_.message, staged_, sum_.members * bytes_ / dtype_bytes(types_.message));
  else if (out_ != own_ && bytes_ > 0) std::memcpy(out_, own_, static_cast<size_t>(bytes_));
  for (size_t round = 0; round < exchanges_.size(); ++round) {
    PIPER_RETURN_IF_ERROR(exchanges_[round]->run(control));
    sum_.add_piece(pieces_[round].own, pieces_[round].out, pieces_[round].count);
  }
  return {};
}

}  // namespace piper::hal
