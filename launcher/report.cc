#include "launcher/report.h"

#include <cstdio>

#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_reader.h"
#include "schemas/plan/json_writer.h"

namespace piper::launcher {

void write_report(const std::string& path, const Outcome& outcome) {
  if (path.empty()) return;
  plan::JsonWriter text;
  text.raw("{");
  text.key("exit_status");
  text.number(outcome.exit_status);
  text.key("failed_rank");
  text.number(outcome.failed_rank);
  text.key("asked_to_stop");
  text.boolean(outcome.asked_to_stop);
  text.key("statuses");
  text.numbers(outcome.statuses);
  text.key("tail");
  text.strings(outcome.tail);
  text.key("hang");
  text.string(outcome.hang.ok() ? "" : outcome.hang.error().message);
  text.raw("}\n");
  if (const Status status = plan::write_file(path, text.text()); !status.ok())
    std::fprintf(stderr, "piper-launch: warning[%s]: %s\n", status.error().code.c_str(),
                 status.error().message.c_str());
}

std::optional<Outcome> read_report(const std::string& path) {
  const auto file = plan::map_file(path);
  if (!file.ok()) return std::nullopt;
  plan::JsonReader reader(file->text(), path);
  Outcome outcome;
  reader.open_object();
  reader.key("exit_status");
  outcome.exit_status = reader.small_integer();
  reader.key("failed_rank");
  outcome.failed_rank = reader.small_integer();
  reader.key("asked_to_stop");
  outcome.asked_to_stop = reader.boolean();
  reader.key("statuses");
  for (const int64_t status : reader.integers()) outcome.statuses.push_back(static_cast<int>(status));
  reader.key("tail");
  outcome.tail = reader.strings();
  reader.key("hang");
  if (const std::string_view hang = reader.string(); !hang.empty())
    outcome.hang = Status::failure("L0121", std::string(hang));
  reader.close_object();
  reader.end_of_text();
  return reader.ok() ? std::optional(std::move(outcome)) : std::nullopt;
}

}  // namespace piper::launcher
