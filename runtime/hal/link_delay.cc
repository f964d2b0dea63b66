#include "runtime/hal/link_delay.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

#include "schemas/base/check.h"

namespace piper::hal {

namespace {

using Clock = std::chrono::system_clock;  // the one clock that machines can agree on

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

struct Message {
  bool received = false;
  int64_t bytes = 0;  // -1: not delayed
  int64_t sent_ns = 0;
};
using Messages = std::vector<Message>;

// Beside each message goes the time at which it was sent, on a channel of its own.
class DelayedExchange : public Exchange {
 public:
  DelayedExchange(Transport& below, const LinkDelay& delay, std::vector<Transfer> transfers)
      : transport_(below), delay_(delay), owned_(std::make_shared<Messages>()), messages_(*owned_) {
    for (const Transfer& t : transfers) {
      PIPER_CHECK(t.channel == kHostChannel || t.channel < kPlanChannels + kGroupChannels, "channel ", t.channel,
                  " of a delayed message");
      messages_.push_back({t.direction == Direction::kReceive, t.channel == kHostChannel ? -1 : t.bytes, 0});
    }
    const size_t count = transfers.size();
    for (size_t i = 0; i < count; ++i) {
      if (messages_[i].bytes < 0) continue;
      Transfer time = transfers[i];
      time.channel += kTimeChannels;
      time.data = reinterpret_cast<std::byte*>(&messages_[i].sent_ns);
      time.bytes = sizeof messages_[i].sent_ns;
      transfers.push_back(time);
    }
    below_ = below.prepare(std::move(transfers));
  }

  void resize(size_t transfer, int64_t bytes) override {
    if (messages_.at(transfer).bytes >= 0) messages_[transfer].bytes = bytes;
    below_->resize(transfer, bytes);
  }

  Status run(const WaitControl& control) override {
    const int64_t sent = now_ns();
    for (Message& message : messages_)
      if (!message.received) message.sent_ns = sent;
    if (Status status = below_->run(control); !status.ok()) {
      transport_.keep(owned_);
      return status;
    }
    const int64_t here = now_ns();
    int64_t arrival = 0;
    for (const Message& message : messages_)
      if (message.received && message.bytes >= 0)
        arrival = std::max(arrival, std::min(message.sent_ns, here) + travel_ns(message.bytes));
    return wait_until(arrival, control);
  }

 private:
  int64_t travel_ns(int64_t bytes) const {
    const double transmission =
        delay_.bytes_per_second > 0 ? static_cast<double>(bytes) / static_cast<double>(delay_.bytes_per_second) : 0;
    return std::chrono::nanoseconds(delay_.latency).count() + static_cast<int64_t>(transmission * 1e9);
  }

  static Status wait_until(int64_t arrival, const WaitControl& control) {
    constexpr int64_t kSliceNs = 20'000'000;                // how late a Stop may be noticed
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // short sleeps are short
    for (int64_t now = now_ns(); now < arrival; now = now_ns()) {
      if (control.stop != nullptr && control.stop->raised()) return stopped();
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(arrival - now, kSliceNs)));
    }
    return {};
  }

  static constexpr int32_t kTimeChannels = kHostChannel + kPlanChannels + kGroupChannels;
  static_assert(kTimeChannels + kPlanChannels + kGroupChannels <= kChannels);

  Transport& transport_;
  LinkDelay delay_;
  std::shared_ptr<Messages> owned_;
  Messages& messages_;  // by transfer
  std::unique_ptr<Exchange> below_;
};

class DelayedTransport : public Transport {
 public:
  DelayedTransport(Transport& below, const LinkDelay& delay) : below_(below), delay_(delay) {}
  int32_t rank() const override { return below_.rank(); }
  int32_t world_size() const override { return below_.world_size(); }
  std::unique_ptr<Exchange> prepare(std::vector<Transfer> transfers) override {
    return std::make_unique<DelayedExchange>(below_, delay_, std::move(transfers));
  }
  int64_t buffer_bytes() const override { return below_.buffer_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { below_.keep(std::move(memory)); }

 private:
  Transport& below_;
  LinkDelay delay_;
};

}  // namespace

std::unique_ptr<Transport> delay_links(Transport& below, const LinkDelay& delay) {
  return std::make_unique<DelayedTransport>(below, delay);
}

}  // namespace piper::hal
