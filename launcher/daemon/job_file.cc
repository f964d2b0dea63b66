#include "launcher/daemon/job_file.h"

#include <nlohmann/json.hpp>

#include <array>

namespace piper::launcher {

namespace {

using Json = nlohmann::json;
constexpr int kVersion = 1;
constexpr const char* kBefore = "checkpoints_before";
constexpr std::array<const char*, kNumJobStates> kStates = {"queued", "running", "waiting",
                                                            "done",   "failed",  "cancelled"};

JobState state_of(const std::string& name) {
  for (size_t i = 0; i < kStates.size(); ++i)
    if (name == kStates[i]) return static_cast<JobState>(i);
  throw std::runtime_error("no state is called '" + name + "'");
}

void node_fields(auto&& v, auto& job) {
  v("nodes", job.spec.nodes);
  v("placed", job.placed);
  v("failing_node", job.failing.name);
  v("failing_times", job.failing.times);
  v("excluded", job.excluded);
  v("fence_ms", job.fence_ms);
}
// All but those and the state.
void fields(auto&& v, auto& job) {
  v("job", job.id);
  v("name", job.spec.name);
  v("arguments", job.spec.arguments);
  v("folder", job.spec.folder);
  v("environment", job.spec.environment);
  v("ranks", job.spec.ranks);
  v("grace_s", job.spec.grace_s);
  v("most_restarts", job.spec.restarts);
  v("window_s", job.spec.window_s);
  v("submitted_ms", job.submitted_ms);
  v("started_ms", job.started_ms);
  v("ended_ms", job.ended_ms);
  v("next_start_ms", job.next_start_ms);
  v("attempts", job.attempts);
  v("restarts", job.restarts);
  v("restarted_ms", job.restarted_ms);
  v("incidents", job.incidents);
  v("exit_status", job.exit_status);
  v("why", job.why);
  v("resume", job.resume);
  v("cancelling", job.cancelling);
}

}  // namespace

const char* name_of(JobState state) { return kStates[static_cast<size_t>(state)]; }

std::string job_text(const Job& job) {
  Json text = {{"version", kVersion}, {"state", name_of(job.state)}};
  const auto write = [&](const char* key, const auto& member) { text[key] = member; };
  fields(write, job);
  node_fields(write, job);
  write(kBefore, job.checkpoints_before);
  return text.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Job> read_job(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    if (json.at("version").get<int>() != kVersion) throw std::runtime_error("another version");
    Job job;
    const auto read = [&](const char* key, auto& member) { json.at(key).get_to(member); };
    fields(read, job);
    job.state = state_of(json.at("state").get<std::string>());
    if (json.contains("nodes")) node_fields(read, job);  // what an older piperd wrote is of one
    if (json.contains(kBefore)) read(kBefore, job.checkpoints_before);
    const JobSpec& spec = job.spec;
    if (job.id <= 0 || spec.arguments.empty() || spec.ranks <= 0 || spec.nodes <= 0 || spec.ranks % spec.nodes != 0)
      throw std::runtime_error("values that no job has");
    return job;
  } catch (const std::exception& failure) {
    return Status::failure("L0133", where + " is no file of a job: " + failure.what());
  }
}

}  // namespace piper::launcher
