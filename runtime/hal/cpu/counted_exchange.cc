#include "runtime/hal/cpu/counted_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/hal/message_waits.h"
#include "runtime/hal/row_counts.h"
#include "schemas/base/check.h"

namespace piper::hal {

std::unique_ptr<CountedExchange> CountedExchange::prepare(Transport& transport, std::vector<int32_t> group,
                                                          int32_t channel, const ExchangeOperands& operands) {
  auto result = std::make_unique<CountedExchange>();
  const auto self = std::find(group.begin(), group.end(), transport.rank());
  PIPER_CHECK(self != group.end(), "all_to_all on rank ", transport.rank());
  PIPER_CHECK(!operands.send_counts.nowhere() && !operands.recv_counts.nowhere() && operands.row_bytes > 0,
              "all_to_all with half its counts");
  result->position_ = static_cast<size_t>(self - group.begin());
  result->operands_ = operands;
  result->group_ = std::move(group);
  if (operands.bytes == 0) return result;
  std::vector<Transfer> transfers;
  for (size_t other = 0; other < result->group_.size(); ++other) {
    if (other == result->position_) continue;
    const int32_t peer = result->group_[other];
    const int64_t at = static_cast<int64_t>(other) * operands.bytes;
    transfers.push_back({Direction::kSend, peer, channel, (operands.send + at).in_device(), operands.bytes});
    transfers.push_back({Direction::kReceive, peer, channel, (operands.recv + at).in_device(), operands.bytes});
  }
  if (!transfers.empty()) result->exchange_ = transport.prepare(std::move(transfers));
  return result;
}

// Messages of no rows are sent too: ends that do not agree are then noticed at once.
Status CountedExchange::apply_counts() {
  const auto* to = operands_.send_counts.in_device_as<const int64_t>();
  const auto* from = operands_.recv_counts.in_device_as<const int64_t>();
  PIPER_RETURN_IF_ERROR(
      check_row_counts({group_, static_cast<int32_t>(position_), to, from, operands_.bytes / operands_.row_bytes}));
  size_t transfer = 0;
  for (size_t other = 0; other < group_.size(); ++other) {
    if (other == position_) {
      own_bytes_ = to[other] * operands_.row_bytes;
      continue;
    }
    exchange_->resize(transfer++, to[other] * operands_.row_bytes);
    exchange_->resize(transfer++, from[other] * operands_.row_bytes);
  }
  return {};
}

Status CountedExchange::run(const WaitControl& control) {
  if (operands_.bytes == 0) return {};
  PIPER_RETURN_IF_ERROR(apply_counts());
  const int64_t own = static_cast<int64_t>(position_) * operands_.bytes;
  if (own_bytes_ > 0)
    std::memcpy((operands_.recv + own).in_device(), (operands_.send + own).in_device(),
                static_cast<size_t>(own_bytes_));
  if (exchange_ == nullptr) return {};
  const ExchangeScope scope(control);
  return exchange_->run(control);
}

}  // namespace piper::hal
