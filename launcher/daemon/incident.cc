#include "launcher/daemon/incident.h"

#include <sys/utsname.h>

#include <nlohmann/json.hpp>

#include <filesystem>

#include "launcher/bundle_argument.h"
#include "launcher/daemon/job_log.h"
#include "launcher/daemon/job_view.h"
#include "launcher/daemon/state_folder.h"
#include "launcher/exit_text.h"
#include "launcher/passed_environment.h"
#include "launcher/report.h"
#include "schemas/plan/bundle_io.h"

namespace piper::launcher {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

Json statuses_of(const std::string& job_folder) {
  const auto report = read_report(job_folder + "/report.json");
  if (!report) return nullptr;
  return {{"first_rank_that_failed", report->failed_rank},
          {"exit_statuses", report->statuses},
          {"its_last_lines", report->tail},
          {"hang", report->hang.ok() ? Json(nullptr) : Json(report->hang.error().message)}};
}

Json ranks_of(const std::string& job_folder, int32_t ranks) {
  Json list = Json::array();
  for (const auto& rank : view_of(job_folder, ranks).ranks) {
    if (!rank) list.push_back(nullptr);
    else
      list.push_back({{"rank", rank->rank},
                      {"pid", rank->pid},
                      {"state", live::name_of(rank->state)},
                      {"step", rank->step},
                      {"steps", rank->steps},
                      {"loss", rank->loss},
                      {"checkpoint_step", rank->checkpoint_step},
                      {"last_progress_ms", rank->wall_ns / 1'000'000},
                      {"skipped", rank->skipped}});
  }
  return list;
}

Json bundle_of(const JobSpec& spec) {
  const std::string folder = bundle_among(spec.arguments, spec.folder);
  if (folder.empty()) return nullptr;
  const auto bundle = plan::open_bundle(folder);
  if (!bundle.ok()) return bundle.error().message;
  return {{"folder", bundle->directory}, {"digest", bundle->digest}};
}

Json system_of() {
  utsname names{};
  uname(&names);
  return {{"host", names.nodename}, {"system", names.sysname}, {"release", names.release}, {"machine", names.machine}};
}

Json passed(const std::vector<std::string>& environment) {
  Json list = Json::array();
  for (const std::string& variable : environment)
    if (is_passed(variable.substr(0, variable.find('=')))) list.push_back(variable);
  return list;
}

Status write_json(const std::string& folder, const std::string& job_folder, const Job& job) {
  const Json text = {{"job", job.id},
                     {"name", job.spec.name},
                     {"attempt", job.attempts},
                     {"started_ms", job.started_ms},
                     {"exit_status", job.exit_status},
                     {"exit", exit_text(job.exit_status)},
                     {"launch", statuses_of(job_folder)},
                     {"ranks", ranks_of(job_folder, job.spec.ranks)},
                     {"bundle", bundle_of(job.spec)},
                     {"piper", PIPER_VERSION},
                     {"system", system_of()},
                     {"arguments", job.spec.arguments},
                     {"folder", job.spec.folder},
                     {"environment", passed(job.spec.environment)}};
  return write_durably(folder + "/incident.json", text.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

Status write_incident(const std::string& job_folder, const Job& job, int32_t number) {
  const auto name = [&](int32_t which) { return job_folder + "/incident-" + std::to_string(which); };
  std::error_code error;
  fs::remove_all(name(number - kKeptIncidents), error);
  fs::create_directory(name(number), error);
  if (error) return Status::failure("L0133", "'" + name(number) + "': " + error.message());
  fs::copy_file(job_folder + "/pages", name(number) + "/pages", fs::copy_options::overwrite_existing, error);
  PIPER_RETURN_IF_ERROR(write_durably(name(number) + "/log", end_of_log(job_folder, kIncidentLogBytes)));
  return write_json(name(number), job_folder, job);
}

}  // namespace piper::launcher
