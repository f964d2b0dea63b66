#include "runtime/hal/transport_channel.h"

namespace piper::hal {

Result<std::string> TransportChannel::exchange(int32_t to, std::string out, int32_t from, size_t in,
                                               const WaitControl& wait) {
  struct Texts {
    std::string out, in;
  };
  const auto texts = std::make_shared<Texts>(Texts{std::move(out), std::string(in, '\0')});
  const auto transfer = [channel = channel_](Direction direction, int32_t peer, std::string& text) {
    return Transfer{direction, peer, channel, reinterpret_cast<std::byte*>(text.data()),
                    static_cast<int64_t>(text.size())};
  };
  std::vector<Transfer> transfers;
  if (to != kNobody) transfers.push_back(transfer(Direction::kSend, to, texts->out));
  if (from != kNobody) transfers.push_back(transfer(Direction::kReceive, from, texts->in));
  if (Status status = transport_.prepare(std::move(transfers))->run(wait); !status.ok()) {
    transport_.keep(texts);  // messages may still be under way
    return status;
  }
  return std::move(texts->in);
}

}  // namespace piper::hal
