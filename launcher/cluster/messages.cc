#include "launcher/cluster/messages.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace piper::live {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankStatus, rank, pid, step, steps, loss, tokens_per_s, mfu, state, wall_ns,
                                   checkpoint_step, checkpoint_s, skipped, restarts)

}  // namespace piper::live

namespace piper::launcher {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeState, name, slots, used, drained)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hold, from, job, epoch, part, ranks, lease_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HoldAnswer, held, why, port)

void to_json(nlohmann::json& json, const Outcome& outcome) {
  json = {{"exit_status", outcome.exit_status},
          {"failed_rank", outcome.failed_rank},
          {"asked_to_stop", outcome.asked_to_stop},
          {"statuses", outcome.statuses},
          {"tail", outcome.tail},
          {"hang", outcome.hang.ok() ? "" : outcome.hang.error().message}};
}
void from_json(const nlohmann::json& json, Outcome& outcome) {
  json.at("exit_status").get_to(outcome.exit_status);
  json.at("failed_rank").get_to(outcome.failed_rank);
  json.at("asked_to_stop").get_to(outcome.asked_to_stop);
  json.at("statuses").get_to(outcome.statuses);
  json.at("tail").get_to(outcome.tail);
  if (const auto hang = json.at("hang").get<std::string>(); !hang.empty())
    outcome.hang = Status::failure("L0121", hang);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Report, node, job, epoch, state, leaving, ran, outcome, log_from, log, signals,
                                   pages)

namespace {

using Json = nlohmann::json;
constexpr int32_t kMostRanks = 65536;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class Read>
bool guarded(const std::string& text, const Read& read) {
  try {
    Json json = Json::parse(text);
    return read(json);
  } catch (const Json::exception&) {
    return false;
  }
}

// A number that is to be one of an enumeration.
void bound(Json& json, const char* key, int most) { json.at(key) = std::clamp(json.at(key).get<int>(), 0, most); }

bool is_epoch(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// What a part is started with.
void start_fields(auto&& v, auto& answer) {
  v("name", answer.spec.name);
  v("arguments", answer.spec.arguments);
  v("folder", answer.spec.folder);
  v("environment", answer.spec.environment);
  v("ranks", answer.spec.ranks);
  v("grace_s", answer.spec.grace_s);
  v("attempt", answer.attempt);
  v("resume", answer.resume);
  v("nodes", answer.nodes);
  v("master", answer.master);
}

bool read_start(const Json& json, ReportAnswer& answer) {
  start_fields([&](const char* key, auto& member) { json.at(key).get_to(member); }, answer);
  JobSpec& spec = answer.spec;
  spec.nodes = answer.nodes;
  return !spec.arguments.empty() && !spec.arguments[0].empty() && answer.nodes > 0 && answer.nodes <= kMostRanks &&
         spec.ranks > 0 && spec.ranks <= kMostRanks && spec.ranks % answer.nodes == 0;
}

}  // namespace

std::string text_of(const NodeState& state) { return dumped(state); }
bool read_message(const std::string& text, NodeState& state) {
  return guarded(text, [&](const Json& json) {
    json.get_to(state);
    return state.slots > 0 && state.slots <= kMostRanks && state.used >= 0;
  });
}

std::string text_of(const Hold& hold) { return dumped(hold); }
bool read_message(const std::string& text, Hold& hold) {
  return guarded(text, [&](const Json& json) {
    json.get_to(hold);
    return hold.job > 0 && is_epoch(hold.epoch) && hold.part >= 0 && hold.part < kMostRanks && hold.ranks > 0 &&
           hold.ranks <= kMostRanks && hold.lease_ms >= 100 && hold.lease_ms <= 3'600'000;
  });
}

std::string text_of(const HoldAnswer& answer) { return dumped(answer); }
bool read_message(const std::string& text, HoldAnswer& answer) {
  return guarded(text, [&](const Json& json) {
    json.get_to(answer);
    return true;
  });
}

std::string text_of(const Report& report) { return dumped(report); }
bool read_message(const std::string& text, Report& report) {
  return guarded(text, [&](Json& json) {
    bound(json, "state", static_cast<int>(PartState::kEnded));
    for (Json& page : json.at("pages")) {
      bound(page, "state", live::kNumRankStates - 1);
      for (const char* key : {"loss", "tokens_per_s", "mfu", "checkpoint_s"})  // one that is no number is null
        if (page.at(key).is_null()) page.at(key) = std::numeric_limits<double>::quiet_NaN();
    }
    json.get_to(report);
    return report.job > 0 && is_epoch(report.epoch) && report.log_from >= 0 && report.signals >= 0;
  });
}

std::string text_of(const ReportAnswer& answer) {
  Json json = {{"go", static_cast<int>(answer.go)}, {"log_next", answer.log_next}, {"signals", answer.signals}};
  if (answer.go == Go::kStart)
    start_fields([&](const char* key, const auto& member) { json["start"][key] = member; }, answer);
  return dumped(json);
}
bool read_message(const std::string& text, ReportAnswer& answer) {
  return guarded(text, [&](Json& json) {
    bound(json, "go", static_cast<int>(Go::kEnd));
    json.at("go").get_to(answer.go);
    json.at("log_next").get_to(answer.log_next);
    json.at("signals").get_to(answer.signals);
    return answer.go != Go::kStart || read_start(json.at("start"), answer);
  });
}

std::string plain_text(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; })) return text;
  return Json::parse(dumped(Json(text))).get<std::string>();
}

}  // namespace piper::launcher
