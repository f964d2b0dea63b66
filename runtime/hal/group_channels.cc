#include "runtime/hal/group_channels.h"

#include <algorithm>
#include <set>

#include "runtime/hal/transport.h"

namespace piper::hal {

namespace {

std::string key_of(const plan::Communicator& communicator) {
  std::string key = communicator.name;
  for (const int32_t rank : communicator.ranks) key += "\t" + std::to_string(rank);
  return key;
}

}  // namespace

Result<std::vector<int32_t>> agree_on_group_channels(const std::vector<plan::Communicator>& communicators,
                                                     ControlChannel& control, const WaitControl& wait) {
  std::string mine;
  for (const plan::Communicator& communicator : communicators) mine += key_of(communicator) + "\n";
  PIPER_ASSIGN(const std::vector<std::string> all, control.allgather(mine, wait));
  std::set<std::string> keys;
  for (const std::string& text : all)
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      keys.insert(text.substr(at, end - at));
      at = end + 1;
    }
  std::vector<int32_t> channels;
  for (const plan::Communicator& communicator : communicators) {
    const auto index = std::distance(keys.begin(), keys.find(key_of(communicator)));
    channels.push_back(kGroupChannels + 2 * static_cast<int32_t>(index));
  }
  return channels;
}

Result<int64_t> position_in(const plan::Communicator& communicator, int32_t rank) {
  const auto& ranks = communicator.ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found != ranks.end()) return static_cast<int64_t>(found - ranks.begin());
  return Status::failure("R0404", "communicator '" + communicator.name + "' does not contain this rank");
}

Status check_channel(const plan::Channel& channel) {
  if (channel.id >= 0 && channel.id < kPlanChannels) return {};
  return Status::failure("R0404",
                         "channel id " + std::to_string(channel.id) + " is not below " + std::to_string(kPlanChannels));
}

}  // namespace piper::hal
