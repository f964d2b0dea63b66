// Where the members of one communicator meet when they are processes: threads of the process that made its id, which
// says where they are. What members give in a call comes here, is added or handed on (nccl_work.h), and goes back.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/standin/nccl_wire.h"

namespace piper::standin {

// Opens a hub; it ends with the process. The name of a socket, which other processes of this machine reach alone.
std::string open_hub();

// A member's way to the hub. Calls on any thread.
class Link {
 public:
  // Null: there is no hub of that name.
  static std::shared_ptr<Link> join(const std::string& hub, int member, int members, const std::string& communicator);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool all_joined();
  // What went wrong, once something has.
  std::optional<std::pair<ncclResult_t, std::string>> failure();
  // The member has come to a call. `send_bytes` and `recv_bytes` are what it gives and gets.
  void begin(const CallId& id, const Work& work, size_t send_bytes, size_t recv_bytes);
  // Until the call is done, or the member has aborted. A call that fails is never done, as NCCL's kernels are not.
  void wait(const CallId& id);
  void finalize();
  bool all_finalized();
  void leave();
  void abort(const std::string& how);

 private:
  Link(int socket, int member, int members) : socket_(socket), member_(member), members_(members) {}
  void read();
  void write(Letter letter, const void* bytes);

  struct Open {
    Work work;
    size_t recv_bytes = 0;
    bool done = false;
  };
  const int socket_, member_, members_;
  std::mutex writing_, mutex_;
  std::condition_variable changed_;
  std::map<CallId, Open> open_;
  std::optional<std::pair<ncclResult_t, std::string>> failure_;
  bool joined_ = false, all_finalized_ = false, left_ = false, aborted_ = false;
};

}  // namespace piper::standin
