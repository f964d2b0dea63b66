#include "launcher/daemon/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>

#include "launcher/daemon/job_view.h"

namespace piper::launcher {

namespace {

std::string text_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

class Text {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = std::string("piperd_") + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void sample(const std::string& labels, double value) {
    text_ += name_ + (labels.empty() ? "" : "{" + labels + "}") + " " + text_of(value) + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

// Values may hold anything: https://prometheus.io/docs/instrumenting/exposition_formats/.
std::string label(const char* name, const std::string& value) {
  std::string text = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text + "\"";
}

struct Running {
  const Job* job;
  JobView view;
};

// `job` is a scraper's own label of what it scrapes.
std::string labels_of(const Job& job) {
  return label("job_id", std::to_string(job.id)) + "," + label("name", job.spec.name);
}

struct JobGauge {
  const char *name, *type, *help;
  std::function<std::optional<double>(const Running&)> value;
};

void node(Text& text, const Daemon& daemon) {
  text.family("slots", "gauge", "Ranks that this node runs at a time.");
  text.sample("", daemon.options().slots);
  text.family("slots_used", "gauge", "Slots of jobs that run, or wait to be started again.");
  text.sample("", daemon.slots_used());
  text.family("draining", "gauge", "1: nothing starts any more.");
  text.sample("", daemon.record().draining ? 1 : 0);
  text.family("disk_failure", "gauge", "1: the last write to the state folder failed.");
  text.sample("", daemon.disk_failure().empty() ? 0 : 1);
  if (daemon.nodes() != nullptr) {
    const std::vector<NodeState> states = daemon.nodes()->states();
    text.family("nodes", "gauge", "Nodes that jobs are spread over, this one among them.");
    text.sample("", static_cast<double>(states.size()));
    text.family("nodes_answering", "gauge", "Of these, the ones that answer.");
    text.sample("", static_cast<double>(std::count_if(states.begin(), states.end(),
                                                      [](const NodeState& node) { return node.answers; })));
  }
  std::array<int64_t, kNumJobStates> counts{};
  for (const auto& [id, job] : daemon.jobs()) ++counts[static_cast<size_t>(job.state)];
  text.family("jobs", "gauge", "Jobs that have not ended, by state.");
  for (const JobState state : {JobState::kQueued, JobState::kRunning, JobState::kWaiting})
    text.sample(label("state", name_of(state)), static_cast<double>(counts[static_cast<size_t>(state)]));
  text.family("jobs_ended_total", "counter", "Jobs that have ended, by how.");
  for (const JobState state : {JobState::kDone, JobState::kFailed, JobState::kCancelled})
    text.sample(label("state", name_of(state)), static_cast<double>(daemon.record().ended[static_cast<size_t>(state)]));
  text.family("restarts_total", "counter", "Starts of jobs after a failure.");
  text.sample("", static_cast<double>(daemon.record().restarts));
  text.family("incidents_total", "counter", "Attempts that failed.");
  text.sample("", static_cast<double>(daemon.record().incidents));
}

void of_jobs(Text& text, const std::vector<Running>& running) {
  const auto count = [](int64_t value) { return std::optional(static_cast<double>(value)); };
  const JobGauge gauges[] = {
      {"job_step", "gauge", "The step that every rank of the job has done.",
       [&](const Running& r) { return count(r.view.step); }},
      {"job_steps", "gauge", "Steps that the job is to do.", [&](const Running& r) { return count(r.view.steps); }},
      {"job_loss", "gauge", "The loss of the newest step.", [](const Running& r) { return r.view.loss; }},
      {"job_tokens_per_second", "gauge", "Of all ranks together.",
       [](const Running& r) { return std::optional(r.view.tokens_per_s); }},
      {"job_model_flops_utilization", "gauge", "Of the peak of all ranks' devices, by --peak-flops.",
       [](const Running& r) { return r.view.mfu > 0 ? std::optional(r.view.mfu) : std::nullopt; }},
      {"job_checkpoint_step", "gauge", "The step of the newest committed checkpoint, 0: none.",
       [&](const Running& r) { return count(r.view.checkpoint_step); }},
      {"job_checkpoint_seconds", "gauge", "What it took from its step to its commit.",
       [](const Running& r) { return std::optional(r.view.checkpoint_s); }},
      {"job_skipped_steps", "gauge", "Steps that an overflow left without an update.",
       [&](const Running& r) { return count(r.view.skipped); }},
      {"job_restarts_total", "counter", "Starts of the job after a failure.",
       [&](const Running& r) { return count(r.job->restarts); }}};
  for (const JobGauge& gauge : gauges) {
    text.family(gauge.name, gauge.type, gauge.help);
    for (const Running& one : running)
      if (const auto value = gauge.value(one)) text.sample(labels_of(*one.job), *value);
  }
}

void of_ranks(Text& text, const std::vector<Running>& running) {
  const auto each = [&](const std::function<void(const std::string&, const live::RankStatus&)>& call) {
    for (const Running& one : running)
      for (const auto& rank : one.view.ranks)
        if (rank) call(labels_of(*one.job) + "," + label("rank", std::to_string(rank->rank)), *rank);
  };
  text.family("rank_step", "gauge", "The step that the rank has done.");
  each([&](const std::string& labels, const live::RankStatus& rank) {
    text.sample(labels, static_cast<double>(rank.step));
  });
  text.family("rank_seconds_since_progress", "gauge", "Since the rank last reported progress.");
  const int64_t now = now_ms();
  each([&](const std::string& labels, const live::RankStatus& rank) {
    const int64_t quiet_ms = now - rank.wall_ns / 1'000'000;
    text.sample(labels, static_cast<double>(quiet_ms) / 1e3);
  });
  text.family("rank_state", "gauge", "1 for the state that the rank is in.");
  each([&](const std::string& labels, const live::RankStatus& rank) {
    text.sample(labels + "," + label("state", live::name_of(rank.state)), 1);
  });
}

}  // namespace

std::string metrics_text(const Daemon& daemon) {
  std::vector<Running> running;
  for (const auto& [id, job] : daemon.jobs())
    if (job.state == JobState::kRunning) running.push_back({&job, view_of(daemon.folder_of(id), job.spec.ranks)});
  Text text;
  node(text, daemon);
  of_jobs(text, running);
  of_ranks(text, running);
  return text.take();
}

}  // namespace piper::launcher
