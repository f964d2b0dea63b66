#include "launcher/daemon/event_loop.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace piper::launcher {

namespace {

// Both are shared with the call that is under way, which finds out whether the watch has ended meanwhile.
struct Readable : std::enable_shared_from_this<Readable> {
  Readable(asio::io_context& context, int fd, EventLoop::Callback callback)
      : descriptor(context, fd), call(std::move(callback)) {}

  void wait() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](const asio::error_code& error) {
                            if (error || self->ended) return;
                            self->call();
                            if (!self->ended) self->wait();
                          });
  }
  void end() {
    ended = true;
    descriptor.release();
  }

  asio::posix::stream_descriptor descriptor;
  EventLoop::Callback call;
  bool ended = false;
};

class ReadableWatch : public EventLoop::Watch {
 public:
  explicit ReadableWatch(std::shared_ptr<Readable> state) : state_(std::move(state)) {}
  ~ReadableWatch() override { state_->end(); }

 private:
  std::shared_ptr<Readable> state_;
};

class TimeWatch : public EventLoop::Watch {
 public:
  TimeWatch(asio::io_context& context, std::chrono::milliseconds time, EventLoop::Callback call)
      : ended_(std::make_shared<bool>(false)), timer_(context, time) {
    timer_.async_wait([ended = ended_, call = std::move(call)](const asio::error_code& error) {
      if (!error && !*ended) call();
    });
  }
  ~TimeWatch() override { *ended_ = true; }

 private:
  std::shared_ptr<bool> ended_;
  asio::steady_timer timer_;
};

}  // namespace

EventLoop::EventLoop() : context_(std::make_unique<asio::io_context>(1)) {}
EventLoop::~EventLoop() = default;

std::unique_ptr<EventLoop::Watch> EventLoop::when_readable(int descriptor, Callback call) {
  auto state = std::make_shared<Readable>(*context_, descriptor, std::move(call));
  state->wait();
  return std::make_unique<ReadableWatch>(std::move(state));
}

std::unique_ptr<EventLoop::Watch> EventLoop::after(std::chrono::milliseconds time, Callback call) {
  return std::make_unique<TimeWatch>(*context_, time, std::move(call));
}

void EventLoop::post(Callback call) { asio::post(*context_, std::move(call)); }

void EventLoop::run() {
  const auto work = asio::make_work_guard(*context_);
  context_->run();
}

void EventLoop::end() { context_->stop(); }

}  // namespace piper::launcher
