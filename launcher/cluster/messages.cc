#include "launcher/cluster/messages.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace piper::launcher {

namespace {

using Json = nlohmann::json;
constexpr int32_t kMostRanks = 65536;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class Read>
bool guarded(const std::string& text, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception&) {
    return false;
  }
}

template <class Enum>
Enum enum_at(const Json& json, const char* key, int most) {
  const int value = json.at(key).get<int>();
  return static_cast<Enum>(std::clamp(value, 0, most));
}

bool is_epoch(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// A loss that is no number is null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
double number_at(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Json page_json(const live::RankStatus& page) {
  return {{"rank", page.rank},
          {"pid", page.pid},
          {"step", page.step},
          {"steps", page.steps},
          {"loss", number(page.loss)},
          {"tokens_per_s", number(page.tokens_per_s)},
          {"mfu", number(page.mfu)},
          {"state", static_cast<int64_t>(page.state)},
          {"wall_ns", page.wall_ns},
          {"checkpoint_step", page.checkpoint_step},
          {"checkpoint_s", number(page.checkpoint_s)},
          {"skipped", page.skipped},
          {"restarts", page.restarts}};
}

live::RankStatus page_of(const Json& json) {
  live::RankStatus page;
  json.at("rank").get_to(page.rank);
  json.at("pid").get_to(page.pid);
  json.at("step").get_to(page.step);
  json.at("steps").get_to(page.steps);
  page.loss = number_at(json, "loss");
  page.tokens_per_s = number_at(json, "tokens_per_s");
  page.mfu = number_at(json, "mfu");
  page.state = enum_at<live::RankState>(json, "state", live::kNumRankStates - 1);
  json.at("wall_ns").get_to(page.wall_ns);
  json.at("checkpoint_step").get_to(page.checkpoint_step);
  page.checkpoint_s = number_at(json, "checkpoint_s");
  json.at("skipped").get_to(page.skipped);
  json.at("restarts").get_to(page.restarts);
  return page;
}

Json outcome_json(const Outcome& outcome) {
  return {{"exit_status", outcome.exit_status},
          {"failed_rank", outcome.failed_rank},
          {"asked_to_stop", outcome.asked_to_stop},
          {"statuses", outcome.statuses},
          {"tail", outcome.tail},
          {"hang", outcome.hang.ok() ? "" : outcome.hang.error().message}};
}

Outcome outcome_of(const Json& json) {
  Outcome outcome;
  json.at("exit_status").get_to(outcome.exit_status);
  json.at("failed_rank").get_to(outcome.failed_rank);
  json.at("asked_to_stop").get_to(outcome.asked_to_stop);
  json.at("statuses").get_to(outcome.statuses);
  json.at("tail").get_to(outcome.tail);
  if (const auto hang = json.at("hang").get<std::string>(); !hang.empty())
    outcome.hang = Status::failure("L0121", hang);
  return outcome;
}

Json spec_json(const ReportAnswer& answer) {
  return {{"name", answer.spec.name},     {"arguments", answer.spec.arguments},
          {"folder", answer.spec.folder}, {"environment", answer.spec.environment},
          {"ranks", answer.spec.ranks},   {"grace_s", answer.spec.grace_s},
          {"attempt", answer.attempt},    {"resume", answer.resume},
          {"nodes", answer.nodes},        {"master", answer.master}};
}

bool read_spec(const Json& json, ReportAnswer& answer) {
  JobSpec& spec = answer.spec;
  json.at("name").get_to(spec.name);
  json.at("arguments").get_to(spec.arguments);
  json.at("folder").get_to(spec.folder);
  json.at("environment").get_to(spec.environment);
  json.at("ranks").get_to(spec.ranks);
  json.at("grace_s").get_to(spec.grace_s);
  json.at("attempt").get_to(answer.attempt);
  json.at("resume").get_to(answer.resume);
  json.at("nodes").get_to(answer.nodes);
  json.at("master").get_to(answer.master);
  spec.nodes = answer.nodes;
  return !spec.arguments.empty() && !spec.arguments[0].empty() && answer.nodes > 0 && answer.nodes <= kMostRanks &&
         spec.ranks > 0 && spec.ranks <= kMostRanks && spec.ranks % answer.nodes == 0;
}

}  // namespace

std::string text_of(const NodeState& state) {
  return dumped({{"name", state.name}, {"slots", state.slots}, {"used", state.used}, {"drained", state.drained}});
}

bool read_message(const std::string& text, NodeState& state) {
  return guarded(text, [&](const Json& json) {
    json.at("name").get_to(state.name);
    json.at("slots").get_to(state.slots);
    json.at("used").get_to(state.used);
    json.at("drained").get_to(state.drained);
    return state.slots > 0 && state.slots <= kMostRanks && state.used >= 0;
  });
}

std::string text_of(const Hold& hold) {
  return dumped({{"from", hold.from},
                 {"job", hold.job},
                 {"epoch", hold.epoch},
                 {"part", hold.part},
                 {"ranks", hold.ranks},
                 {"lease_ms", hold.lease_ms}});
}

bool read_message(const std::string& text, Hold& hold) {
  return guarded(text, [&](const Json& json) {
    json.at("from").get_to(hold.from);
    json.at("job").get_to(hold.job);
    json.at("epoch").get_to(hold.epoch);
    json.at("part").get_to(hold.part);
    json.at("ranks").get_to(hold.ranks);
    json.at("lease_ms").get_to(hold.lease_ms);
    return hold.job > 0 && is_epoch(hold.epoch) && hold.part >= 0 && hold.part < kMostRanks && hold.ranks > 0 &&
           hold.ranks <= kMostRanks && hold.lease_ms >= 100 && hold.lease_ms <= 3'600'000;
  });
}

std::string text_of(const HoldAnswer& answer) {
  return dumped({{"held", answer.held}, {"why", answer.why}, {"port", answer.port}});
}

bool read_message(const std::string& text, HoldAnswer& answer) {
  return guarded(text, [&](const Json& json) {
    json.at("held").get_to(answer.held);
    json.at("why").get_to(answer.why);
    json.at("port").get_to(answer.port);
    return true;
  });
}

std::string text_of(const Report& report) {
  Json pages = Json::array();
  for (const live::RankStatus& page : report.pages) pages.push_back(page_json(page));
  return dumped({{"node", report.node},
                 {"job", report.job},
                 {"epoch", report.epoch},
                 {"state", static_cast<int>(report.state)},
                 {"leaving", report.leaving},
                 {"ran", report.ran},
                 {"outcome", outcome_json(report.outcome)},
                 {"log_from", report.log_from},
                 {"log", report.log},
                 {"signals", report.signals},
                 {"pages", pages}});
}

bool read_message(const std::string& text, Report& report) {
  return guarded(text, [&](const Json& json) {
    json.at("node").get_to(report.node);
    json.at("job").get_to(report.job);
    json.at("epoch").get_to(report.epoch);
    report.state = enum_at<PartState>(json, "state", static_cast<int>(PartState::kEnded));
    json.at("leaving").get_to(report.leaving);
    json.at("ran").get_to(report.ran);
    report.outcome = outcome_of(json.at("outcome"));
    json.at("log_from").get_to(report.log_from);
    json.at("log").get_to(report.log);
    json.at("signals").get_to(report.signals);
    for (const Json& page : json.at("pages")) report.pages.push_back(page_of(page));
    return report.job > 0 && is_epoch(report.epoch) && report.log_from >= 0 && report.signals >= 0;
  });
}

std::string text_of(const ReportAnswer& answer) {
  Json json = {{"go", static_cast<int>(answer.go)}, {"log_next", answer.log_next}, {"signals", answer.signals}};
  if (answer.go == Go::kStart) json["start"] = spec_json(answer);
  return dumped(json);
}

bool read_message(const std::string& text, ReportAnswer& answer) {
  return guarded(text, [&](const Json& json) {
    answer.go = enum_at<Go>(json, "go", static_cast<int>(Go::kEnd));
    json.at("log_next").get_to(answer.log_next);
    json.at("signals").get_to(answer.signals);
    return answer.go != Go::kStart || read_spec(json.at("start"), answer);
  });
}

std::string plain_text(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; })) return text;
  return Json::parse(dumped(Json(text))).get<std::string>();
}

}  // namespace piper::launcher
