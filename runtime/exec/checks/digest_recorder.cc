#include "runtime/exec/checks/digest_recorder.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "runtime/trace/digest_values.h"

namespace piper::exec {

Result<std::unique_ptr<DigestRecorder>> DigestRecorder::make(Session& session, const LoadedRank& rank,
                                                             hal::ControlChannel& control) {
  std::unique_ptr<DigestRecorder> recorder(new DigestRecorder(session, rank, control));
  PIPER_ASSIGN(recorder->calls_, CallByCall::make(rank));
  if (control.rank() != 0) return recorder;
  PIPER_ASSIGN(recorder->values_, digest::StepValues::read(session.directory, session.bundle_digest));
  PIPER_ASSIGN(recorder->file_, trace::StepLog::open(session.options.digests.file));
  const plan::Manifest& manifest = session.bundle->manifest;
  PIPER_RETURN_IF_ERROR(recorder->file_.write(digest::header_line(
      {session.bundle_digest, manifest.model.sha256, manifest.world_size, session.options.seed, manifest.batch})));
  return recorder;
}

bool DigestRecorder::due(int64_t step) const {
  const StepsToFile& options = session_.options.digests;
  return step >= options.first && step <= options.last;
}

Status DigestRecorder::after(const StepPiece& piece) {
  for (const PlacedValue& value : piece.outputs) {
    PIPER_ASSIGN(const std::vector<std::byte> bytes, read_value(rank_.device(), value));
    found_.push_back({piece.instruction, piece.call, value.output, 0, trace::digest_values(value.type, bytes.data())});
  }
  return {};
}

std::optional<StepHook::ByCall> DigestRecorder::by_call(int64_t step) {
  return due(step) ? std::optional(ByCall{*calls_, *this}) : std::nullopt;
}

Status DigestRecorder::after(int64_t step) {
  if (!due(step)) return {};
  const std::string mine(reinterpret_cast<const char*>(found_.data()), found_.size() * sizeof(Found));
  found_.clear();
  const hal::WaitControl wait{&session_.stop, session_.options.timeout};
  PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(mine, hal::patient(wait)));
  return control_.rank() == 0 ? write_step(step, all) : Status();
}

Status DigestRecorder::write_step(int64_t step, const std::vector<std::string>& all) {
  struct Line {
    int64_t order;
    int32_t rank;
    Found found;
  };
  std::vector<Line> lines;
  for (size_t r = 0; r < all.size(); ++r)
    for (size_t at = 0; at + sizeof(Found) <= all[r].size(); at += sizeof(Found)) {
      Line& line = lines.emplace_back();
      std::memcpy(&line.found, all[r].data() + at, sizeof(Found));
      line.rank = static_cast<int32_t>(r);
      line.order = values_->order(line.rank, line.found.instruction);
    }
  // A rank's own are in order.
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return std::tie(a.order, a.rank) < std::tie(b.order, b.rank); });
  for (const Line& line : lines) {
    const Found& found = line.found;
    const digest::ValueRecord record{step, values_->name(line.rank, {found.instruction, found.call, found.output}),
                                     found.statistic};
    PIPER_RETURN_IF_ERROR(file_.write(digest::value_line(record)));
  }
  return {};
}

}  // namespace piper::exec
