#include "runtime/hal/cpu/all_to_all.h"

#include <algorithm>
#include <cstring>

#include "schemas/base/check.h"

namespace piper::hal {

std::unique_ptr<AllToAll> AllToAll::prepare(Transport& transport, const AllToAllSpec& spec) {
  auto result = std::make_unique<AllToAll>();
  const auto self = std::find(spec.group.begin(), spec.group.end(), transport.rank());
  PIPER_CHECK(self != spec.group.end(), "all_to_all on rank ", transport.rank());
  PIPER_CHECK((spec.send_counts == nullptr) == (spec.recv_counts == nullptr) &&
                  (spec.send_counts == nullptr || spec.row_bytes > 0),
              "all_to_all with half its counts");
  result->spec_ = spec;
  result->position_ = static_cast<size_t>(self - spec.group.begin());
  result->own_bytes_ = spec.bytes;
  if (spec.bytes == 0) return result;
  std::vector<Transfer> transfers;
  for (size_t other = 0; other < spec.group.size(); ++other) {
    if (other == result->position_) continue;
    const int64_t offset = static_cast<int64_t>(other) * spec.bytes;
    auto* theirs = const_cast<std::byte*>(spec.send + offset);  // a send only reads
    transfers.push_back({Direction::kSend, spec.group[other], spec.channel, theirs, spec.bytes});
    transfers.push_back({Direction::kReceive, spec.group[other], spec.channel, spec.recv + offset, spec.bytes});
  }
  if (!transfers.empty()) result->exchange_ = transport.prepare(std::move(transfers));
  return result;
}

// Messages of no rows are sent too: ends that do not agree are then noticed at once.
Status AllToAll::apply_counts() {
  const int64_t most = spec_.bytes / spec_.row_bytes;
  size_t transfer = 0;
  for (size_t other = 0; other < spec_.group.size(); ++other) {
    const int64_t out = spec_.send_counts[other], in = spec_.recv_counts[other];
    for (const int64_t rows : {out, in})
      if (rows < 0 || rows > most)
        return Status::failure("R0304", std::to_string(rows) + " rows " + (rows == out ? "to" : "from") + " rank " +
                                            std::to_string(spec_.group[other]) + ", where a part has room for 0 to " +
                                            std::to_string(most));
    if (other == position_) {
      if (out != in)
        return Status::failure(
            "R0304", "this rank sends itself " + std::to_string(out) + " rows and expects " + std::to_string(in));
      own_bytes_ = out * spec_.row_bytes;
      continue;
    }
    exchange_->resize(transfer++, out * spec_.row_bytes);
    exchange_->resize(transfer++, in * spec_.row_bytes);
  }
  return {};
}

Status AllToAll::run(const WaitControl& control) {
  if (spec_.bytes == 0) return {};
  if (spec_.send_counts != nullptr) PIPER_RETURN_IF_ERROR(apply_counts());
  const int64_t own = static_cast<int64_t>(position_) * spec_.bytes;
  if (own_bytes_ > 0) std::memcpy(spec_.recv + own, spec_.send + own, static_cast<size_t>(own_bytes_));
  return exchange_ == nullptr ? Status() : exchange_->run(control);
}

}  // namespace piper::hal
