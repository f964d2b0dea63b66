// The in-process transport: the ranks are threads of one process. A message is one copy from the
// sender's buffer to the receiver's, done by whoever comes second; nothing is staged.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "runtime/hal/transport.h"

namespace piper::hal {

// What the ranks share. Must outlive their transports and exchanges.
class LocalWorld {
 public:
  explicit LocalWorld(int32_t world_size);
  ~LocalWorld();
  // The transport of one rank; each rank takes its own.
  std::unique_ptr<Transport> transport(int32_t rank);

  struct Mailbox;
  struct Request;  // a message that one end has asked for
  // Created on first use; the address stays.
  Mailbox* mailbox(int32_t source, int32_t destination, int32_t channel);

 private:
  int32_t world_size_;
  std::mutex mutex_;
  std::map<std::tuple<int32_t, int32_t, int32_t>, std::unique_ptr<Mailbox>> mailboxes_;
};

}  // namespace piper::hal
