#include "runtime/hal/link_delay.h"

#include <sys/prctl.h>

#include <algorithm>
#include <mutex>
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

// The backend may still write the time of an exchange that was given up: it stays as long as this.
class GivenUp {
 public:
  void keep(std::unique_ptr<Messages> messages) {
    std::lock_guard lock(mutex_);
    kept_.push_back(std::move(messages));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Messages>> kept_;
};

// Beside each message goes the time at which it was sent, on a channel of its own.
class DelayedExchange : public Exchange {
 public:
  DelayedExchange(Communicator& below, const LinkDelay& delay, GivenUp& given_up, std::vector<Transfer> transfers)
      : delay_(delay), given_up_(given_up), owned_(std::make_unique<Messages>()), messages_(*owned_) {
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

  ~DelayedExchange() override {
    below_.reset();
    if (failed_) given_up_.keep(std::move(owned_));
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
      failed_ = true;
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

  LinkDelay delay_;
  GivenUp& given_up_;
  std::unique_ptr<Messages> owned_;
  Messages& messages_;  // by transfer
  std::unique_ptr<Exchange> below_;
  bool failed_ = false;
};

class DelayedCommunicator : public Communicator {
 public:
  DelayedCommunicator(Communicator& below, const LinkDelay& delay) : below_(below), delay_(delay) {}
  int32_t rank() const override { return below_.rank(); }
  int32_t world_size() const override { return below_.world_size(); }
  std::unique_ptr<Exchange> prepare(std::vector<Transfer> transfers) override {
    return std::make_unique<DelayedExchange>(below_, delay_, given_up_, std::move(transfers));
  }
  int64_t buffer_bytes() const override { return below_.buffer_bytes(); }

 private:
  Communicator& below_;
  LinkDelay delay_;
  GivenUp given_up_;
};

}  // namespace

std::unique_ptr<Communicator> delay_links(Communicator& below, const LinkDelay& delay) {
  return std::make_unique<DelayedCommunicator>(below, delay);
}

}  // namespace piper::hal
