// A free port of this machine, on loopback or for other nodes, too, that rank 0 takes over already listening: nobody
// else can take it between its choice and its use.
#pragma once

#include <cstdint>

#include "schemas/base/status.h"

namespace piper::launcher {

class StoreSocket {
 public:
  enum class Reach : uint8_t { kLoopback, kAllInterfaces };
  // L0104: the system gives none.
  static Result<StoreSocket> open(Reach reach);
  StoreSocket(StoreSocket&& other) noexcept : descriptor_(other.descriptor_), port_(other.port_) {
    other.descriptor_ = -1;
  }
  StoreSocket& operator=(StoreSocket&&) = delete;
  ~StoreSocket();

  int descriptor() const { return descriptor_; }
  uint16_t port() const { return port_; }

 private:
  StoreSocket(int descriptor, uint16_t port) : descriptor_(descriptor), port_(port) {}

  int descriptor_;
  uint16_t port_;
};

}  // namespace piper::launcher
