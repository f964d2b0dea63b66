#include "runtime/hal/control_channel.h"

#include <algorithm>
#include <cstring>

#include "runtime/hal/message_waits.h"

namespace piper::hal {

namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

std::string encode(const std::vector<uint64_t>& sizes) {
  return {reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(uint64_t)};
}
std::vector<uint64_t> decode(const std::string& bytes) {
  std::vector<uint64_t> sizes(bytes.size() / sizeof(uint64_t));
  std::memcpy(sizes.data(), bytes.data(), bytes.size());
  return sizes;
}

// The sum of sizes that `sender` has given.
Result<size_t> total(const std::vector<uint64_t>& sizes, int32_t sender) {
  uint64_t sum = 0;
  for (const uint64_t size : sizes) {
    if (size > kMaxBytes - sum)
      return Status::failure("R0303", "rank " + std::to_string(sender) + " has more than " + std::to_string(kMaxBytes) +
                                          " bytes for the other ranks");
    sum += size;
  }
  return static_cast<size_t>(sum);
}

WaitControl untold(WaitControl wait) {
  wait.messages = nullptr;
  return wait;
}

}  // namespace

Result<std::string> ControlChannel::meet(int32_t to, std::string out, int32_t from, size_t in,
                                         const WaitControl& wait) {
  const ExchangeScope scope(wait);
  if (wait.messages != nullptr) wait.messages->waits_for({Direction::kReceive, from});
  return exchange(to, std::move(out), from, in, wait);
}

Status ControlChannel::send(int32_t peer, const void* data, int64_t bytes, const WaitControl& wait) {
  for (int64_t at = 0; at < bytes; at += kMessageBytes) {
    const auto count = static_cast<size_t>(std::min(kMessageBytes, bytes - at));
    auto sent = exchange(peer, std::string(static_cast<const char*>(data) + at, count), kNobody, 0, untold(wait));
    if (!sent.ok()) return sent.take_status();
  }
  return {};
}

Status ControlChannel::receive(int32_t peer, void* data, int64_t bytes, const WaitControl& wait) {
  for (int64_t at = 0; at < bytes; at += kMessageBytes) {
    const auto count = static_cast<size_t>(std::min(kMessageBytes, bytes - at));
    PIPER_ASSIGN(const std::string piece, exchange(kNobody, "", peer, count, untold(wait)));
    std::memcpy(static_cast<char*>(data) + at, piece.data(), count);
  }
  return {};
}

// After the rounds of distances 1, 2, 4, ... a rank has the texts of twice as many ranks, from itself on: it appends
// those that the rank at this distance has. In each round the sizes go first, then all texts as one message.
Result<std::vector<std::string>> ControlChannel::allgather(const std::string& mine, const WaitControl& wait) {
  const int32_t world = world_size();
  std::vector<std::string> all(static_cast<size_t>(world));
  const auto text_of = [&](int64_t of) -> std::string& { return all[static_cast<size_t>(of % world)]; };
  text_of(rank()) = mine;
  for (int64_t distance = 1; distance < world; distance *= 2) {
    const auto from = static_cast<int32_t>((rank() + distance) % world),
               to = static_cast<int32_t>((rank() + world - distance) % world);
    const int64_t count = std::min(distance, world - distance);
    std::vector<uint64_t> out_sizes;
    for (int64_t i = 0; i < count; ++i) out_sizes.push_back(text_of(rank() + i).size());
    PIPER_ASSIGN(const size_t out_bytes, total(out_sizes, rank()));
    std::string out;
    out.reserve(out_bytes);
    for (int64_t i = 0; i < count; ++i) out += text_of(rank() + i);
    PIPER_ASSIGN(const std::string sizes,
                 meet(to, encode(out_sizes), from, static_cast<size_t>(count) * sizeof(uint64_t), wait));
    const std::vector<uint64_t> in_sizes = decode(sizes);
    PIPER_ASSIGN(const size_t in_bytes, total(in_sizes, from));
    PIPER_ASSIGN(const std::string in, meet(to, std::move(out), from, in_bytes, wait));
    size_t at = 0;
    for (size_t i = 0; i < in_sizes.size(); ++i) {
      text_of(from + static_cast<int64_t>(i)) = in.substr(at, in_sizes[i]);
      at += in_sizes[i];
    }
  }
  return all;
}

// After the round of distance d, 2 d ranks up to this one have come.
Status ControlChannel::barrier(const WaitControl& wait) {
  const int32_t world = world_size();
  for (int64_t distance = 1; distance < world; distance *= 2) {
    auto met = meet(static_cast<int32_t>((rank() + distance) % world), "",
                    static_cast<int32_t>((rank() + world - distance) % world), 0, wait);
    if (!met.ok()) return met.take_status();
  }
  return {};
}

}  // namespace piper::hal
