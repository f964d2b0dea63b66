#include "runtime/hal/ucx/process_watch.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

namespace piper::hal {

namespace {

std::string link_target(const char* path) {
  char text[PATH_MAX];
  const ssize_t length = readlink(path, text, sizeof text);
  return length <= 0 ? "" : std::string(text, static_cast<size_t>(length));
}

struct Identity {
  pid_t pid = -1;
  std::string node;
};

Identity read_identity(const std::string& text) {
  Identity identity;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, identity.pid);
  if (read.ec == std::errc()) identity.node = std::string(read.ptr, end);
  return identity;
}

}  // namespace

std::string process_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return std::to_string(getpid()) + " " + boot + " " + link_target("/proc/self/ns/pid") + " " +
         link_target("/proc/self/ns/ipc") + " " + link_target("/proc/self/ns/net");
}

bool share_memory_without_network(const std::vector<std::string>& identities) {
  std::map<std::string, std::string> network_of;  // by what shares memory
  return std::any_of(identities.begin(), identities.end(), [&](const std::string& identity) {
    std::istringstream words(identity);
    std::string pid, boot, pids, memory, network;
    words >> pid >> boot >> pids >> memory >> network;
    return network_of.try_emplace(boot + " " + memory, network).first->second != network;
  });
}

Status ProcessWatch::open(const std::vector<std::string>& identities, int32_t own_rank) {
  here_.assign(identities.size(), false);
  descriptors_.assign(identities.size(), -1);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return Status::failure("R0303", std::string("no epoll descriptor: ") + std::strerror(errno));
  const Identity own = read_identity(identities.at(static_cast<size_t>(own_rank)));
  for (size_t rank = 0; rank < identities.size(); ++rank) {
    const Identity other = read_identity(identities[rank]);
    here_[rank] = other.node == own.node;
    if (!here_[rank] || static_cast<int32_t>(rank) == own_rank) continue;
    const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, other.pid, 0));
    if (descriptor < 0 && errno == ESRCH) vanished_.push_back(static_cast<int32_t>(rank));
    if (descriptor < 0 && (errno == EMFILE || errno == ENFILE))
      return Status::failure("R0303", "no descriptor for the process of rank " + std::to_string(rank) + ": " +
                                          std::strerror(errno) + ". Raise the limit of open files, ulimit -n");
    if (descriptor < 0) continue;  // a kernel before 5.3: what never comes is a time-out there
    descriptors_[rank] = descriptor;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = rank;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
  }
  return {};
}

ProcessWatch::~ProcessWatch() {
  for (const int descriptor : descriptors_)
    if (descriptor >= 0) close(descriptor);
  if (epoll_ >= 0) close(epoll_);
}

int32_t ProcessWatch::ranks_on_this_node() const {
  return static_cast<int32_t>(std::count(here_.begin(), here_.end(), true));
}

std::vector<int32_t> ProcessWatch::take_ended() {
  std::vector<int32_t> ended;
  ended.swap(vanished_);
  epoll_event events[16];
  for (;;) {
    const int count = epoll_wait(epoll_, events, 16, 0);
    if (count <= 0) return ended;
    for (int i = 0; i < count; ++i) {
      const auto rank = static_cast<size_t>(events[i].data.u64);
      close(descriptors_[rank]);  // leaves the epoll set
      descriptors_[rank] = -1;
      ended.push_back(static_cast<int32_t>(rank));
    }
  }
}

}  // namespace piper::hal
