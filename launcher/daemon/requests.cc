#include "launcher/daemon/requests.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>

#include "launcher/daemon/job_view.h"

namespace piper::launcher {

namespace {

using Json = nlohmann::json;
constexpr int64_t kLogPiece = int64_t{64} << 10;

// A request that cannot be answered, thrown to answer_request().
struct Refused {
  Error error;
};

[[noreturn]] void refuse(const std::string& code, const std::string& why) { throw Refused{{code, why, false}}; }

void only(const Json& request, std::initializer_list<const char*> keys) {
  for (const auto& [key, value] : request.items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) refuse("L0132", "a request has no key '" + key + "'");
}

int64_t integer(const Json& request, const char* key, int64_t least, int64_t most) {
  const Json& value = request.at(key);
  if (!value.is_number_integer() || value < least || value > most)
    refuse("L0132",
           std::string("'") + key + "' is no number from " + std::to_string(least) + " to " + std::to_string(most));
  return value.get<int64_t>();
}

// What a system call takes.
std::string plain(const Json& value, const char* key) {
  auto text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) refuse("L0132", std::string("'") + key + "' has a zero byte");
  return text;
}

std::vector<std::string> texts(const Json& request, const char* key) {
  std::vector<std::string> list;
  if (!request.at(key).is_array()) refuse("L0132", std::string("'") + key + "' is no list");
  for (const Json& value : request.at(key)) list.push_back(plain(value, key));
  return list;
}

JobSpec spec_of(const Json& request) {
  only(request,
       {"op", "name", "arguments", "folder", "environment", "ranks", "nodes", "grace_s", "restarts", "window_s"});
  JobSpec spec;
  spec.name = plain(request.at("name"), "name");
  spec.arguments = texts(request, "arguments");
  spec.folder = plain(request.at("folder"), "folder");
  spec.environment = texts(request, "environment");
  spec.ranks = static_cast<int32_t>(integer(request, "ranks", 1, 65536));
  spec.nodes = static_cast<int32_t>(integer(request, "nodes", 1, spec.ranks));
  if (spec.ranks % spec.nodes != 0) refuse("L0132", "'ranks' do not divide among 'nodes'");
  spec.grace_s = integer(request, "grace_s", 0, 1'000'000);
  spec.restarts = static_cast<int32_t>(integer(request, "restarts", 0, 1000));
  spec.window_s = integer(request, "window_s", 1, 10'000'000);
  if (spec.name.size() > 100) refuse("L0132", "'name' has more than 100 bytes");
  if (spec.arguments.empty() || spec.arguments[0].empty() || spec.arguments[0][0] != '/' || spec.folder.empty() ||
      spec.folder[0] != '/')
    refuse("L0132", "program and folder are absolute paths");
  return spec;
}

Json rank_json(int32_t rank, const std::optional<live::RankStatus>& told) {
  if (!told) return {{"rank", rank}, {"state", live::name_of(live::RankState::kStarting)}};
  return {{"rank", rank},
          {"pid", told->pid},
          {"state", live::name_of(told->state)},
          {"step", told->step},
          {"steps", told->steps},
          {"tokens_per_s", told->tokens_per_s},
          {"progress_ms", told->wall_ns / 1'000'000},
          {"checkpoint_step", told->checkpoint_step},
          {"checkpoint_s", told->checkpoint_s},
          {"skipped", told->skipped},
          {"restarts", told->restarts}};
}

Json job_json(const Daemon& daemon, const Job& job, bool whole) {
  const JobView view = view_of(daemon.folder_of(job.id), job.spec.ranks);
  Json json = {{"job", job.id},
               {"name", job.spec.name},
               {"state", name_of(job.state)},
               {"ranks", job.spec.ranks},
               {"nodes", job.spec.nodes},
               {"placed", job.state == JobState::kQueued ? std::vector<std::string>() : job.placed},
               {"excluded", job.excluded},
               {"activity", live::name_of(view.activity)},
               {"step", view.step},
               {"steps", view.steps},
               {"loss", nullptr},
               {"tokens_per_s", view.tokens_per_s},
               {"mfu", view.mfu},
               {"checkpoint_step", view.checkpoint_step},
               {"checkpoint_s", view.checkpoint_s},
               {"skipped", view.skipped},
               {"progress_ms", nullptr},
               {"attempts", job.attempts},
               {"restarts", job.restarts},
               {"most_restarts", job.spec.restarts},
               {"window_s", job.spec.window_s},
               {"incidents", job.incidents},
               {"exit_status", nullptr},
               {"why", job.why},
               {"cancelling", job.cancelling},
               {"submitted_ms", job.submitted_ms},
               {"started_ms", job.started_ms},
               {"ended_ms", job.ended_ms},
               {"next_start_ms", job.next_start_ms},
               {"state_folder", daemon.folder_of(job.id)}};
  if (view.loss) json["loss"] = *view.loss;
  if (view.progress_ms) json["progress_ms"] = *view.progress_ms;
  if (job.exit_status >= 0) json["exit_status"] = job.exit_status;
  if (!whole) return json;
  json["arguments"] = job.spec.arguments;
  json["folder"] = job.spec.folder;
  json["rank_states"] = Json::array();
  const size_t of_node = static_cast<size_t>(job.spec.ranks / job.spec.nodes);
  for (size_t rank = 0; rank < view.ranks.size(); ++rank) {
    Json told = rank_json(static_cast<int32_t>(rank), view.ranks[rank]);
    if (const size_t node = rank / of_node; node < job.placed.size()) told["node"] = job.placed[node];
    json["rank_states"].push_back(std::move(told));
  }
  return json;
}

const Job& job_of(const Daemon& daemon, const Json& request) {
  const int64_t id = integer(request, "job", 1, INT64_MAX);
  const auto found = daemon.jobs().find(id);
  if (found == daemon.jobs().end()) refuse("L0132", "there is no job " + std::to_string(id));
  return found->second;
}

// The state of all nodes, and of the parts of other daemons' jobs that are here.
void add_nodes(Json& json, const Nodes& nodes) {
  json["host"] = nodes.own();
  json["nodes"] = Json::array();
  for (const NodeState& node : nodes.states())
    json["nodes"].push_back({{"name", node.name},
                             {"slots", node.slots},
                             {"used", node.used},
                             {"answers", node.answers},
                             {"drained", node.drained},
                             {"why", node.why}});
  json["parts"] = Json::array();
  constexpr const char* kStates[] = {"held", "running", "ended"};
  for (const PartView& part : nodes.parts().views())
    json["parts"].push_back({{"coordinator", part.coordinator},
                             {"job", part.job},
                             {"name", part.name},
                             {"ranks", part.ranks},
                             {"state", kStates[static_cast<size_t>(part.state)]}});
}

Json status(const Daemon& daemon, const Json& request, uint16_t http_port) {
  only(request, {"op", "job"});
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  Json json = {{"host", host},
               {"now_ms", now_ms()},
               {"slots", daemon.options().slots},
               {"slots_used", daemon.slots_used()},
               {"draining", daemon.record().draining},
               {"disk_failure", daemon.disk_failure()},
               {"http_port", http_port},
               {"pid", getpid()},
               {"jobs", Json::array()}};
  if (daemon.nodes() != nullptr) add_nodes(json, *daemon.nodes());
  if (request.contains("job")) {
    json["jobs"].push_back(job_json(daemon, job_of(daemon, request), true));
    return json;
  }
  for (const auto& [id, job] : daemon.jobs()) json["jobs"].push_back(job_json(daemon, job, false));
  return json;
}

Json logs(const Daemon& daemon, const Json& request) {
  only(request, {"op", "job", "from"});
  const Job& job = job_of(daemon, request);
  // In this order: what was written before the end is in the piece, or after it.
  const bool ended = has_ended(job.state);
  const LogPiece piece =
      read_log(daemon.folder_of(job.id), integer(request, "from", INT64_MIN / 2, INT64_MAX / 2), kLogPiece);
  return {{"text", piece.text}, {"next", piece.next}, {"ended", ended}};
}

Json answer(Daemon& daemon, const Json& request, uint16_t http_port) {
  const auto throw_failure = [](const Status& done) {
    if (!done.ok()) throw Refused{done.error()};
  };
  const auto op = request.at("op").get<std::string>();
  if (op == "status") return status(daemon, request, http_port);
  if (op == "logs") return logs(daemon, request);
  if (op == "submit") {
    const auto id = daemon.submit(spec_of(request));
    throw_failure(id.status());
    return {{"job", *id}};
  }
  if (op == "cancel") {
    only(request, {"op", "job"});
    throw_failure(daemon.cancel(job_of(daemon, request).id));
    return Json::object();
  }
  if (op == "drain") {
    only(request, {"op", "on"});
    throw_failure(daemon.drain(request.at("on").get<bool>()));
    return Json::object();
  }
  refuse("L0132", "there is no request '" + op + "'");
}

}  // namespace

std::string answer_request(Daemon& daemon, const std::string& request, uint16_t http_port) {
  Json reply;
  const auto failed = [&reply](const std::string& code, const std::string& message) {
    reply = {{"error", {{"code", code}, {"message", message}}}};
  };
  try {
    reply = answer(daemon, Json::parse(request), http_port);
  } catch (const Refused& refused) {
    failed(refused.error.code, refused.error.message);
  } catch (const Json::exception& fault) {
    failed("L0132", std::string("this is no request: ") + fault.what());
  }
  return reply.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace piper::launcher
