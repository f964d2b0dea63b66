#include "launcher/daemon/left_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "schemas/launch/variables.h"

namespace piper::launcher {

namespace {

// The environment of other users' processes cannot be read.
std::string environment_of(const std::filesystem::path& process) {
  std::ifstream file(process / "environ", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool has_variable(const std::string& environment, const std::string& variable) {
  const std::string text = '\0' + environment;
  return text.find('\0' + variable + '\0') != std::string::npos;
}

}  // namespace

Result<LifeLock> LifeLock::take(const std::string& job_folder) {
  const std::string path = job_folder + "/ALIVE";
  LifeLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.descriptor_ < 0 || flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0)
    return Status::failure("L0133", "no lock '" + path + "': " + std::strerror(errno));
  return lock;
}

LifeLock::LifeLock(LifeLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

LifeLock::~LifeLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

void kill_processes_of(const std::string& job_folder) {
  const std::string variable = std::string(launch::kJobFolder) + "=" + job_folder;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    pid_t pid = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size() || pid == getpid()) continue;
    if (has_variable(environment_of(at->path()), variable)) kill(pid, SIGKILL);
  }
}

bool all_gone(const std::string& job_folder) {
  std::error_code none;
  if (!std::filesystem::exists(job_folder + "/ALIVE", none)) return true;
  return LifeLock::take(job_folder).ok();
}

}  // namespace piper::launcher
