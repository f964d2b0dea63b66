// This node among others: what each of them has free, where a job's parts may go, the parts that are here, and the
// attempts that this daemon coordinates. The Daemon has one where it was started with a list of nodes; it decides what
// runs when, this carries it out. Of the event loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cluster/message_auth.h"
#include "launcher/cluster/node_list.h"
#include "launcher/cluster/parts.h"
#include "launcher/cluster/peer_server.h"
#include "launcher/cluster/placement.h"
#include "launcher/cluster/spread_attempt.h"

namespace piper::launcher {

struct NodesOptions {
  std::vector<NodeAddress> list;
  std::string own;    // the name of this node among them
  std::string token;  // file
  std::string listen_host;
  uint16_t listen_port = kNodePort;
  std::chrono::milliseconds lease{10000};
  // As in DaemonOptions:
  std::string state_folder, launcher;
  JobLog::Limits log;
  sigset_t blocked{};
};

class Nodes {
 public:
  // What it asks of the daemon.
  struct Home {
    std::function<NodeState()> state;  // of this node
    std::function<void()> changed;     // something may fit now that did not before
  };
  // L0136, L0139. The loop outlives it.
  static Result<std::unique_ptr<Nodes>> open(EventLoop& loop, NodesOptions options);
  ~Nodes();
  // Before it is used: the daemon, which outlives it.
  void serve(Home home);

  std::vector<NodeState> states() const;  // in the order of the list
  // A part's lease, and what a coordinator waits beyond it: so long may a part live that nobody answers.
  std::chrono::milliseconds fence() const { return options_.lease + SpreadAttempt::kMargin; }
  // `folder`: of the job, whose `placed` says where to. The attempt ends before this does. L0133, L0137.
  Result<std::unique_ptr<RunningAttempt>> start(const Job& job, const std::string& folder, RunningAttempt::Ended ended,
                                                SpreadAttempt::Leaving leaving);
  Parts& parts() { return *parts_; }
  const Parts& parts() const { return *parts_; }
  const std::string& own() const { return options_.own; }

  static constexpr std::chrono::milliseconds kLookEvery{1000};

 private:
  Nodes(EventLoop& loop, NodesOptions options, Token token);
  std::optional<std::string> answer(const std::string& path, const std::string& body);
  void send(const std::string& node, const std::string& path, std::string body, PeerLink::Answered answered);
  void look();
  void take_state(const std::string& node, const PeerAnswer& answer);
  bool is_node(const std::string& name) const;

  EventLoop& loop_;
  const NodesOptions options_;
  const Token token_;
  Home home_;
  std::map<std::string, std::unique_ptr<PeerLink>> links_;  // by node, except this one
  std::map<std::string, NodeState> states_;                 // likewise
  std::map<std::string, bool> looking_;                     // a look is under way
  std::map<std::string, SpreadAttempt*> attempts_;          // by epoch
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<EventLoop::Watch> timer_;
  std::unique_ptr<PeerServer> server_;
};

}  // namespace piper::launcher
