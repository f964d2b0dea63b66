#include "launcher/client/status_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "launcher/exit_text.h"

namespace piper::launcher {

namespace {

using Json = nlohmann::json;
using Row = std::vector<std::string>;

// "1:02:03", "2:03", "12 s".
std::string duration(int64_t ms) {
  const int64_t s = std::max<int64_t>(ms, 0) / 1000;
  char text[64];
  if (s < 60) std::snprintf(text, sizeof text, "%d s", static_cast<int>(s));
  else if (s < 3600) std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(s / 60), static_cast<int>(s % 60));
  else
    std::snprintf(text, sizeof text, "%lld:%02d:%02d", static_cast<long long>(s / 3600),
                  static_cast<int>(s % 3600 / 60), static_cast<int>(s % 60));
  return text;
}

std::string number(double value, const char* form) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

int64_t integer(const Json& json, const char* key) { return json.at(key).get<int64_t>(); }

bool of_run(const Json& job) {
  const auto state = job.at("state").get<std::string>();
  return state == "running" || state == "waiting";
}

// The job's present work, where the name of its state does not say it.
std::string state_of(const Json& job) {
  const auto state = job.at("state").get<std::string>();
  if (job.at("cancelling").get<bool>() && state == "running") return "ending";
  return state == "running" ? job.at("activity").get<std::string>() : state;
}

std::string step_of(const Json& job) {
  const int64_t steps = integer(job, "steps");
  return steps == 0 ? "-" : std::to_string(integer(job, "step")) + "/" + std::to_string(steps);
}

std::string checkpoint_of(const Json& job) {
  const int64_t step = integer(job, "checkpoint_step");
  return step == 0 ? "-" : "step " + std::to_string(step);
}

std::string time_of(const Json& job, int64_t now) {
  const int64_t ended = integer(job, "ended_ms"), started = integer(job, "started_ms");
  if (started == 0) return "-";
  if (of_run(job) || ended == 0) return duration(now - started);
  return duration(ended - started);
}

std::string note_of(const Json& job, int64_t now) {
  auto note = job.at("why").get<std::string>();
  if (const int64_t next = integer(job, "next_start_ms"); next > 0)
    note += ", starts again in " + duration(next - now + 999);
  return note;
}

// Columns as wide as their longest cell, except the last.
std::string table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] + 2 - row[i].size(), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string job_table(const Json& answer) {
  const int64_t now = integer(answer, "now_ms");
  std::vector<Row> rows = {
      {"JOB", "NAME", "STATE", "RANKS", "STEP", "LOSS", "TOKENS/S", "CHECKPOINT", "RESTARTS", "TIME", ""}};
  for (const Json& job : answer.at("jobs")) {
    const Json& loss = job.at("loss");
    const double tokens = job.at("tokens_per_s").get<double>();
    rows.push_back({std::to_string(integer(job, "job")), job.at("name").get<std::string>(), state_of(job),
                    std::to_string(integer(job, "ranks")), step_of(job),
                    loss.is_null() ? "-" : number(loss.get<double>(), "%.4f"),
                    of_run(job) && tokens > 0 ? number(tokens, "%.0f") : "-", checkpoint_of(job),
                    std::to_string(integer(job, "restarts")), time_of(job, now), note_of(job, now)});
  }
  return rows.size() == 1 ? "no jobs\n" : table(rows);
}

std::string rank_table(const Json& job, int64_t now) {
  const bool several = integer(job, "nodes") > 1;
  std::vector<Row> rows = {{"RANK", "PID", "STATE", "STEP", "LAST PROGRESS", "CHECKPOINT"}};
  if (several) rows[0].insert(rows[0].begin() + 1, "NODE");
  for (const Json& rank : job.at("rank_states")) {
    const bool told = rank.contains("pid");
    rows.push_back({std::to_string(integer(rank, "rank")), told ? std::to_string(integer(rank, "pid")) : "-",
                    rank.at("state").get<std::string>(), told ? step_of(rank) : "-",
                    told ? duration(now - integer(rank, "progress_ms")) + " ago" : "-",
                    told ? checkpoint_of(rank) : "-"});
    if (several) rows.back().insert(rows.back().begin() + 1, rank.value("node", "-"));
  }
  return table(rows);
}

std::string joined(const Json& words) {
  std::string text;
  for (const Json& word : words) text += (text.empty() ? "" : " ") + word.get<std::string>();
  return text;
}

std::string whole_job(const Json& answer, const Json& job) {
  const int64_t now = integer(answer, "now_ms");
  std::vector<Row> rows = {{"command", joined(job.at("arguments"))}, {"in", job.at("folder").get<std::string>()}};
  rows.push_back({"submitted", duration(now - integer(job, "submitted_ms")) + " ago"});
  rows.push_back({"attempts", std::to_string(integer(job, "attempts")) + ", " +
                                  std::to_string(integer(job, "restarts")) + " after failures, of " +
                                  std::to_string(integer(job, "most_restarts")) + " in " +
                                  duration(1000 * integer(job, "window_s"))});
  if (!job.at("exit_status").is_null()) rows.push_back({"last exit", exit_text(job.at("exit_status").get<int>())});
  if (integer(job, "incidents") > 0)
    rows.push_back({"incidents", std::to_string(integer(job, "incidents")) + ", in " +
                                     job.at("state_folder").get<std::string>() + "/incident-*"});
  if (!job.at("placed").empty()) rows.push_back({"nodes", joined(job.at("placed"))});
  if (!job.at("excluded").empty())
    rows.push_back({"excluded", joined(job.at("excluded")) + ": attempts failed there again and again"});
  if (integer(job, "skipped") > 0) rows.push_back({"skipped steps", std::to_string(integer(job, "skipped"))});
  return job_table(answer) + "\n" + table(rows) + "\n" + rank_table(job, now);
}

std::string node_table(const Json& answer) {
  std::vector<Row> rows = {{"NODE", "SLOTS", "IN USE", ""}};
  for (const Json& node : answer.at("nodes")) {
    std::string note = node.at("answers").get<bool>() ? "" : node.at("why").get<std::string>();
    if (node.at("drained").get<bool>()) note += std::string(note.empty() ? "" : ", ") + "starts nothing";
    rows.push_back({node.at("name").get<std::string>(), std::to_string(integer(node, "slots")),
                    node.at("answers").get<bool>() ? std::to_string(integer(node, "used")) : "-", note});
  }
  std::string text = table(rows);
  for (const Json& part : answer.at("parts"))
    text += "here: " + std::to_string(integer(part, "ranks")) + " ranks of job " +
            std::to_string(integer(part, "job")) + " of " + part.at("coordinator").get<std::string>() + ", " +
            part.at("state").get<std::string>() + "\n";
  return text + "\n";
}

}  // namespace

std::string status_text(const std::string& answer) {
  const Json json = Json::parse(answer);
  const Json& jobs = json.at("jobs");
  if (jobs.size() == 1 && jobs[0].contains("rank_states")) return whole_job(json, jobs[0]);
  std::string text = json.at("host").get<std::string>() + ": " + std::to_string(integer(json, "slots_used")) + " of " +
                     std::to_string(integer(json, "slots")) + " slots in use";
  if (json.at("draining").get<bool>()) text += "; drained, nothing starts (piper-launch drain --off)";
  if (const auto why = json.at("disk_failure").get<std::string>(); !why.empty()) text += "\nits disk fails: " + why;
  text += "\n";
  if (json.contains("nodes")) text += node_table(json);
  return text + job_table(json);
}

}  // namespace piper::launcher
