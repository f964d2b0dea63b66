// What piperd waits for: descriptors, times, and calls from other threads, all answered by one thread. Hides asio.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace asio {
class io_context;
}

namespace piper::launcher {

class EventLoop {
 public:
  using Callback = std::function<void()>;
  // Ends what it stands for when it is destroyed, also inside of its own call. Of the loop's thread.
  class Watch {
   public:
    virtual ~Watch() = default;
  };

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Each time `descriptor` can be read, or has ended. The watch does not own it, and ends before it is closed.
  std::unique_ptr<Watch> when_readable(int descriptor, Callback call);
  // Once.
  std::unique_ptr<Watch> after(std::chrono::milliseconds time, Callback call);
  // Any thread; what is still to be called when the loop ends is not.
  void post(Callback call);
  // Until end() is called.
  void run();
  void end();

  asio::io_context& context() { return *context_; }

 private:
  std::unique_ptr<asio::io_context> context_;
};

}  // namespace piper::launcher
