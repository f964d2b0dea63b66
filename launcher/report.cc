#include "launcher/report.h"

#include <cstdio>

#include "schemas/plan/field_reader.h"
#include "schemas/plan/field_writer.h"
#include "schemas/plan/file_bytes.h"

namespace piper::launcher {

namespace {

template <class V>
void fields(V& v, Of<Outcome> auto& outcome) {
  v("exit_status", outcome.exit_status);
  v("failed_rank", outcome.failed_rank);
  v("asked_to_stop", outcome.asked_to_stop);
  v("statuses", outcome.statuses);
  v("tail", outcome.tail);
  std::string hang = outcome.hang.ok() ? "" : outcome.hang.error().message;
  v("hang", hang);
  if constexpr (V::kReads)
    if (!hang.empty()) outcome.hang = Status::failure("L0121", hang);
}

struct ReportWriter : plan::FieldWriter<ReportWriter> {
  explicit ReportWriter(plan::JsonWriter& json) : FieldWriter(json) {}
};
struct ReportReader : plan::FieldReader<ReportReader> {
  ReportReader(std::string_view text, const std::string& file) : FieldReader(text, file) {}
  std::optional<Outcome> outcome() {
    Outcome outcome;
    file(outcome);
    return reader_.ok() ? std::optional(std::move(outcome)) : std::nullopt;
  }
};

}  // namespace

void write_report(const std::string& path, const Outcome& outcome) {
  if (path.empty()) return;
  plan::JsonWriter text;
  ReportWriter(text).write(outcome);
  text.raw("\n");
  if (const Status status = plan::write_file(path, text.text()); !status.ok())
    std::fprintf(stderr, "piper-launch: warning[%s]: %s\n", status.error().code.c_str(),
                 status.error().message.c_str());
}

std::optional<Outcome> read_report(const std::string& path) {
  const auto file = plan::map_file(path);
  return file.ok() ? ReportReader(file->text(), path).outcome() : std::nullopt;
}

}  // namespace piper::launcher
