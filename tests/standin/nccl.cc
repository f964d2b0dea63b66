// NCCL on the CPU, for tests of code that drives GPUs: ranks are threads of one process, or processes of one machine; a
// rank is the thread that initialises its communicators. Calls enqueue work to the stand-in's streams; there the
// members of a communicator meet by the number of the call, and a stream stays blocked until all of them have come.
//
// What NCCL would answer with a hang, or not at all, is an asynchronous error here, with words for it:
// - Members whose calls of one number differ in kind, count or type; a send and a receive of different sizes.
// - A deadlock. It is looked for when calls are issued, and no clock is part of it: all communication of a rank is
//   taken to follow its issue order, whatever stream it is on, as NCCL wants it of several communicators on one device.
//   A cycle of ranks, each of which waits in its first unfinished call for the next one, can never end.
// - A member that aborted, or whose thread has ended.
// Calls that NCCL does not come back from wait here as well, and end the process with words where nothing can help:
// - ncclCommAbort and ncclCommDestroy wait until what was launched has ended, which may be after calls of other
//   communicators. In a group all of them are let go before any is waited for.
// - They and ncclCommFinalize wait until no graph holds calls of the communicator.
// - ncclCommFinalize waits for all members.
// Where ranks are processes (nccl_hub.h), nobody sees the issue order of all of them: a deadlock hangs, as NCCL's does,
// until somebody's time is up. The rest is found there, too, when members have come to the call.
//
// Communicators are not blocking: a call is under way until ncclCommGetAsyncError has been asked twice, and only then
// is it enqueued. Whoever enqueues something after a call without asking finds it in front.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/standin/nccl_hub.h"
#include "tests/standin/nccl_order.h"
#include "tests/standin/nccl_standin.h"
#include "tests/standin/nccl_work.h"
#include "tests/standin/standin.h"
#include "tests/standin/streams.h"

namespace {

using piper::standin::advance;
using piper::standin::Call;
using piper::standin::CallId;
using piper::standin::Deadlock;
using piper::standin::difference;
using piper::standin::find_deadlock;
using piper::standin::is_message;
using piper::standin::Key;
using piper::standin::Kind;
using piper::standin::Launch;
using piper::standin::Link;
using piper::standin::member_of;
using piper::standin::name_of;
using piper::standin::participants;
using piper::standin::perform;
using piper::standin::Rank;
using piper::standin::size_of;
using piper::standin::text_of;
using piper::standin::Unit;
using piper::standin::Work;
using piper::standin::World;

bool ranks_are_processes = false;
// Until what waits counts as hanging; only what is wrong takes so long.
constexpr std::chrono::seconds kPatience{30};

struct Meeting {
  std::vector<Call*> arrived;
  bool done = false;
  size_t left = 0;
};

class Nccl {
 public:
  static Nccl& instance() {
    static Nccl* nccl = new Nccl;  // streams may outlive main
    return *nccl;
  }

  std::mutex mutex;
  std::set<Rank*> ranks;

  std::shared_ptr<World> world(const ncclUniqueId& id, int members) {
    std::shared_ptr<World>& found = worlds_[std::string(id.internal, sizeof id.internal)];
    if (found == nullptr) {
      found = std::make_shared<World>();
      found->members.resize(static_cast<size_t>(members));
    }
    return found;
  }
  ncclComm* add(std::unique_ptr<ncclComm> comm) {
    communicators_.push_back(std::move(comm));
    return communicators_.back().get();
  }
  bool knows(const ncclComm* comm) const {
    return std::any_of(communicators_.begin(), communicators_.end(), [&](const auto& c) { return c.get() == comm; });
  }

  // All below: with the mutex.
  void fail(World& world, ncclResult_t result, const std::string& text) {
    world.failed = true;
    for (ncclComm* member : world.members)
      if (member != nullptr && member->error == ncclSuccess && !member->over()) {
        member->error = result;
        member->error_text = text;
      }
  }

  void issue(Rank& rank, const std::shared_ptr<Unit>& unit) {
    for (Call& o : unit->calls) {
      World* world = o.comm->world.get();
      if (is_message(o.kind)) {
        const std::pair<int, int> ends =
            o.kind == Kind::kSend ? std::pair(o.comm->rank, o.peer) : std::pair(o.peer, o.comm->rank);
        o.key = {world, ends.first, ends.second, o.comm->messages[ends]++};
      } else {
        o.key = {world, -1, -1, o.comm->collectives++};
      }
      if (o.comm->link == nullptr) compare(o);
    }
    if (unit->calls[0].comm->link != nullptr) return;
    rank.queue.push_back(unit);
    advance(ranks);
    if (const std::optional<Deadlock> deadlock = find_deadlock(ranks))
      for (World* world : deadlock->worlds) fail(*world, ncclInvalidUsage, deadlock->text);
  }

  void leave(ncclComm& comm, const std::string& how) {
    if (comm.link != nullptr) comm.link->abort(how);
    for (ncclComm* member : comm.world->members)
      if (member != nullptr && member != &comm && !member->over() && !member->finalized &&
          member->error == ncclSuccess) {
        member->error = ncclRemoteError;
        member->error_text = member_of(comm) + " " + how;
      }
    if (comm.owner != nullptr) {
      for (const auto& unit : comm.owner->queue)
        for (Call& o : unit->calls)
          if (o.comm == &comm) o.matched = true;
      comm.owner->device_bytes -= bytes_of(comm);
    }
    advance(ranks);
    changed_.notify_all();
  }

  // On a stream.
  void run(Launch& launch) {
    std::unique_lock lock(mutex);
    const uint64_t round = launch.runs++;
    for (const Launch* before : launch.after)
      changed_.wait(lock, [&] {
        const bool one_graph = before->capture != nullptr && before->capture == launch.capture;
        return before->finished > (one_graph ? round : 0) ||
               std::all_of(launch.calls.begin(), launch.calls.end(), is_let_go);
      });
    if (launch.calls[0]->comm->link != nullptr) {
      lock.unlock();
      meet_processes(launch, round);
      lock.lock();
    } else {
      meet_threads(launch, round, lock);
    }
    ++launch.finished;
    changed_.notify_all();
  }

  // Whether nothing of it is on a stream or in a graph.
  static bool at_rest(const ncclComm& comm) {
    const auto ended = [](const auto& launch) {
      return launch->finished == launch->runs && (launch->capture != nullptr || launch->runs > 0);
    };
    return comm.in_graphs.use_count() == 1 && std::all_of(comm.launches.begin(), comm.launches.end(), ended);
  }
  static bool all_finalized(const ncclComm& comm) {
    if (comm.link != nullptr) return comm.link->all_finalized();
    const auto finalized = [](const ncclComm* member) { return member != nullptr && member->finalized; };
    return std::all_of(comm.world->members.begin(), comm.world->members.end(), finalized);
  }
  int waiting() const { return waiting_; }
  // Graphs say nothing when they go: asked again and again.
  void await_rest(std::unique_lock<std::mutex>& lock, const ncclComm& comm, const char* call, bool finalized) {
    ++waiting_;
    for (const auto begin = std::chrono::steady_clock::now(); !at_rest(comm) || (finalized && !all_finalized(comm));) {
      changed_.wait_for(lock, std::chrono::milliseconds(1));
      if (std::chrono::steady_clock::now() - begin < kPatience) continue;
      std::fprintf(stderr, "the stand-in for NCCL: %s of %s waits for ever: %s\n", call, member_of(comm).c_str(),
                   comm.in_graphs.use_count() > 1 ? "graphs hold calls of it"
                   : !at_rest(comm)               ? "its calls stand behind what does not end"
                                                  : "other members have not finalized it");
      std::abort();
    }
    --waiting_;
  }

  static size_t bytes_of(const ncclComm& comm) { return comm.joined ? comm.world->members.size() << 20 : 0; }

 private:
  static bool is_let_go(const Call* o) { return o->comm->aborted; }

  static void meet_processes(const Launch& launch, uint64_t round) {
    const auto id = [&](const Call* o) { return CallId{o->key.from, o->key.to, o->key.number, round}; };
    for (const Call* o : launch.calls) o->comm->link->begin(id(o), *o, o->read.bytes, o->written.bytes);
    for (const Call* o : launch.calls) o->comm->link->wait(id(o));
  }

  void meet_threads(Launch& launch, uint64_t round, std::unique_lock<std::mutex>& lock) {
    std::vector<std::pair<Call*, Meeting*>> mine;
    for (Call* o : launch.calls) {
      Meeting& meeting = meetings_[{o->key, round}];
      mine.emplace_back(o, &meeting);
      meeting.arrived.push_back(o);
      if (meeting.arrived.size() < participants(*o).size() || o->comm->world->failed) continue;
      if (std::any_of(meeting.arrived.begin(), meeting.arrived.end(), is_let_go)) continue;
      std::vector<const Work*> work;
      for (const Call* each : meeting.arrived) work.push_back(each);
      perform(std::move(work));
      meeting.done = true;
      changed_.notify_all();
    }
    for (const auto& [call, meeting] : mine) {
      changed_.wait(lock, [&, o = call, m = meeting] { return m->done || is_let_go(o); });
      const size_t all = participants(*call).size();
      if (meeting->done && ++meeting->left == all) meetings_.erase({call->key, round});
    }
  }

  // With what the other members have issued under this number.
  void compare(const Call& o) {
    std::vector<Call>& issued = issued_[o.key];
    issued.push_back(o);
    const Call& first = issued.front();
    const std::string differ = difference(o.comm->name, o.key.from, o.key.to, o.key.number, first, o);
    if (!differ.empty()) fail(*o.key.world, ncclInvalidUsage, differ);
    if (issued.size() == participants(o).size()) issued_.erase(o.key);
  }

  std::condition_variable changed_;
  int waiting_ = 0;  // threads, in await_rest()
  std::map<std::string, std::shared_ptr<World>> worlds_;
  std::vector<std::unique_ptr<ncclComm>>
      communicators_;                        // for ever: the use of handles that were destroyed is reported
  std::map<Key, std::vector<Call>> issued_;  // not by all members yet
  std::map<std::pair<Key, uint64_t>, Meeting> meetings_;  // by call and round of its graph
};

class Thread {
 public:
  Thread() {
    std::lock_guard lock(Nccl::instance().mutex);
    Nccl::instance().ranks.insert(&rank);
  }
  ~Thread() {
    Nccl& nccl = Nccl::instance();
    std::lock_guard lock(nccl.mutex);
    for (ncclComm* comm : rank.communicators) {
      if (!comm->over()) nccl.leave(*comm, "has ended without ncclCommDestroy");
      comm->owner = nullptr;
    }
    nccl.ranks.erase(&rank);
  }
  Rank rank;
};

Rank& this_rank() {
  thread_local Thread thread;
  return thread.rank;
}

ncclResult_t refuse(ncclResult_t result, const std::string& text) {
  Rank& rank = this_rank();
  rank.refusal = text;
  if (rank.depth > 0 && rank.refused == ncclSuccess) rank.refused = result;
  return result;
}

// For members in other processes; with the mutex.
void hear_of_failure(ncclComm& comm) {
  if (comm.link == nullptr || comm.error != ncclSuccess) return;
  if (const auto failure = comm.link->failure()) std::tie(comm.error, comm.error_text) = *failure;
}
bool all_joined(const ncclComm& comm) {
  return comm.link != nullptr ? comm.link->all_joined() : comm.world->joined == comm.world->members.size();
}

// What is wrong with a communicator that is to be used; with the mutex.
ncclResult_t usable(ncclComm* comm, const char* call) {
  if (comm == nullptr || !Nccl::instance().knows(comm) || comm->over())
    return refuse(ncclInvalidArgument, std::string(call) + ": the communicator is none, or is destroyed");
  hear_of_failure(*comm);
  if (comm->error != ncclSuccess) return refuse(comm->error, comm->error_text);
  if (comm->finalized) return refuse(ncclInvalidUsage, std::string(call) + ": the communicator is finalized");
  if (!comm->joined || !all_joined(*comm) || comm->under_way != nullptr)
    return refuse(ncclInvalidArgument, std::string(call) + ": attempt to use communicator '" + comm->name +
                                           "' before the previous operation returned ncclSuccess");
  return ncclSuccess;
}

void enqueue(const std::shared_ptr<Unit>& unit) {
  std::vector<Launch*> launches;
  {
    std::lock_guard lock(Nccl::instance().mutex);
    if (unit->enqueued) return;
    unit->enqueued = true;
    for (Call& o : unit->calls) {
      const auto same = [&](const Launch* launch) { return launch->stream == o.stream; };
      auto found = std::find_if(launches.begin(), launches.end(), same);
      if (found == launches.end()) {
        auto launch = std::make_unique<Launch>();
        launch->unit = unit;
        launch->stream = o.stream;
        launch->capture = o.stream->capture;
        launches.push_back(launch.get());
        o.comm->launches.push_back(std::move(launch));
        found = launches.end() - 1;
      }
      (*found)->calls.push_back(&o);
      Launch* const before = o.comm->last;
      if (before != nullptr && before->stream != o.stream && before->unit != unit) (*found)->after.push_back(before);
    }
    for (Launch* launch : launches)
      for (const Call* o : launch->calls) o->comm->last = launch;
  }
  for (Launch* launch : launches) {
    std::vector<std::shared_ptr<const char>> held;
    if (launch->capture != nullptr)
      for (const Call* o : launch->calls) held.push_back(o->comm->in_graphs);
    piper::standin::Operation work{
        text_of(*launch->calls[0]), {}, {}, [launch, held = std::move(held)] { Nccl::instance().run(*launch); }};
    for (const Call* o : launch->calls) {
      if (o->read.bytes > 0) work.reads.push_back(o->read);
      if (o->written.bytes > 0) work.writes.push_back(o->written);
    }
    const cudaError_t error = piper::standin::enqueue(launch->stream, std::move(work));
    if (error == cudaSuccess) continue;
    std::lock_guard lock(Nccl::instance().mutex);
    launch->finished = ++launch->runs;  // it is nowhere
    for (const Call* o : launch->calls)
      Nccl::instance().fail(*o->key.world, ncclUnhandledCudaError,
                            text_of(*o) + " of " + member_of(*o->comm) + ": " + cudaGetErrorString(error));
  }
}

ncclResult_t end_group(Rank& rank) {
  const ncclResult_t refused = rank.refused;
  std::vector<ncclComm*> joining = std::move(rank.joining);
  std::optional<std::vector<Call>> joined = piper::standin::with_own_messages_joined(std::exchange(rank.calls, {}));
  const std::vector<ncclComm*> aborting = std::move(rank.aborting);
  rank.joining.clear();
  rank.aborting.clear();
  rank.refused = ncclSuccess;
  Nccl& nccl = Nccl::instance();
  std::unique_lock lock(nccl.mutex);
  for (const ncclComm* comm : aborting) nccl.await_rest(lock, *comm, "ncclCommAbort", false);
  if (refused != ncclSuccess) return refused;
  if (!joined) return refuse(ncclInvalidUsage, "a message of a member to itself has no other end in its group");
  std::vector<Call>& calls = *joined;
  for (ncclComm* comm : joining) {
    comm->joined = true;
    ++comm->world->joined;
    rank.device_bytes += Nccl::bytes_of(*comm);
  }
  if (!calls.empty()) {
    const auto unit = std::make_shared<Unit>();
    unit->calls = std::move(calls);
    for (Call& o : unit->calls) {
      o.comm->under_way = unit;
      o.comm->asked = false;
    }
    nccl.issue(rank, unit);
    return ncclInProgress;
  }
  return joining.empty() ? ncclSuccess : ncclInProgress;
}

// A call, alone or in a group that is open.
ncclResult_t call(Call o, const void* send, size_t send_bytes, void* recv, size_t recv_bytes) {
  Rank& rank = this_rank();
  {
    std::lock_guard lock(Nccl::instance().mutex);
    if (const ncclResult_t wrong = usable(o.comm, name_of(o.kind)); wrong != ncclSuccess) return wrong;
    o.member = static_cast<size_t>(o.comm->rank);
    const auto members = static_cast<int>(o.comm->world->members.size());
    if (size_of(o.type) == 0) return refuse(ncclInvalidArgument, std::string(name_of(o.kind)) + ": no such type");
    // For a member to itself where ranks are processes: nobody does that.
    const bool to_itself = o.peer == o.comm->rank;
    if (is_message(o.kind) && (o.peer < 0 || o.peer >= members || (to_itself && o.comm->link != nullptr)))
      return refuse(ncclInvalidArgument, std::string(name_of(o.kind)) + ": invalid peer " + std::to_string(o.peer));
    for (const Call& other : rank.calls)
      if (other.comm == o.comm && is_message(other.kind) != is_message(o.kind))
        return refuse(ncclInvalidUsage, "collectives and messages of '" + o.comm->name + "' in one group");
  }
  if (send != nullptr && send_bytes > 0) o.send = piper::standin::alias(send, send_bytes);
  if (recv != nullptr && recv_bytes > 0) o.recv = piper::standin::alias(recv, recv_bytes);
  if ((send_bytes > 0 && o.send == nullptr) || (recv_bytes > 0 && o.recv == nullptr))
    return refuse(ncclInvalidArgument, std::string(name_of(o.kind)) + ": not memory of a device");
  o.read = {send, send_bytes};
  o.written = {recv, recv_bytes};
  rank.calls.push_back(o);
  return rank.depth > 0 ? ncclInProgress : end_group(rank);  // NCCL's answer within a group is either
}

}  // namespace

namespace piper::standin {

void set_ranks_are_processes(bool processes) { ranks_are_processes = processes; }

std::vector<NcclCommunicatorSeen> nccl_communicators() {
  const Rank& rank = this_rank();
  std::lock_guard lock(Nccl::instance().mutex);
  std::vector<NcclCommunicatorSeen> seen;
  for (const ncclComm* c : rank.communicators)
    seen.push_back({c->name, static_cast<int>(c->world->members.size()), c->rank, c->max_ctas, c->group, c->finalized,
                    c->destroyed});
  return seen;
}

int nccl_waiting() {
  std::lock_guard lock(Nccl::instance().mutex);
  return Nccl::instance().waiting();
}

}  // namespace piper::standin

extern "C" {

// Each rank's device has nothing but the rank's communicators on it, as far as this says.
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = size_t{8} << 30;
  *free = *total - this_rank().device_bytes;
  return cudaSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<uint64_t> ids{0};
  const uint64_t number = ++ids;
  std::memset(id, 0, sizeof *id);
  if (ranks_are_processes) {
    const std::string hub = piper::standin::open_hub();
    std::memcpy(id->internal, hub.data(), std::min(hub.size(), sizeof id->internal - 1));
    return hub.empty() ? refuse(ncclSystemError, "no hub can be opened") : ncclSuccess;
  }
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int at, ncclConfig_t* config) {
  *comm = nullptr;
  if (config == nullptr || config->size != sizeof(ncclConfig_t) || config->magic != 0xcafebeef)
    return refuse(ncclInvalidArgument, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  if (config->blocking != 0) return refuse(ncclInvalidArgument, "the stand-in's communicators do not block");
  if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && (config->maxCTAs <= 0 || config->maxCTAs > 64))
    return refuse(ncclInvalidArgument, "invalid maxCTAs " + std::to_string(config->maxCTAs));
  if (at < 0 || at >= nranks) return refuse(ncclInvalidArgument, "invalid rank requested: " + std::to_string(at));
  Rank& rank = this_rank();
  {
    Nccl& nccl = Nccl::instance();
    std::lock_guard lock(nccl.mutex);
    auto made = std::make_unique<ncclComm>();
    made->world = nccl.world(id, nranks);
    made->name = config->commName == nullptr ? "" : config->commName;
    std::vector<ncclComm*>& members = made->world->members;
    if (members.size() != static_cast<size_t>(nranks) || members[static_cast<size_t>(at)] != nullptr)
      return refuse(ncclInvalidUsage, "member " + std::to_string(at) + " of '" + made->name + "' is there already");
    made->owner = &rank;
    made->rank = at;
    made->max_ctas = config->maxCTAs == NCCL_CONFIG_UNDEF_INT ? 0 : config->maxCTAs;
    if (rank.depth > 0) made->group = rank.groups + 1;
    if (ranks_are_processes) {
      made->link = Link::join(id.internal, at, nranks, made->name);
      if (made->link == nullptr)
        return refuse(ncclSystemError, "nobody is there who made the id of '" + made->name + "'");
    }
    *comm = nccl.add(std::move(made));
    members[static_cast<size_t>(at)] = *comm;
  }
  rank.communicators.push_back(*comm);
  rank.joining.push_back(*comm);
  return rank.depth > 0 ? ncclSuccess : end_group(rank);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  std::shared_ptr<Unit> unit;
  {
    std::lock_guard lock(Nccl::instance().mutex);
    if (comm == nullptr || !Nccl::instance().knows(comm) || comm->over())
      return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: the communicator is none, or is destroyed");
    hear_of_failure(*comm);
    *state = comm->error;
    if (comm->error != ncclSuccess) return ncclSuccess;
    if (!all_joined(*comm) || (comm->finalized && !(Nccl::at_rest(*comm) && Nccl::all_finalized(*comm))) ||
        (comm->under_way != nullptr && !std::exchange(comm->asked, true))) {
      *state = ncclInProgress;
      return ncclSuccess;
    }
    unit = std::move(comm->under_way);
    comm->under_way = nullptr;
  }
  if (unit != nullptr) enqueue(unit);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  std::lock_guard lock(Nccl::instance().mutex);
  if (const ncclResult_t wrong = usable(comm, "ncclCommFinalize"); wrong != ncclSuccess) return wrong;
  comm->finalized = true;
  if (comm->link != nullptr) comm->link->finalize();
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Nccl& nccl = Nccl::instance();
  std::unique_lock lock(nccl.mutex);
  if (comm == nullptr || !nccl.knows(comm) || comm->over())
    return refuse(ncclInvalidArgument, "ncclCommDestroy: the communicator is none, or is destroyed");
  if (!comm->finalized) return refuse(ncclInvalidUsage, "ncclCommDestroy: '" + comm->name + "' was not finalized");
  nccl.await_rest(lock, *comm, "ncclCommDestroy", true);
  comm->owner->device_bytes -= Nccl::bytes_of(*comm);
  comm->destroyed = true;
  if (comm->link != nullptr) comm->link->leave();
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Nccl& nccl = Nccl::instance();
  Rank& rank = this_rank();
  {
    std::lock_guard lock(nccl.mutex);
    if (comm == nullptr || !nccl.knows(comm) || comm->over())
      return refuse(ncclInvalidArgument, "ncclCommAbort: the communicator is none, or is destroyed");
    comm->aborted = true;
    nccl.leave(*comm, "has aborted");
  }
  rank.aborting.push_back(comm);
  return rank.depth > 0 ? ncclSuccess : end_group(rank);
}

const char* ncclGetLastError(ncclComm_t comm) {
  std::lock_guard lock(Nccl::instance().mutex);
  return comm != nullptr && comm->error != ncclSuccess ? comm->error_text.c_str() : this_rank().refusal.c_str();
}

ncclResult_t ncclGroupStart() {
  ++this_rank().depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  Rank& rank = this_rank();
  if (rank.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  if (--rank.depth > 0) return ncclSuccess;
  if (!rank.joining.empty()) ++rank.groups;
  return end_group(rank);
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call({{Kind::kSend, count, type}, comm, peer, stream}, from, count * size_of(type), nullptr, 0);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call({{Kind::kReceive, count, type}, comm, peer, stream}, nullptr, 0, to, count * size_of(type));
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return call({{Kind::kAllReduce, count, type}, comm, -1, stream}, from, count * size_of(type), to,
              count * size_of(type));
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  const size_t members = comm == nullptr ? 0 : comm->world->members.size();
  return call({{Kind::kReduceScatter, count, type}, comm, -1, stream}, from, members * count * size_of(type), to,
              count * size_of(type));
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const size_t members = comm == nullptr ? 0 : comm->world->members.size();
  return call({{Kind::kAllGather, count, type}, comm, -1, stream}, from, count * size_of(type), to,
              members * count * size_of(type));
}

}  // extern "C"
