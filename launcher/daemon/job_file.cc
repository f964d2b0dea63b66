#include "launcher/daemon/job_file.h"

#include <nlohmann/json.hpp>

#include <array>

namespace piper::launcher {

namespace {

using Json = nlohmann::json;
constexpr int kVersion = 1;
constexpr std::array<const char*, kNumJobStates> kStates = {"queued", "running", "waiting",
                                                            "done",   "failed",  "cancelled"};

JobState state_of(const std::string& name) {
  for (size_t i = 0; i < kStates.size(); ++i)
    if (name == kStates[i]) return static_cast<JobState>(i);
  throw std::runtime_error("no state is called '" + name + "'");
}

void read_nodes(const Json& json, Job& job) {
  json.at("nodes").get_to(job.spec.nodes);
  json.at("placed").get_to(job.placed);
  json.at("failing_node").get_to(job.failing.name);
  json.at("failing_times").get_to(job.failing.times);
  json.at("excluded").get_to(job.excluded);
  json.at("fence_ms").get_to(job.fence_ms);
}

}  // namespace

const char* name_of(JobState state) { return kStates[static_cast<size_t>(state)]; }

std::string job_text(const Job& job) {
  const JobSpec& spec = job.spec;
  const Json text = {{"version", kVersion},
                     {"job", job.id},
                     {"name", spec.name},
                     {"arguments", spec.arguments},
                     {"folder", spec.folder},
                     {"environment", spec.environment},
                     {"ranks", spec.ranks},
                     {"nodes", spec.nodes},
                     {"grace_s", spec.grace_s},
                     {"most_restarts", spec.restarts},
                     {"window_s", spec.window_s},
                     {"state", name_of(job.state)},
                     {"submitted_ms", job.submitted_ms},
                     {"started_ms", job.started_ms},
                     {"ended_ms", job.ended_ms},
                     {"next_start_ms", job.next_start_ms},
                     {"attempts", job.attempts},
                     {"restarts", job.restarts},
                     {"restarted_ms", job.restarted_ms},
                     {"incidents", job.incidents},
                     {"exit_status", job.exit_status},
                     {"why", job.why},
                     {"resume", job.resume},
                     {"cancelling", job.cancelling},
                     {"placed", job.placed},
                     {"failing_node", job.failing.name},
                     {"failing_times", job.failing.times},
                     {"excluded", job.excluded},
                     {"fence_ms", job.fence_ms}};
  return text.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Job> read_job(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    if (json.at("version").get<int>() != kVersion) throw std::runtime_error("another version");
    Job job;
    job.id = json.at("job").get<int64_t>();
    JobSpec& spec = job.spec;
    json.at("name").get_to(spec.name);
    json.at("arguments").get_to(spec.arguments);
    json.at("folder").get_to(spec.folder);
    json.at("environment").get_to(spec.environment);
    json.at("ranks").get_to(spec.ranks);
    json.at("grace_s").get_to(spec.grace_s);
    json.at("most_restarts").get_to(spec.restarts);
    json.at("window_s").get_to(spec.window_s);
    job.state = state_of(json.at("state").get<std::string>());
    json.at("submitted_ms").get_to(job.submitted_ms);
    json.at("started_ms").get_to(job.started_ms);
    json.at("ended_ms").get_to(job.ended_ms);
    json.at("next_start_ms").get_to(job.next_start_ms);
    json.at("attempts").get_to(job.attempts);
    json.at("restarts").get_to(job.restarts);
    json.at("restarted_ms").get_to(job.restarted_ms);
    json.at("incidents").get_to(job.incidents);
    json.at("exit_status").get_to(job.exit_status);
    json.at("why").get_to(job.why);
    json.at("resume").get_to(job.resume);
    json.at("cancelling").get_to(job.cancelling);
    if (json.contains("nodes")) read_nodes(json, job);  // what an older piperd wrote is of one
    if (job.id <= 0 || spec.arguments.empty() || spec.ranks <= 0 || spec.nodes <= 0 || spec.ranks % spec.nodes != 0)
      throw std::runtime_error("values that no job has");
    return job;
  } catch (const std::exception& failure) {
    return Status::failure("L0133", where + " is no file of a job: " + failure.what());
  }
}

}  // namespace piper::launcher
