#include "runtime/checkpoint/choose_start.h"

#include <cstdio>
#include <random>
#include <sstream>

#include "schemas/checkpoint/find_checkpoint.h"

namespace piper::checkpoint {

namespace {

std::string new_run_id() {
  std::random_device source;
  char text[24];
  std::snprintf(text, sizeof text, "%08x%08x", source(), source());
  return text;
}

Result<Start> as_owner(const StartOptions& options, const std::function<void(const std::string&)>& note) {
  Start start;
  PIPER_ASSIGN(start.storage, open_storage(options.folder, true));
  start.writer.run = new_run_id();
  start.writer.keep = options.keep;
  PIPER_ASSIGN(const std::vector<int64_t> steps, list_steps(options.folder));
  if (!options.resume && !steps.empty())
    return Status::failure("R0704", options.folder +
                                        " holds checkpoints of an earlier run: give --resume to go on from there, or "
                                        "another folder");
  if (options.exact >= 0) {
    PIPER_ASSIGN(start.from, find_exact(options.folder, options.exact));
  } else if (options.resume) {
    PIPER_ASSIGN(start.from, find_newest_valid(options.folder, note));
  }
  if (start.from) {
    start.writer.parent = start.from->manifest().digest;
    if (options.exact < 0)
      for (const int64_t step : steps)
        if (step > start.from->manifest().step) start.writer.damaged.insert(step);
  }
  remove_leavings(*start.storage);
  return start;
}

// "run step digest", step -1 where the run begins; nothing after a failure.
std::string announcement(const Result<Start>& start) {
  if (!start.ok()) return {};
  const Start& chosen = *start.operator->();
  if (!chosen.from) return chosen.writer.run + " -1 -";
  return chosen.writer.run + " " + std::to_string(chosen.from->manifest().step) + " " + chosen.from->manifest().digest;
}

Result<Start> as_follower(const StartOptions& options, const std::string& announced) {
  Start start;
  if (announced.empty()) return start;
  std::istringstream in(announced);
  int64_t step = -1;
  std::string digest;
  in >> start.writer.run >> step >> digest;
  PIPER_ASSIGN(start.storage, open_storage(options.folder, false));
  if (step < 0) return start;
  PIPER_ASSIGN(start.from, OpenCheckpoint::open(options.folder + "/" + step_folder(step)));
  if (start.from->manifest().digest != digest)
    return Status::failure("R0705", start.from->path() + " is not the checkpoint that rank 0 reads: give every rank " +
                                        "the same folder, on a shared file system");
  return start;
}

}  // namespace

Result<Start> choose_start(const StartOptions& options, hal::ControlChannel* control, const hal::WaitControl& wait,
                           const std::function<void(const std::string&)>& note) {
  if (control == nullptr) return as_owner(options, note);
  const bool owner = control->rank() == 0;
  Result<Start> start = owner ? as_owner(options, note) : Result<Start>(Start{});
  PIPER_ASSIGN(const std::vector<std::string> all, control->allgather(owner ? announcement(start) : "", wait));
  return owner ? std::move(start) : as_follower(options, all.front());
}

}  // namespace piper::checkpoint
