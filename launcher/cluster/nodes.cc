#include "launcher/cluster/nodes.h"

#include <algorithm>
#include <cstdio>

namespace piper::launcher {

namespace {

// The daemon's handle of an attempt, which is known by its epoch as long as there is one.
class Registered : public RunningAttempt {
 public:
  Registered(std::map<std::string, SpreadAttempt*>& all, std::unique_ptr<SpreadAttempt> attempt)
      : all_(all), attempt_(std::move(attempt)) {
    all_.emplace(attempt_->epoch(), attempt_.get());
  }
  ~Registered() override { all_.erase(attempt_->epoch()); }
  void signal(int number, std::optional<std::chrono::milliseconds> kill_after) override {
    attempt_->signal(number, kill_after);
  }

 private:
  std::map<std::string, SpreadAttempt*>& all_;
  std::unique_ptr<SpreadAttempt> attempt_;
};

}  // namespace

Result<std::unique_ptr<Nodes>> Nodes::open(EventLoop& loop, NodesOptions options) {
  PIPER_ASSIGN(Token token, Token::read(options.token));
  std::unique_ptr<Nodes> nodes(new Nodes(loop, std::move(options), std::move(token)));
  Nodes* const self = nodes.get();
  PIPER_ASSIGN(
      nodes->server_,
      PeerServer::open(loop, self->token_, self->options_.own, self->options_.listen_host, self->options_.listen_port,
                       [self](const std::string& path, const std::string& body) { return self->answer(path, body); }));
  return nodes;
}

Nodes::Nodes(EventLoop& loop, NodesOptions options, Token token)
    : loop_(loop), options_(std::move(options)), token_(std::move(token)) {
  for (const NodeAddress& node : options_.list) {
    if (node.name == options_.own) continue;
    links_.emplace(node.name, PeerLink::open(loop_, token_, node));
    NodeState state;
    state.name = node.name;
    state.slots = node.slots;
    state.why = "was not asked yet";
    states_.emplace(node.name, state);
  }
}

Nodes::~Nodes() = default;

void Nodes::serve(Home home) {
  home_ = std::move(home);
  PartsOptions options;
  options.node = options_.own;
  options.folder = options_.state_folder + "/parts";
  options.hangs = options_.state_folder + "/hangs";
  options.launcher = options_.launcher;
  options.blocked = options_.blocked;
  Parts::Node node;
  node.free_slots = [this] {
    const NodeState own = home_.state();
    return own.slots - own.used;
  };
  node.starts = [this] { return !home_.state().drained; };
  node.changed = [this] { home_.changed(); };
  parts_ = std::make_unique<Parts>(
      loop_, options,
      [this](const std::string& to, const std::string& path, std::string body, PeerLink::Answered answered) {
        send(to, path, std::move(body), std::move(answered));
      },
      node);
  parts_->open();
  look();
}

std::vector<NodeState> Nodes::states() const {
  std::vector<NodeState> states;
  for (const NodeAddress& node : options_.list)
    states.push_back(node.name == options_.own ? home_.state() : states_.at(node.name));
  return states;
}

Result<std::unique_ptr<RunningAttempt>> Nodes::start(const Job& job, const std::string& folder,
                                                     RunningAttempt::Ended ended, SpreadAttempt::Leaving leaving) {
  SpreadStart start;
  start.own_node = options_.own;
  start.nodes = job.placed;
  start.folder = folder;
  start.log = options_.log;
  start.lease = options_.lease;
  for (const NodeAddress& node : options_.list)
    if (node.name == job.placed.at(0)) start.first_host = node.host;
  const auto send_to = [this](const std::string& to, const std::string& path, std::string body,
                              PeerLink::Answered answered) { send(to, path, std::move(body), std::move(answered)); };
  PIPER_ASSIGN(auto attempt, SpreadAttempt::start(loop_, start, job, send_to, std::move(ended), std::move(leaving)));
  return std::unique_ptr<RunningAttempt>(std::make_unique<Registered>(attempts_, std::move(attempt)));
}

std::optional<std::string> Nodes::answer(const std::string& path, const std::string& body) {
  if (!parts_) return std::nullopt;
  if (path == "/state") return text_of(home_.state());
  if (path == "/hold") {
    Hold hold;
    if (!read_message(body, hold) || !is_node(hold.from)) return std::nullopt;
    return text_of(parts_->hold(hold));
  }
  if (path != "/report") return std::nullopt;
  Report report;
  if (!read_message(body, report)) return std::nullopt;
  const auto found = attempts_.find(report.epoch);
  // An attempt that is over, or one of a daemon before this one: its part ends, and keeps nothing back for it.
  ReportAnswer over;
  over.log_next = report.log_from + static_cast<int64_t>(report.log.size());
  return text_of(found == attempts_.end() ? over : found->second->take(report));
}

void Nodes::send(const std::string& node, const std::string& path, std::string body, PeerLink::Answered answered) {
  if (const auto link = links_.find(node); link != links_.end())
    return link->second->send(path, std::move(body), std::move(answered));
  loop_.post([this, path, body = std::move(body), answered = std::move(answered)] {
    answered({answer(path, body), "does not understand it"});
  });
}

void Nodes::look() {
  for (const auto& [name, link] : links_) {
    if (std::exchange(looking_[name], true)) continue;
    link->send("/state", "{}", [this, node = name](const PeerAnswer& answer) { take_state(node, answer); });
  }
  timer_ = loop_.after(kLookEvery, [this] { look(); });
}

void Nodes::take_state(const std::string& node, const PeerAnswer& answer) {
  looking_[node] = false;
  NodeState& known = states_.at(node);
  const std::string before = known.why;
  NodeState told;
  const bool answers = answer.body && read_message(*answer.body, told) && told.name == node;
  known.answers = answers;
  known.why = answers ? "" : answer.body ? "is not this node" : answer.why;
  if (answers) {
    known.slots = told.slots;
    known.used = told.used;
    known.drained = told.drained;
  }
  if (known.why != before)
    std::fprintf(stderr, "piperd: %s %s\n", node.c_str(), answers ? "answers" : known.why.c_str());
  home_.changed();
}

bool Nodes::is_node(const std::string& name) const {
  return std::any_of(options_.list.begin(), options_.list.end(),
                     [&](const NodeAddress& node) { return node.name == name; });
}

}  // namespace piper::launcher
