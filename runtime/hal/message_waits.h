// What a thread of a rank waits for inside of a command, shown to who watches the rank from outside: a collective is
// many messages, and where one does not come it is the rank it comes from that matters. Written by transports.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/hal/transport.h"

namespace piper::hal {

// For one thread: it alone calls this, and each call is a few stores.
class MessageWaits {
 public:
  virtual ~MessageWaits() = default;
  // The next exchange of the command begins. The members of a collective carry out the same exchanges in the same
  // order, so that their numbers say who is ahead.
  virtual void begin_exchange() = 0;
  // The exchange has posted all of its transfers, and waits, `transfer` not being complete. Said again when it waits
  // for another one, or still for this one.
  virtual void waits_for(const Transfer& transfer) = 0;
  virtual void end_exchange() = 0;
};

// An exchange as WaitControl::messages sees it.
class ExchangeScope {
 public:
  explicit ExchangeScope(const WaitControl& wait) : messages_(wait.messages) {
    if (messages_ != nullptr) messages_->begin_exchange();
  }
  ~ExchangeScope() {
    if (messages_ != nullptr) messages_->end_exchange();
  }
  ExchangeScope(const ExchangeScope&) = delete;
  ExchangeScope& operator=(const ExchangeScope&) = delete;

 private:
  MessageWaits* const messages_;
};

// Which transfers of an exchange are not complete: reported by the thread that completes them, asked by the one that
// waits.
class OpenTransfers {
 public:
  explicit OpenTransfers(size_t count) : open_(std::make_unique<std::atomic<bool>[]>(count)), count_(count) {}
  // Before they are posted.
  void open_all() {
    for (size_t t = 0; t < count_; ++t) open_[t].store(true, std::memory_order_relaxed);
  }
  void close(size_t transfer) { open_[transfer].store(false, std::memory_order_relaxed); }
  // The first one that is open, of `transfers`; nothing where all are complete.
  void tell(const std::vector<Transfer>& transfers, MessageWaits* messages) const {
    if (messages == nullptr) return;
    for (size_t t = 0; t < count_; ++t)
      if (open_[t].load(std::memory_order_relaxed)) return messages->waits_for(transfers[t]);
  }

 private:
  std::unique_ptr<std::atomic<bool>[]> open_;
  size_t count_;
};

}  // namespace piper::hal
