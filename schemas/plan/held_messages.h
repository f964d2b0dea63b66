// When bytes whose last access is a message may be taken again, so that no run waits for the message to have room: at
// the first run whose stream knows that it is through, or, as no instruction says when a message that no run waits for
// was sent, several runs later. The compiler places buffers by it (emit/lives.h), `piper-plan explain` shows what it
// costs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace piper::plan {

// So many runs later a message counts as sent, unless keeping its bytes so long costs too much.
constexpr int kMostPatience = 4;

// What a walk over the instructions of a rank, in issue order, holds back. `Message`: what the caller knows a buffer's
// last accesses by.
template <class Message>
class HeldMessages {
 public:
  explicit HeldMessages(int patience) : patience_(static_cast<size_t>(patience)) {}

  // Instruction `now` is the last to touch the bytes of `message`.
  void put(Message message, uint32_t now) { held_.push_back({std::move(message), now}); }
  // Instruction `now` is a run: calls ended(message) for each whose bytes it may take. `known(message)`: whether the
  // run's stream knows that all is through.
  template <class Known, class Ended>
  void at_run(uint32_t now, const Known& known, const Ended& ended) {
    runs_.push_back(now);
    const uint32_t sent = runs_.size() > patience_ ? runs_[runs_.size() - 1 - patience_] : 0;  // what is older is
    std::erase_if(held_, [&](const Held& held) {
      if (held.since >= sent && !known(held.message)) return false;
      ended(held.message);
      return true;
    });
  }

 private:
  struct Held {
    Message message;
    uint32_t since = 0;
  };
  size_t patience_;
  std::vector<uint32_t> runs_;  // in issue order
  std::vector<Held> held_;
};

}  // namespace piper::plan
