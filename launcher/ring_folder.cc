#include "launcher/ring_folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

namespace piper::launcher {

namespace {

namespace fs = std::filesystem;

std::string prefix() { return "piper-rings." + std::to_string(getuid()) + "."; }

// Folders of launchers that no longer run.
void remove_leavings(const fs::path& root) {
  std::error_code failed;
  for (fs::directory_iterator at(root, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    pid_t process = 0;
    const size_t begin = prefix().size();
    if (name.compare(0, begin, prefix()) != 0) continue;
    const auto read = std::from_chars(name.data() + begin, name.data() + name.size(), process);
    if (read.ec != std::errc() || read.ptr != name.data() + name.size() || process <= 0) continue;
    std::error_code ignored;
    if (kill(process, 0) != 0 && errno == ESRCH) fs::remove_all(at->path(), ignored);
  }
}

}  // namespace

Result<RingFolder> RingFolder::make() {
  // In memory: a page of a file on a disk that hangs would make a store to it hang, too.
  const fs::path root = access("/dev/shm", W_OK | X_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
  remove_leavings(root);
  const std::string path = (root / (prefix() + std::to_string(getpid()))).string();
  if (mkdir(path.c_str(), 0700) != 0)
    return Status::failure("L0104", "no folder '" + path + "': " + std::strerror(errno));
  return RingFolder(path);
}

RingFolder::RingFolder(RingFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

RingFolder::~RingFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void RingFolder::clear() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    std::error_code failed;
    fs::remove(entry.path(), failed);
  }
}

}  // namespace piper::launcher
