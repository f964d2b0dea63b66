#include "launcher/orphans.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace piper::launcher {

namespace {

// Reads /proc/PID/stat: "PID (NAME) STATE PARENT ...", where NAME may hold anything; -1: the process has gone.
pid_t parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t name_end = text.rfind(") ");
  constexpr size_t kParent = 4;  // after ") " come the state's letter and a space
  if (name_end == std::string::npos || name_end + kParent > text.size()) return -1;
  pid_t parent = -1;
  std::from_chars(text.data() + name_end + kParent, text.data() + text.size(), parent);
  return parent;
}

void kill_children() {
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    pid_t process = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), process);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size()) continue;
    if (parent_of(at->path()) == getpid()) kill(process, SIGKILL);
  }
}

}  // namespace

void adopt_orphans() { (void)prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool end_children(std::chrono::milliseconds patience) {
  constexpr useconds_t kPauseUs = 5000;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0 || (ended < 0 && errno == EINTR)) {
    }
    if (ended < 0) return true;  // ECHILD
    if (std::chrono::steady_clock::now() >= deadline) return false;
    kill_children();
    (void)usleep(kPauseUs);
  }
}

}  // namespace piper::launcher
