// The signals that piper-launch passes on, as something to wait for among other descriptors. One in a process.
#pragma once

#include <signal.h>

#include "schemas/base/status.h"

namespace piper::launcher {

class Signals {
 public:
  // From here on SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 and SIGQUIT wait to be taken, and a reader that has gone is
  // no signal. L0104: the system gives no descriptor.
  static Result<Signals> open();
  Signals(Signals&& other) noexcept : descriptor_(other.descriptor_), before_(other.before_) { other.descriptor_ = -1; }
  Signals& operator=(Signals&&) = delete;
  ~Signals();

  int descriptor() const { return descriptor_; }
  // The next signal, 0: none.
  int take();
  // What was blocked before: what a child begins with.
  const sigset_t& before() const { return before_; }

 private:
  Signals(int descriptor, const sigset_t& before) : descriptor_(descriptor), before_(before) {}

  int descriptor_;
  sigset_t before_;
};

}  // namespace piper::launcher
