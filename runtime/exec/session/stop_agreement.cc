#include "runtime/exec/session/stop_agreement.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <sstream>

namespace piper::exec {

namespace {

// How soon a rank that is held back hears of a failure elsewhere.
constexpr std::chrono::milliseconds kLook{20};
// Processes meet for as long as the run lasts; a failure wakes them.
constexpr std::chrono::hours kPatience{24};

}  // namespace

StopAgreement::StopAgreement(hal::ControlChannel* control, hal::Stop& stop, StopRequests& requests,
                             std::chrono::milliseconds period)
    : control_(control), stop_(stop), requests_(requests), period_(period) {
  requests_.by_threads = control_ != nullptr;
  if (control_ != nullptr) thread_ = std::thread([this] { work(); });
}

StopAgreement::~StopAgreement() { (void)end(); }

Status StopAgreement::end() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  return failure_.ok() || hal::is_stopped(failure_) ? Status() : Status(failure_.error());
}

int StopAgreement::signal_number() {
  std::lock_guard lock(mutex_);
  return stopped_by_;
}

bool StopAgreement::asked(const Told& one) { return one.save || one.stop != 0 || one.replay; }

void StopAgreement::tell_step_time(int32_t rank, double ms) {
  std::lock_guard lock(mutex_);
  step_ms_[rank] = ms;
}

std::map<int32_t, double> StopAgreement::step_times_ms() {
  std::lock_guard lock(mutex_);
  return step_ms_;
}

StopAgreement::Told StopAgreement::told() {
  Told mine;
  mine.ended = ended_;
  mine.save = requests_.saves > saves_;
  mine.replay = requests_.replay && !replays_;
  mine.writing = requests_.writing > 0;
  mine.stop = stopped_by_ == 0 ? requests_.stop.load() : 0;
  mine.begun = begun_;
  mine.write_ms = write_ms_;
  if (control_ != nullptr) mine.step_ms = step_ms_[control_->rank()];
  return mine;
}

Result<StopAction> StopAgreement::after(int64_t step, double write_s) {
  std::unique_lock lock(mutex_);
  write_ms_ = static_cast<int64_t>(write_s * 1e3);
  if (begun_ < 0) requests_.stepping = true;
  if (control_ == nullptr && !stop_.raised()) {
    const int64_t saves = requests_.saves;
    if (const Told mine = told(); asked(mine)) decide(begun_ >= step ? begun_ : step + 1, {mine}, saves);
  }
  while (step + 1 > limit_ && failure_.ok() && !stop_.raised()) changed_.wait_for(lock, kLook);
  if (!failure_.ok() && !hal::is_stopped(failure_)) return Status(failure_.error());
  if (stop_.raised()) return hal::stopped();
  const auto found = agreed_.find(step);
  const StopAction action = found == agreed_.end() ? StopAction::kGoOn : found->second;
  if (action < StopAction::kStop) begun_ = std::max(begun_, step + 1);
  return action;
}

Result<std::vector<StopAgreement::Told>> StopAgreement::tell(const Told& mine) {
  std::ostringstream text;
  text << mine.ended << ' ' << mine.save << ' ' << mine.replay << ' ' << mine.writing << ' ' << mine.stop << ' '
       << mine.begun << ' ' << mine.write_ms << ' ' << mine.step_ms;
  PIPER_ASSIGN(const std::vector<std::string> texts, control_->allgather(text.str(), {&stop_, kPatience}));
  std::vector<Told> all;
  for (const std::string& one : texts) {
    std::istringstream in(one);
    Told& of = all.emplace_back();
    in >> of.ended >> of.save >> of.replay >> of.writing >> of.stop >> of.begun >> of.write_ms >> of.step_ms;
  }
  return all;
}

// The same on every process, whatever each was asked for: all see the same `all`. `saves`: of requests_, as sent.
void StopAgreement::decide(int64_t step, const std::vector<Told>& all, int64_t saves) {
  int by = 0;
  int64_t write_ms = 0;
  bool save = false, replay = false, writing = false;
  for (const Told& one : all) {
    if (by == 0) by = one.stop;
    writing = writing || one.writing;
    save = save || one.save;
    replay = replay || one.replay;
    write_ms = std::max(write_ms, one.write_ms);
  }
  if (by == 0 && !save && !replay) return;
  saves_ = saves;
  StopAction& action = agreed_[step];
  if (replay) {
    replays_ = true;
    // A rank may have seen already that the run ends there. A NaN is looked for after that step in any case.
    if (action < StopAction::kStop) action = StopAction::kReplay;
    return;
  }
  const int64_t grace_s = requests_.grace_s;
  const bool no_time = by == SIGTERM && write_ms > grace_s * 1000;
  if (no_time && (control_ == nullptr || control_->rank() == 0))
    std::fprintf(stderr,
                 "piper-run: the last checkpoint took %.1f s to write, longer than the --grace of %lld s: none is "
                 "saved%s\n",
                 static_cast<double>(write_ms) / 1e3, static_cast<long long>(grace_s),
                 writing ? " after the one that is being written" : "");
  if (no_time && !writing) return stop_.raise_signal(SIGTERM);
  action = std::max(action, no_time ? StopAction::kLeave : by != 0 ? StopAction::kStop : StopAction::kSave);
  if (by == 0) return;
  stopped_by_ = by;
  requests_.agree();
}

// Until all processes have ended their steps.
Status StopAgreement::meet() {
  for (;;) {
    Told mine;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, period_, [this] { return ended_; });
      mine = told();
    }
    PIPER_ASSIGN(const std::vector<Told> first, tell(mine));
    {
      std::lock_guard lock(mutex_);
      for (size_t rank = 0; rank < first.size(); ++rank)
        if (first[rank].step_ms > 0) step_ms_[static_cast<int32_t>(rank)] = first[rank].step_ms;
    }
    if (std::all_of(first.begin(), first.end(), [](const Told& one) { return one.ended; })) return {};
    // Who is still loading has begun no step that all could end after.
    const bool begun = std::all_of(first.begin(), first.end(), [](const Told& one) { return one.begun >= 0; });
    if (!begun || std::none_of(first.begin(), first.end(), asked)) continue;
    int64_t saves = 0;
    {
      std::lock_guard lock(mutex_);
      limit_ = begun_;
      saves = requests_.saves;
      mine = told();
    }
    PIPER_ASSIGN(const std::vector<Told> all, tell(mine));
    int64_t step = 0;
    for (const Told& one : all) step = std::max(step, one.begun);
    {
      std::lock_guard lock(mutex_);
      decide(step, all, saves);
      limit_ = INT64_MAX;
    }
    changed_.notify_all();
  }
}

void StopAgreement::work() {
  Status status;
  try {
    status = meet();
  } catch (const std::exception& failure) {
    status = Status::failure("bug", failure.what());
  }
  if (status.ok()) return;
  {
    std::lock_guard lock(mutex_);
    failure_ = std::move(status);
  }
  changed_.notify_all();
}

}  // namespace piper::exec
