#include "runtime/program/outcome.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "runtime/program/exit_status.h"
#include "runtime/program/signals.h"

namespace piper::program {

namespace {

void tell_stop(const exec::Session& session, int signal_number) {
  std::fprintf(stderr, "piper-run: stopped by %s after step %lld of %lld; %s\n", signal_name(signal_number),
               static_cast<long long>(session.steps_done.load()), static_cast<long long>(session.options.steps),
               session.committed == 0
                   ? "nothing was saved"
                   : ("the newest checkpoint is of step " + std::to_string(session.committed)).c_str());
}

// P0604 to P0611: what a file of a bundle says cannot be.
bool is_damaged_bundle(const std::string& code) { return code >= "P0604" && code <= "P0611"; }

}  // namespace

int signal_status(const exec::Session& session) {
  return session.stop.signal_number() == SIGINT ? kFailed : kTerminated;
}

void print_error(const Error& error) {
  if (error.reported) return;
  const std::string code = error.code.empty() ? "" : "[" + error.code + "]";
  std::fprintf(stderr, "piper-run: error%s: %s\n", code.c_str(), error.message.c_str());
  if (is_damaged_bundle(error.code))
    std::fprintf(stderr, "help: compile it again: piperc MODEL --strategy FILE -o DIR\n");
}

Result<int> all_ready(const Status& mine, hal::ControlChannel& control, const hal::WaitControl& wait) {
  const std::string text = mine.ok() ? "" : mine.error().code + "\n" + mine.error().message;
  PIPER_ASSIGN(const std::vector<std::string> all, control.allgather(text, hal::for_files(wait)));
  const auto failed = std::find_if(all.begin(), all.end(), [](const std::string& t) { return !t.empty(); });
  if (failed == all.end()) return 0;
  if (control.rank() == 0) {
    const size_t end = failed->find('\n');
    // What refutes the bundle, P063x, concerns all ranks, though one of them has found it.
    const bool everywhere = failed->compare(0, 4, "P063") == 0 ||
                            std::all_of(all.begin(), all.end(), [&](const std::string& t) { return t == *failed; });
    print_error({failed->substr(0, end),
                 (everywhere ? "" : "rank " + std::to_string(failed - all.begin()) + ": ") + failed->substr(end + 1),
                 false});
  }
  return exit_of(failed->substr(0, failed->find('\n')), kRefused);
}

int conclude(exec::Session& session, const Status& failure, bool quiet) {
  if (!failure.ok()) {
    if (!quiet) print_error(failure.error());
    return exit_of(failure.error().code, session.started ? kFailed : kRefused);
  }
  if (const int signal_number = session.stop.signal_number(); signal_number != 0) {
    if (!quiet) tell_stop(session, signal_number);
    return signal_status(session);
  }
  if (!session.verdict.ok()) {
    if (!quiet) print_error(session.verdict.error());
    return exit_of(session.verdict.error().code, kFailed);
  }
  if (!session.log_failure.ok()) {
    const Error& log = session.log_failure.error();
    print_error(
        {log.code, log.message + "; the log is incomplete, the training is not: what was to be saved is saved", false});
  }
  if (session.stopped) {
    if (!quiet) tell_stop(session, session.stopping->signal_number());
    return kStopped;
  }
  return session.log_failure.ok() ? kDone : kFailed;
}

}  // namespace piper::program
