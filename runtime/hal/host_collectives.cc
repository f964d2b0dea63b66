#include "runtime/hal/host_collectives.h"

#include <algorithm>
#include <cstring>

namespace piper::hal {

namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;
constexpr uint64_t kMaxHostBytes = uint64_t{4} << 30;

// An exchange on memory that the caller drops, whatever becomes of the exchange.
template <class Memory>
Status run_on(const std::shared_ptr<Memory>& memory, Transport& transport, std::vector<Transfer> transfers,
              const WaitControl& control) {
  Status status = transport.prepare(std::move(transfers))->run(control);
  if (!status.ok()) transport.keep(memory);
  return status;
}

}  // namespace

Status host_send(Transport& transport, int32_t peer, const void* data, int64_t bytes, const WaitControl& control) {
  const auto piece = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(std::min(bytes, kPieceBytes)));
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    const int64_t count = std::min(kPieceBytes, bytes - at);
    std::memcpy(piece->data(), static_cast<const std::byte*>(data) + at, static_cast<size_t>(count));
    PIPER_RETURN_IF_ERROR(
        run_on(piece, transport, {{Direction::kSend, peer, kHostChannel, piece->data(), count}}, control));
  }
  return {};
}

Status host_receive(Transport& transport, int32_t peer, void* data, int64_t bytes, const WaitControl& control) {
  const auto piece = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(std::min(bytes, kPieceBytes)));
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    const int64_t count = std::min(kPieceBytes, bytes - at);
    PIPER_RETURN_IF_ERROR(
        run_on(piece, transport, {{Direction::kReceive, peer, kHostChannel, piece->data(), count}}, control));
    std::memcpy(static_cast<std::byte*>(data) + at, piece->data(), static_cast<size_t>(count));
  }
  return {};
}

namespace {

// Texts of some ranks, as they travel: their sizes first, then all bytes in one message.
struct Texts {
  std::vector<uint64_t> sizes;
  std::string bytes;

  Transfer sizes_transfer(Direction direction, int32_t peer) {
    return {direction, peer, kHostChannel, reinterpret_cast<std::byte*>(sizes.data()),
            static_cast<int64_t>(sizes.size() * sizeof(uint64_t))};
  }
  Transfer bytes_transfer(Direction direction, int32_t peer) {
    return {direction, peer, kHostChannel, reinterpret_cast<std::byte*>(bytes.data()),
            static_cast<int64_t>(bytes.size())};
  }
  // The sum of the sizes, which `sender` has given.
  Result<size_t> total(int32_t sender) const {
    uint64_t sum = 0;
    for (const uint64_t size : sizes) {
      if (size > kMaxHostBytes - sum)
        return Status::failure("R0303", "rank " + std::to_string(sender) + " has more than " +
                                            std::to_string(kMaxHostBytes) + " bytes for the other ranks");
      sum += size;
    }
    return static_cast<size_t>(sum);
  }
};

struct Round {
  Texts out, in;
};

}  // namespace

// Behind the rounds of distances 1, 2, 4, ... a rank has the texts of twice as many ranks, from itself on: it appends
// those that the rank at this distance has.
Result<std::vector<std::string>> host_allgather(Transport& transport, const std::string& mine,
                                                const WaitControl& control) {
  const int32_t world = transport.world_size(), rank = transport.rank();
  std::vector<std::string> all(static_cast<size_t>(world));
  const auto text_of = [&](int64_t of) -> std::string& { return all[static_cast<size_t>(of % world)]; };
  text_of(rank) = mine;
  for (int64_t distance = 1; distance < world; distance *= 2) {
    const auto from = static_cast<int32_t>((rank + distance) % world),
               to = static_cast<int32_t>((rank + world - distance) % world);
    const int64_t count = std::min(distance, world - distance);
    const auto round = std::make_shared<Round>();
    auto& [out, in] = *round;
    for (int64_t i = 0; i < count; ++i) out.sizes.push_back(text_of(rank + i).size());
    PIPER_ASSIGN(const size_t bytes_out, out.total(rank));
    out.bytes.reserve(bytes_out);
    for (int64_t i = 0; i < count; ++i) out.bytes += text_of(rank + i);
    in.sizes.resize(static_cast<size_t>(count));
    PIPER_RETURN_IF_ERROR(
        run_on(round, transport,
               {out.sizes_transfer(Direction::kSend, to), in.sizes_transfer(Direction::kReceive, from)}, control));
    PIPER_ASSIGN(const size_t bytes_in, in.total(from));
    in.bytes.resize(bytes_in);
    PIPER_RETURN_IF_ERROR(
        run_on(round, transport,
               {out.bytes_transfer(Direction::kSend, to), in.bytes_transfer(Direction::kReceive, from)}, control));
    size_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const size_t size = in.sizes[static_cast<size_t>(i)];
      text_of(from + i) = in.bytes.substr(at, size);
      at += size;
    }
  }
  return all;
}

// Behind the round of distance d, 2 d ranks up to this one have come.
Status host_barrier(Transport& transport, const WaitControl& control) {
  const int32_t world = transport.world_size(), rank = transport.rank();
  for (int64_t distance = 1; distance < world; distance *= 2) {
    const auto to = static_cast<int32_t>((rank + distance) % world),
               from = static_cast<int32_t>((rank + world - distance) % world);
    PIPER_RETURN_IF_ERROR(transport
                              .prepare({{Direction::kSend, to, kHostChannel, nullptr, 0},
                                        {Direction::kReceive, from, kHostChannel, nullptr, 0}})
                              ->run(control));
  }
  return {};
}

}  // namespace piper::hal
