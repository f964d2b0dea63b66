#include "tests/standin/nccl_hub.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace piper::standin {

namespace {

// One of Linux's abstract names: no file is left behind.
sockaddr_un address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  return address;
}

class Hub {
 public:
  // The members' threads; `socket` is that of one of them.
  void serve(int socket) {
    Letter letter;
    std::string bytes;
    int32_t member = -1;
    bool ended = false;
    while (read_letter(socket, letter, bytes)) {
      std::lock_guard lock(mutex_);
      switch (letter.note) {
        case Note::kJoin: join(socket, member = letter.member, letter.members, bytes); break;
        case Note::kCall: come(letter, std::move(bytes)); break;
        case Note::kFinalize:
          if (++finalized_ == letter.members)
            for (const auto& [each, to] : sockets_) tell(each, {.note = Note::kFinalize}, "");
          break;
        case Note::kLeave: ended = true; break;
        case Note::kAbort:
          ended = true;
          gone(member, bytes);
          break;
        case Note::kJoined:
        case Note::kResult:
        case Note::kFailed: break;  // never sent to a hub
      }
    }
    std::lock_guard lock(mutex_);
    if (!ended && member >= 0) gone(member, "has ended without ncclCommDestroy");
    sockets_.erase(member);
    close(socket);
  }

 private:
  struct Arrival {
    Letter letter;
    std::string sent, received;
  };

  void join(int socket, int32_t member, int32_t members, const std::string& name) {
    name_ = name;
    sockets_[member] = socket;
    if (sockets_.size() < static_cast<size_t>(members)) return;
    for (const auto& [each, to] : sockets_) tell(each, {.note = Note::kJoined}, "");
  }

  void come(const Letter& letter, std::string sent) {
    std::vector<Arrival>& arrived = arrived_[letter.call];
    arrived.push_back({letter, std::move(sent), {}});
    const auto work_of = [](const Arrival& a) {
      Work work{a.letter.kind, a.letter.count, a.letter.type};
      work.member = static_cast<size_t>(a.letter.member);
      return work;
    };
    const CallId& id = letter.call;
    const std::string differ =
        difference(name_, id.from, id.to, id.number, work_of(arrived.front()), work_of(arrived.back()));
    if (!differ.empty()) return fail(-1, ncclInvalidUsage, differ);
    const bool message = is_message(letter.kind);
    if (arrived.size() < (message ? 2 : static_cast<size_t>(letter.members))) return;
    std::vector<Work> works;
    std::vector<const Work*> all;
    for (Arrival& a : arrived) {
      Work work = work_of(a);
      a.received.resize(received_bytes(work, arrived.size()));
      work.send = reinterpret_cast<const std::byte*>(a.sent.data());
      work.recv = reinterpret_cast<std::byte*>(a.received.data());
      works.push_back(work);
    }
    for (const Work& work : works) all.push_back(&work);
    perform(all);
    for (const Arrival& a : arrived) tell(a.letter.member, {.note = Note::kResult, .call = id}, a.received);
    arrived_.erase(id);
  }

  void gone(int32_t member, const std::string& how) {
    fail(member, ncclRemoteError, "member " + std::to_string(member) + " of '" + name_ + "' " + how);
  }
  void fail(int32_t but, ncclResult_t result, const std::string& why) {
    for (const auto& [member, socket] : sockets_)
      if (member != but) tell(member, {.note = Note::kFailed, .result = result}, why);
  }
  // Its thread notices where a member does not read any more.
  void tell(int32_t member, Letter letter, const std::string& bytes) {
    letter.bytes = bytes.size();
    if (const auto found = sockets_.find(member); found != sockets_.end())
      (void)write_letter(found->second, letter, bytes.data());
  }

  std::mutex mutex_;
  std::string name_;
  std::map<int32_t, int> sockets_;  // by member
  int32_t finalized_ = 0;           // members
  std::map<CallId, std::vector<Arrival>> arrived_;
};

}  // namespace

std::string open_hub() {
  static std::atomic<int> hubs{0};
  const std::string name = "piper standin nccl " + std::to_string(getpid()) + " " + std::to_string(++hubs);
  const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(name);
  if (listening < 0 || bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listening, SOMAXCONN) != 0)
    return {};
  std::thread([listening, hub = std::make_shared<Hub>()] {
    for (;;) {
      const int member = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
      if (member >= 0) std::thread([hub, member] { hub->serve(member); }).detach();
    }
  }).detach();
  return name;
}

std::shared_ptr<Link> Link::join(const std::string& hub, int member, int members, const std::string& communicator) {
  const int to_hub = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(hub);
  if (to_hub < 0) return nullptr;
  if (connect(to_hub, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(to_hub);
    return nullptr;
  }
  std::shared_ptr<Link> link(new Link(to_hub, member, members));
  link->write({.note = Note::kJoin, .bytes = communicator.size()}, communicator.data());
  std::thread([link] { link->read(); }).detach();
  return link;
}

Link::~Link() { close(socket_); }

void Link::read() {
  Letter letter;
  std::string bytes;
  while (read_letter(socket_, letter, bytes)) {
    std::lock_guard lock(mutex_);
    if (letter.note == Note::kJoined) joined_ = true;
    if (letter.note == Note::kFinalize) all_finalized_ = true;
    if (letter.note == Note::kFailed && !failure_) failure_ = {letter.result, bytes};
    if (letter.note == Note::kResult && !aborted_) {
      Open& call = open_.at(letter.call);
      if (call.recv_bytes > 0) std::memcpy(call.work.recv, bytes.data(), call.recv_bytes);
      call.done = true;
      changed_.notify_all();
    }
  }
  std::lock_guard lock(mutex_);
  if (!failure_ && !left_ && !all_finalized_)
    failure_ = {ncclRemoteError, "the process that made the communicator has ended"};
}

void Link::write(Letter letter, const void* bytes) {
  letter.member = member_;
  letter.members = members_;
  std::lock_guard lock(writing_);
  (void)write_letter(socket_, letter, bytes);  // read() notices where the hub has gone
}

bool Link::all_joined() {
  std::lock_guard lock(mutex_);
  return joined_;
}

std::optional<std::pair<ncclResult_t, std::string>> Link::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Link::begin(const CallId& id, const Work& work, size_t send_bytes, size_t recv_bytes) {
  {
    std::lock_guard lock(mutex_);
    open_[id] = {work, recv_bytes, false};
  }
  write(
      {.note = Note::kCall, .call = id, .kind = work.kind, .type = work.type, .count = work.count, .bytes = send_bytes},
      work.send);
}

void Link::wait(const CallId& id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return aborted_ || open_.at(id).done; });
  open_.erase(id);
}

void Link::finalize() { write({.note = Note::kFinalize}, nullptr); }

bool Link::all_finalized() {
  std::lock_guard lock(mutex_);
  return all_finalized_;
}

void Link::leave() {
  {
    std::lock_guard lock(mutex_);
    left_ = true;
  }
  write({.note = Note::kLeave}, nullptr);
  shutdown(socket_, SHUT_WR);
}

void Link::abort(const std::string& how) {
  {
    std::lock_guard lock(mutex_);
    aborted_ = left_ = true;
  }
  changed_.notify_all();
  write({.note = Note::kAbort, .bytes = how.size()}, how.data());
  shutdown(socket_, SHUT_WR);
}

}  // namespace piper::standin
