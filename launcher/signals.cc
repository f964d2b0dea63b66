#include "launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace piper::launcher {

Result<Signals> Signals::open() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // the write fails
  sigset_t taken, before;
  sigemptyset(&taken);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT}) sigaddset(&taken, number);
  sigprocmask(SIG_BLOCK, &taken, &before);
  const int descriptor = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0)
    return Status::failure("L0104", std::string("no descriptor for signals: ") + std::strerror(errno));
  return Signals(descriptor, before);
}

Signals::~Signals() {
  if (descriptor_ >= 0) close(descriptor_);
}

int Signals::take() {
  signalfd_siginfo info{};
  const ssize_t count = read(descriptor_, &info, sizeof info);
  return count == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace piper::launcher
