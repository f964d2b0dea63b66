#include "runtime/hal/link_delay.h"

#include <sys/prctl.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "schemas/base/check.h"
#include "schemas/plan/link_port.h"

namespace piper::hal {

namespace {

using Clock = std::chrono::system_clock;  // the one clock that machines can agree on

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

// What goes beside a message, on a channel of its own.
struct Sent {
  int64_t at_ns = 0;    // when it was sent
  int64_t left_ns = 0;  // how much later the last of it was out of the sender's port
};
struct Message {
  bool received = false;
  int64_t bytes = 0;  // -1: not delayed
  Sent sent = {};
};
using Messages = std::vector<Message>;

// One way through a rank's port, for all of its threads.
class Port {
 public:
  int64_t take(int64_t earliest_ns, int64_t length_ns) {
    const std::lock_guard<std::mutex> lock(mutex_);
    port_.forget(now_ns() - kKeptNs);
    return port_.take(earliest_ns, length_ns);
  }

 private:
  static constexpr int64_t kKeptNs = 10'000'000'000;  // a receiver that comes later finds its port free
  std::mutex mutex_;
  plan::LinkPort<int64_t> port_;
};

struct Ports {
  Port out, in;
};

class DelayedExchange : public Exchange {
 public:
  DelayedExchange(Transport& below, const LinkDelay& delay, Ports& ports, std::vector<Transfer> transfers)
      : transport_(below), delay_(delay), ports_(ports), owned_(std::make_shared<Messages>()), messages_(*owned_) {
    for (const Transfer& t : transfers) {
      PIPER_CHECK(t.channel == kHostChannel || t.channel < kPlanChannels + kGroupChannels, "channel ", t.channel,
                  " of a delayed message");
      messages_.push_back({t.direction == Direction::kReceive, t.channel == kHostChannel ? -1 : t.bytes});
    }
    const size_t count = transfers.size();
    for (size_t i = 0; i < count; ++i) {
      if (messages_[i].bytes < 0) continue;
      Transfer time = transfers[i];
      time.channel += kTimeChannels;
      time.data = reinterpret_cast<std::byte*>(&messages_[i].sent);
      time.bytes = sizeof messages_[i].sent;
      transfers.push_back(time);
    }
    below_ = below.prepare(std::move(transfers));
  }

  void resize(size_t transfer, int64_t bytes) override {
    if (messages_.at(transfer).bytes >= 0) messages_[transfer].bytes = bytes;
    below_->resize(transfer, bytes);
  }

  Status run(const WaitControl& control) override {
    const int64_t now = now_ns();
    const Sent sent{now, ports_.out.take(now, in_port_ns(false)) - now};
    for (Message& message : messages_)
      if (!message.received) message.sent = sent;
    if (Status status = below_->run(control); !status.ok()) {
      transport_.keep(owned_);
      return status;
    }
    return wait_until(arrival_ns(), control);
  }

 private:
  // How long its messages of one direction take in the rank's port.
  int64_t in_port_ns(bool received) const {
    if (delay_.bytes_per_second <= 0) return 0;
    int64_t bytes = 0;
    for (const Message& message : messages_)
      if (message.received == received) bytes += std::max<int64_t>(message.bytes, 0);
    return static_cast<int64_t>(1e9 * static_cast<double>(bytes) / static_cast<double>(delay_.bytes_per_second));
  }

  // When the last of what it receives is there; 0: nothing of it is delayed.
  int64_t arrival_ns() const {
    const int64_t here = now_ns();
    int64_t last = 0;
    for (const Message& message : messages_)
      if (message.received && message.bytes >= 0)
        last = std::max(last, std::min(message.sent.at_ns, here) + message.sent.left_ns);
    if (last == 0) return 0;
    const int64_t length = in_port_ns(true);
    return ports_.in.take(last + std::chrono::nanoseconds(delay_.latency).count() - length, length);
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
  Ports& ports_;
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
    return std::make_unique<DelayedExchange>(below_, delay_, ports_, std::move(transfers));
  }
  int64_t buffer_bytes() const override { return below_.buffer_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { below_.keep(std::move(memory)); }

 private:
  Transport& below_;
  LinkDelay delay_;
  Ports ports_;
};

}  // namespace

std::unique_ptr<Transport> delay_links(Transport& below, const LinkDelay& delay) {
  return std::make_unique<DelayedTransport>(below, delay);
}

}  // namespace piper::hal
