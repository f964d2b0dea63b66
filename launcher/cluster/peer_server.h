// Where the daemons of other nodes are heard: HTTP on an address that the user has named. A request is read up to a
// bound, and believed when its stamp says that its sender has the token (message_auth.h); all else is answered by 403
// and reported on standard error. Hides cpp-httplib, whose threads ask the event loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/cluster/message_auth.h"
#include "launcher/daemon/event_loop.h"
#include "schemas/base/status.h"

namespace piper::launcher {

inline constexpr const char *kTimeHeader = "Piperd-Time", *kNonceHeader = "Piperd-Nonce",
                            *kStampHeader = "Piperd-Stamp";

class PeerServer {
 public:
  static constexpr size_t kLongestBody = size_t{2} << 20;

  // The answer to a request, made by the loop's thread; nothing where it is none.
  using Answer = std::function<std::optional<std::string>(const std::string& path, const std::string& body)>;
  // `name`: of this node. The loop and the token outlive it. L0136: the address cannot be had.
  static Result<std::unique_ptr<PeerServer>> open(EventLoop& loop, const Token& token, const std::string& name,
                                                  const std::string& host, uint16_t port, Answer answer);
  virtual ~PeerServer() = default;
};

}  // namespace piper::launcher
