// /healthz and /metrics, to be read by programs of this machine: GET alone, on 127.0.0.1, with bounds on what is read
// and how long. Hides cpp-httplib, whose threads ask the event loop and answer 503 where that does not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/daemon/event_loop.h"
#include "schemas/base/status.h"

namespace piper::launcher {

class HttpServer {
 public:
  struct Pages {                             // called by the loop
    std::function<std::string()> unhealthy;  // why; "": all is well
    std::function<std::string()> metrics;
  };
  // `port` 0: a free one. `loop` outlives it. L0136: the port is taken.
  static Result<std::unique_ptr<HttpServer>> open(EventLoop& loop, uint16_t port, Pages pages);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
};

}  // namespace piper::launcher
