#include "runtime/hal/host_collectives.h"

#include <cstring>

namespace piper::hal {

Status host_send(Communicator& communicator, int32_t peer, const void* data, int64_t bytes,
                 const WaitControl& control) {
  auto* bytes_to_send = static_cast<std::byte*>(const_cast<void*>(data));  // a send only reads
  return communicator.prepare({{Direction::kSend, peer, kHostChannel, bytes_to_send, bytes}})->run(control);
}

Status host_receive(Communicator& communicator, int32_t peer, void* data, int64_t bytes, const WaitControl& control) {
  return communicator.prepare({{Direction::kReceive, peer, kHostChannel, static_cast<std::byte*>(data), bytes}})
      ->run(control);
}

namespace {

Status send_string(Communicator& c, int32_t peer, const std::string& text, const WaitControl& control) {
  uint64_t size = text.size();
  PIPER_RETURN_IF_ERROR(host_send(c, peer, &size, sizeof size, control));
  return host_send(c, peer, text.data(), static_cast<int64_t>(size), control);
}

Result<std::string> receive_string(Communicator& c, int32_t peer, const WaitControl& control) {
  uint64_t size = 0;
  PIPER_RETURN_IF_ERROR(host_receive(c, peer, &size, sizeof size, control));
  std::string text(size, '\0');
  PIPER_RETURN_IF_ERROR(host_receive(c, peer, text.data(), static_cast<int64_t>(size), control));
  return text;
}

}  // namespace

Result<std::vector<std::string>> host_allgather(Communicator& communicator, const std::string& mine,
                                                const WaitControl& control) {
  const int32_t world = communicator.world_size();
  std::vector<std::string> all(static_cast<size_t>(world));
  if (communicator.rank() == 0) {
    all[0] = mine;
    for (int32_t r = 1; r < world; ++r) {
      PIPER_ASSIGN(all[static_cast<size_t>(r)], receive_string(communicator, r, control));
    }
    for (int32_t r = 1; r < world; ++r)
      for (const std::string& text : all) PIPER_RETURN_IF_ERROR(send_string(communicator, r, text, control));
    return all;
  }
  PIPER_RETURN_IF_ERROR(send_string(communicator, 0, mine, control));
  for (std::string& text : all) {
    PIPER_ASSIGN(text, receive_string(communicator, 0, control));
  }
  return all;
}

Status host_barrier(Communicator& communicator, const WaitControl& control) {
  return host_allgather(communicator, "", control).take_status();
}

}  // namespace piper::hal
