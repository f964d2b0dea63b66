#include "runtime/exec/trace_recorder.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/exec/instruction_text.h"
#include "runtime/exec/meeting.h"

namespace piper::exec {
namespace {

using Clock = trace::StepTrace::Clock;

std::vector<std::string> names_of(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  std::vector<std::string> names;
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    names.push_back(action_text(bundle, plan, static_cast<int32_t>(i)));
  return names;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Status cannot_write(const std::string& path) {
  return Status::failure("R0601", "cannot write the trace '" + path + "': " + std::strerror(errno));
}

Status append(std::FILE* file, const std::string& bytes, const std::string& path) {
  return std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() ? Status() : cannot_write(path);
}

}  // namespace

TraceRecorder::TraceRecorder(const Session& session, const plan::RankPlan& plan, hal::ControlChannel& control,
                             const hal::WaitControl& wait)
    : session_(session),
      plan_(plan),
      control_(control),
      wait_(wait),
      steps_(*session.bundle, plan, names_of(*session.bundle, plan), session.options.trace.first,
             session.options.trace.last) {}

bool TraceRecorder::reports() const { return plan_.rank == session_.bundle->manifest.reporting_rank; }

Result<std::unique_ptr<TraceRecorder>> TraceRecorder::make(const Session& session, const plan::RankPlan& plan,
                                                           hal::ControlChannel& control, const hal::WaitControl& wait) {
  std::unique_ptr<TraceRecorder> recorder(new TraceRecorder(session, plan, control, wait));
  const std::string& path = session.options.trace.file;
  if (recorder->reports() && File(std::fopen(path.c_str(), "ab")) == nullptr) return cannot_write(path);
  PIPER_ASSIGN(recorder->zero_, meeting(control, wait));
  return recorder;
}

Status TraceRecorder::finish() {
  const hal::WaitControl wait = hal::patient(wait_);
  const std::string mine = steps_.write(zero_);
  const int32_t writer = session_.bundle->manifest.reporting_rank;
  if (!reports()) {
    const auto bytes = static_cast<int64_t>(mine.size());
    PIPER_RETURN_IF_ERROR(control_.send(writer, &bytes, sizeof(bytes), wait));
    return control_.send(writer, mine.data(), bytes, wait);
  }
  const std::string& path = session_.options.trace.file;
  const File file(std::fopen(path.c_str(), "wb"));
  Status written = file == nullptr ? cannot_write(path) : Status();
  for (int32_t rank = 0; rank < control_.world_size(); ++rank) {
    std::string other;
    if (rank != writer) {
      int64_t bytes = 0;
      PIPER_RETURN_IF_ERROR(control_.receive(rank, &bytes, sizeof(bytes), wait));
      other.resize(static_cast<size_t>(bytes));
      PIPER_RETURN_IF_ERROR(control_.receive(rank, other.data(), bytes, wait));
    }
    if (written.ok()) written = append(file.get(), rank == writer ? mine : other, path);
  }
  if (written.ok() && std::fflush(file.get()) != 0) written = cannot_write(path);
  return written;
}

}  // namespace piper::exec
