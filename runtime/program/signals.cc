#include "runtime/program/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "runtime/data/guarded_read.h"
#include "runtime/hal/ucx/ucx_transport.h"
#include "runtime/program/exit_status.h"
#include "schemas/plan/mapped_names.h"

namespace piper::program {
namespace {

// The handler has no argument but the signal: the one place where the process's Stop is a global.
std::atomic<hal::Stop*> signal_stop{nullptr};

void on_signal(int signal_number) {
  if (hal::Stop* stop = signal_stop.load()) stop->raise_signal(signal_number);
}

// Bytes of a mapped file that are gone: the kernel raises SIGBUS where they are read, and no code can go on there. The
// address tells which file it was.
// Ranks of one process meet them at the same time: the first one tells and ends the process, the others wait for that.
std::atomic_flag bus_error_told;

void write_to_stderr(const char* text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

void on_bus_error(int, siginfo_t* info, void*) {
  data::leave_guarded_read();
  while (bus_error_told.test_and_set()) pause();
  if (const char* file = plan::mapped_name(info->si_addr)) {
    write_to_stderr("piper-run: error[R0209]: '");
    write_to_stderr(file);
    write_to_stderr("' was cut while the run read it; what was not saved before is lost\n");
  } else {
    write_to_stderr(
        "piper-run: error: a bus error outside of the files that the run reads: a full /dev/shm, which MPI and UCX "
        "use, or "
        "memory that fails; what was not saved before is lost\n");
  }
  _exit(kFailed);
}

}  // namespace

SignalHandlers::SignalHandlers(hal::Stop& stop) {
  hal::UcxTransport::leave_signals_alone();
  signal_stop = &stop;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second signal ends the process at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

SignalHandlers::~SignalHandlers() { signal_stop = nullptr; }

}  // namespace piper::program
