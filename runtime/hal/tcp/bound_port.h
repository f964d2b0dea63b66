// A TCP port of this machine, bound and listened on but not yet served: what the store's server takes over. LibTorch's
// own way binds every interface; this one can stay on loopback, and says whether the port is somebody else's. No bytes
// pass here.
#pragma once

#include <cstdint>

#include "schemas/base/status.h"

namespace piper::hal {

class BoundPort {
 public:
  enum class Reach : uint8_t {
    kLoopback,       // processes of this machine
    kAllInterfaces,  // every machine that has a way to this one; only where a run has several nodes
  };
  // `port` 0: any free one. R0107: the port is taken. R0303: it cannot be bound for another reason.
  static Result<BoundPort> bind(uint16_t port, Reach reach);
  // A socket that the process was started with. R0303: it does not listen.
  static Result<BoundPort> inherit(int socket);

  BoundPort(BoundPort&& other) noexcept : socket_(other.release()), port_(other.port_) {}
  BoundPort& operator=(BoundPort&&) = delete;
  ~BoundPort();

  uint16_t port() const { return port_; }
  // The socket, which the caller closes from now on.
  int release();

 private:
  BoundPort(int socket, uint16_t port) : socket_(socket), port_(port) {}

  int socket_ = -1;
  uint16_t port_ = 0;
};

}  // namespace piper::hal
