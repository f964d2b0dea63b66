// The parts of jobs that this node has for coordinators, its own daemon among them: slots that are held, a
// piper-launch, what became of it. A part reports a few times a second to its coordinator and lives by the answers: one
// that has had none for its lease ends itself, so that no two copies of a job ever run. Of the event loop's thread;
// what a daemon that was killed has left is ended by the next one before it holds anything.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/messages.h"
#include "launcher/cluster/peer_link.h"
#include "launcher/daemon/attempt.h"
#include "launcher/daemon/event_loop.h"
#include "launcher/store_socket.h"

namespace piper::launcher {

struct PartsOptions {
  std::string node;      // the name of this one
  std::string folder;    // of parts, in the state folder
  std::string hangs;     // what is kept of hangs outlives the part
  std::string launcher;  // the path of piper-launch
  sigset_t blocked{};    // signals, of what is started
};

// What status shows of a part.
struct PartView {
  std::string coordinator, name;
  int64_t job = 0;
  int32_t ranks = 0;
  PartState state = PartState::kHeld;
};

class Parts {
 public:
  using Send = std::function<void(const std::string& node, const std::string& path, std::string body,
                                  PeerLink::Answered answered)>;
  // What it asks of the daemon.
  struct Node {
    std::function<int32_t()> free_slots;
    std::function<bool()> starts;   // it is not drained, and does not end
    std::function<void()> changed;  // slots have become free
  };
  // The loop outlives it.
  Parts(EventLoop& loop, PartsOptions options, Send send, Node node);
  ~Parts();
  // Ends what the daemon before has left.
  void open();

  HoldAnswer hold(const Hold& hold);
  int32_t slots_used() const;
  bool idle() const { return parts_.empty(); }
  std::vector<PartView> views() const;
  // Ranks that save checkpoints are asked to do so and stop, and their coordinators learn why.
  void drain();
  // All are asked to end.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Part;

  void tick(Part& part);
  void report(Part& part);
  Report report_of(const Part& part) const;
  void answered(Part& part, const ReportAnswer& answer);
  void start(Part& part, const ReportAnswer& answer);
  void attempt_ended(Part& part, int exit_status);
  void settle(Part& part);
  void ended(Part& part);
  void kill(Part& part);
  void leave(Part& part, int number);
  void drop(const std::string& epoch);
  void settle_leavings();

  EventLoop& loop_;
  const PartsOptions options_;
  const Send send_;
  const Node node_;
  std::map<std::string, std::unique_ptr<Part>> parts_;  // by epoch
  std::vector<std::string> leavings_;                   // folders of parts of the daemon before
  std::unique_ptr<EventLoop::Watch> settling_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace piper::launcher
