// Requests to the daemon of another node, one after the other, over HTTP with stamps (message_auth.h). Hides
// cpp-httplib; a thread of its own waits, so that the event loop never does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/cluster/message_auth.h"
#include "launcher/cluster/node_list.h"
#include "launcher/daemon/event_loop.h"

namespace piper::launcher {

struct PeerAnswer {
  std::optional<std::string> body;  // none: it did not answer, or not as who has the token does
  std::string why;
};

class PeerLink {
 public:
  using Answered = std::function<void(const PeerAnswer&)>;
  // The loop and the token outlive it.
  static std::unique_ptr<PeerLink> open(EventLoop& loop, const Token& token, const NodeAddress& node);
  virtual ~PeerLink() = default;
  // `answered` is called by the loop, unless the link is destroyed before.
  virtual void send(const std::string& path, std::string body, Answered answered) = 0;

  // For a connection, and for an answer: a node that says nothing for so long does not answer.
  static constexpr std::chrono::milliseconds kPatience{2000};
};

}  // namespace piper::launcher
