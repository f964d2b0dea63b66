#include "runtime/hal/cpu/all_gather.h"

#include <algorithm>
#include <cstring>

#include "schemas/base/check.h"

namespace piper::hal {

std::unique_ptr<AllGather> AllGather::prepare(Transport& transport, const AllGatherSpec& spec) {
  auto result = std::make_unique<AllGather>();
  const auto self = std::find(spec.group.begin(), spec.group.end(), transport.rank());
  PIPER_CHECK(self != spec.group.end(), "all_gather on rank ", transport.rank());
  const int64_t position = self - spec.group.begin();
  result->part_ = spec.part;
  result->own_ = spec.data + position * spec.bytes;
  result->bytes_ = spec.bytes;
  if (spec.bytes == 0) return result;
  std::vector<Transfer> transfers;
  for (int64_t other = 0; other < static_cast<int64_t>(spec.group.size()); ++other) {
    if (other == position) continue;
    const int32_t peer = spec.group[static_cast<size_t>(other)];
    transfers.push_back(
        {Direction::kSend, peer, spec.channel, const_cast<std::byte*>(spec.part), spec.bytes});  // a send only reads
    transfers.push_back({Direction::kReceive, peer, spec.channel, spec.data + other * spec.bytes, spec.bytes});
  }
  if (!transfers.empty()) result->exchange_ = transport.prepare(std::move(transfers));
  return result;
}

Status AllGather::run(const WaitControl& control) {
  if (part_ != own_ && bytes_ > 0) std::memcpy(own_, part_, static_cast<size_t>(bytes_));
  return exchange_ == nullptr ? Status() : exchange_->run(control);
}

}  // namespace piper::hal
