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

// What the first process says to the others: "check STEP DIGEST", any number of times, then "from STEP DIGEST RUN", or
// "begin RUN"; nothing after a failure, which it reports itself.
struct Announcement {
  std::string what, digest, run;
  int64_t step = -1;
};

std::string print(const Announcement& a) {
  if (a.what == "begin") return a.what + " " + a.run;
  return a.what + " " + std::to_string(a.step) + " " + a.digest + " " + a.run;
}

Announcement parse_announcement(const std::string& text) {
  Announcement a;
  std::istringstream in(text);
  in >> a.what;
  if (a.what != "begin") in >> a.step >> a.digest;
  in >> a.run;
  return a;
}

// The processes of a run, which share the reading of the checkpoint that it goes on from.
class Processes {
 public:
  Processes(hal::ControlChannel* control, const hal::WaitControl& wait)
      : control_(control), wait_(hal::for_files(wait)) {}

  // By the first one. Nothing more is reported after a failure of the channel.
  Status announce(const Announcement& announcement) { return tell(print(announcement)); }
  Status announce_failure() { return tell(""); }
  // By the others. Nothing: the first process has failed.
  Result<std::optional<Announcement>> hear() {
    PIPER_ASSIGN(const std::vector<std::string> all, control_->allgather("", wait_));
    return all.front().empty() ? std::nullopt : std::optional(parse_announcement(all.front()));
  }

  // By all of them, `opened` what each has opened: R0705 on all where a file that one of them checks is damaged.
  Status check(const Result<OpenCheckpoint>& opened) {
    Status mine = opened.ok() ? opened->check_part(index(), count()) : Status(opened.error());
    if (control_ == nullptr) return mine;
    auto all = control_->allgather(mine.ok() ? "" : mine.error().message, wait_);
    if (!all.ok()) {
      lost_ = all.take_status();
      return lost();
    }
    for (const std::string& found : *all)
      if (!found.empty()) return Status::failure("R0705", found);
    return {};
  }
  // By the first one, of a checkpoint that the others are to open.
  Status announce_and_check(const OpenCheckpoint& checkpoint) {
    PIPER_RETURN_IF_ERROR(announce({"check", checkpoint.manifest().digest, "", checkpoint.manifest().step}));
    return check(checkpoint);
  }
  // The channel's failure: whatever was found without the others means nothing.
  Status lost() const { return lost_.ok() ? Status() : Status(lost_.error()); }

 private:
  size_t index() const { return control_ == nullptr ? 0 : static_cast<size_t>(control_->rank()); }
  size_t count() const { return control_ == nullptr ? 1 : static_cast<size_t>(control_->world_size()); }
  Status tell(const std::string& text) {
    if (!lost_.ok()) return lost();
    if (control_ == nullptr) return {};
    auto met = control_->allgather(text, wait_);
    if (!met.ok()) lost_ = met.take_status();
    return lost();
  }

  hal::ControlChannel* control_;
  hal::WaitControl wait_;
  Status lost_;
};

Result<Start> as_owner(const StartOptions& options, const std::function<void(const std::string&)>& note,
                       Processes& processes) {
  Start start;
  PIPER_ASSIGN(start.storage, open_storage(options.folder, true));
  start.writer.run = new_run_id();
  start.writer.keep = options.keep;
  clear_leavings(*start.storage);
  PIPER_ASSIGN(const std::vector<int64_t> steps, list_steps(options.folder));
  if (!options.resume && !steps.empty())
    return Status::failure("R0704",
                           options.folder +
                               " holds checkpoints of an earlier run: give --resume to continue from there, or "
                               "another folder");
  const auto check = [&processes](const OpenCheckpoint& checkpoint) {
    return processes.announce_and_check(checkpoint);
  };
  if (options.exact >= 0) {
    PIPER_ASSIGN(start.from, find_exact(options.folder, options.exact, check));
  } else if (options.resume) {
    PIPER_ASSIGN(start.from, find_newest_valid(options.folder, note, check));
  }
  if (start.from) {
    start.writer.parent = start.from->manifest().digest;
    start.writer.from = start.from->manifest().step;
    if (options.exact < 0)
      for (const int64_t step : steps)
        if (step > start.writer.from) start.writer.damaged.insert(step);
  }
  return start;
}

// Another machine may have another folder under the same name.
Result<OpenCheckpoint> open_announced(const std::string& folder, const Announcement& announced) {
  PIPER_ASSIGN(OpenCheckpoint checkpoint, OpenCheckpoint::open(folder + "/" + step_folder(announced.step)));
  if (checkpoint.manifest().digest == announced.digest) return checkpoint;
  return Status::failure("R0705", checkpoint.path() +
                                      " is not the checkpoint that rank 0 reads: give every rank the "
                                      "same folder, on a shared file system");
}

Result<Start> as_follower(const StartOptions& options, Processes& processes) {
  Start start;
  for (;;) {
    PIPER_ASSIGN(const std::optional<Announcement> heard, processes.hear());
    if (!heard) return start;
    start.writer.run = heard->run;
    if (heard->what == "check") {
      (void)processes.check(open_announced(options.folder, *heard));  // the first process says what is wrong
      PIPER_RETURN_IF_ERROR(processes.lost());
      continue;
    }
    PIPER_ASSIGN(start.storage, open_storage(options.folder, false));
    if (heard->what == "from") {
      PIPER_ASSIGN(start.from, open_announced(options.folder, *heard));
    }
    return start;
  }
}

}  // namespace

Result<Start> choose_start(const StartOptions& options, hal::ControlChannel* control, const hal::WaitControl& wait,
                           const std::function<void(const std::string&)>& note) {
  Processes processes(control, wait);
  if (control != nullptr && control->rank() != 0) return as_follower(options, processes);
  Result<Start> start = as_owner(options, note, processes);
  if (!start.ok()) {
    (void)processes.announce_failure();
  } else if (start->from) {
    const Manifest& from = start->from->manifest();
    (void)processes.announce({"from", from.digest, start->writer.run, from.step});
  } else {
    (void)processes.announce({"begin", "", start->writer.run, -1});
  }
  PIPER_RETURN_IF_ERROR(processes.lost());
  return start;
}

}  // namespace piper::checkpoint
