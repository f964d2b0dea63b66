#include "runtime/hal/tcp/store_connection.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace piper::hal {

namespace {

// A store that goes away is an error, which is reported in one line; the library would warn of it with a stack before.
// Once: ranks of one process connect at the same time.
void leave_warnings_out() {
  static constexpr int kErrors = 2;
  static const bool done = [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr)
      FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kErrors);
    return true;
  }();
  (void)done;
}

}  // namespace

c10::intrusive_ptr<c10d::TCPStore> connect_to_store(const StoreAddress& at, int32_t rank, int listening,
                                                    std::chrono::milliseconds timeout) {
  leave_warnings_out();
  c10d::TCPStoreOptions how;
  how.port = at.port;
  how.isServer = listening >= 0;
  how.waitWorkers = false;
  how.timeout = timeout;
  if (how.isServer) how.masterListenFd = listening;
  const bool served_here = rank == 0 && !at.served_by_launcher;
  return c10::make_intrusive<c10d::TCPStore>(served_here ? "127.0.0.1" : at.host, how);
}

std::string key_prefix(const StoreAddress& at) { return "piper/" + at.run_id + "/" + std::to_string(at.attempt) + "/"; }

std::string place_of(const StoreAddress& at) { return at.host + ":" + std::to_string(at.port); }

std::string first_line(const char* text) { return std::string(text, std::strcspn(text, "\n")); }

}  // namespace piper::hal
