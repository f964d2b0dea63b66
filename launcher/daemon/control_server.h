// The Unix socket over which piper-launch talks to piperd: one line in, one line out, and the connection ends. Only
// programs of the daemon's own user are heard.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/daemon/event_loop.h"
#include "schemas/base/status.h"

namespace piper::launcher {

class ControlServer {
 public:
  static constexpr size_t kLongestRequest = size_t{1} << 20;
  static constexpr int kMostConnections = 32;           // at a time; others wait
  static constexpr std::chrono::seconds kPatience{10};  // for a whole request, and for its answer to be taken

  // A line, without its end, and what to answer.
  using Answer = std::function<std::string(const std::string& request)>;
  // Listens on `path`, which it takes over, until it is destroyed. `loop` outlives it. L0133: the socket cannot be
  // made.
  static Result<std::unique_ptr<ControlServer>> open(EventLoop& loop, const std::string& path, Answer answer);
  virtual ~ControlServer() = default;
};

}  // namespace piper::launcher
