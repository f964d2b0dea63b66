#include "runtime/program/signals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <initializer_list>

#include "runtime/data/guarded_read.h"
#include "runtime/hal/ucx/ucx_transport.h"
#include "runtime/program/exit_status.h"
#include "schemas/plan/mapped_names.h"

namespace piper::program {
namespace {

// A handler has no argument but the signal: the one place where what it sets is a global of the process.
std::atomic<hal::Stop*> signal_stop{nullptr};
std::atomic<exec::StopRequests*> signal_requests{nullptr};

// At once: lines of other threads would come between parts.
void write_to_stderr(std::initializer_list<const char*> parts) {
  std::array<char, 8192> line;  // no memory is allocated in a handler
  size_t length = 0;
  for (const char* const part : parts) {
    const size_t more = std::min(std::strlen(part), line.size() - length);
    std::memcpy(line.data() + length, part, more);
    length += more;
  }
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), length);
}

void handle(int signal_number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // no call of the run or of a library is cut short
  sigaction(signal_number, &action, nullptr);
}

// Who asks a second time has waited enough.
void let_the_next_one_end_it() {
  handle(SIGINT, SIG_DFL);
  handle(SIGTERM, SIG_DFL);
}

void end_at_once(int signal_number) {
  if (hal::Stop* stop = signal_stop.load()) stop->raise_signal(signal_number);
}

void on_interrupt(int signal_number) {
  let_the_next_one_end_it();
  end_at_once(signal_number);
}

void ask_to_stop(exec::StopRequests& requests, int signal_number) {
  int none = 0;
  requests.stop.compare_exchange_strong(none, signal_number);
}

void on_terminate(int signal_number) {
  let_the_next_one_end_it();
  exec::StopRequests* const requests = signal_requests.load();
  if (requests == nullptr || !requests->checkpoints || !requests->stepping) return end_at_once(signal_number);
  ask_to_stop(*requests, signal_number);
  const unsigned grace_s = requests->grace_s;
  const bool soon = requests->by_threads && !requests->agreed;
  alarm(soon ? std::min(exec::kAgreeSeconds, grace_s) : grace_s);
  // The thread that agrees meanwhile may have looked for an alarm before there was one.
  if (soon && requests->agreed) alarm(grace_s);
}

void on_end_of_grace(int) { end_at_once(SIGTERM); }

void on_user_1(int signal_number) {
  exec::StopRequests* const requests = signal_requests.load();
  if (requests == nullptr || !requests->checkpoints) return end_at_once(signal_number);
  ask_to_stop(*requests, signal_number);
}

void on_user_2(int) {
  exec::StopRequests* const requests = signal_requests.load();
  if (requests != nullptr && requests->checkpoints) ++requests->saves;
  else write_to_stderr({"piper-run: SIGUSR2 saves nothing without --checkpoint\n"});
}

// Bytes of a mapped file that are gone: the kernel raises SIGBUS where they are read, and no code can go on there. The
// address says which file it was.
// Ranks of one process meet them at the same time: the first one reports and ends the process, the others wait for
// that.
std::atomic_flag bus_error_told;

void on_bus_error(int, siginfo_t* info, void*) {
  data::leave_guarded_read();
  while (bus_error_told.test_and_set()) pause();
  if (const char* file = plan::mapped_name(info->si_addr)) {
    write_to_stderr({"piper-run: error[R0209]: '", file,
                     "' was truncated while the run read it; everything that was not saved before is lost\n"});
  } else {
    write_to_stderr(
        {"piper-run: error: a bus error outside of the files that the run reads: a full /dev/shm, which MPI and UCX "
         "use, or memory that fails; what was not saved before is lost\n"});
  }
  _exit(kFailed);
}

}  // namespace

SignalHandlers::SignalHandlers(hal::Stop& stop, exec::StopRequests& requests) {
  hal::UcxTransport::leave_signals_alone();
  signal_stop = &stop;
  signal_requests = &requests;
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_terminate);
  handle(SIGALRM, on_end_of_grace);
  handle(SIGUSR1, on_user_1);
  handle(SIGUSR2, on_user_2);
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

SignalHandlers::~SignalHandlers() {
  alarm(0);
  signal_stop = nullptr;
  signal_requests = nullptr;
}

const char* signal_name(int signal_number) {
  switch (signal_number) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    case SIGUSR2: return "SIGUSR2";
    default: return "a signal";
  }
}

}  // namespace piper::program
