#include "launcher/find_program.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>

namespace piper::launcher {

namespace {

bool is_program(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none) && access(path.c_str(), X_OK) == 0;
}

std::string own_folder() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string own(path, length <= 0 ? 0 : static_cast<size_t>(length));
  return own.substr(0, own.find_last_of('/') + 1);
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_program(name)) return name;
    return Status::failure("L0102", "'" + name + "' is no program that can be started");
  }
  const char* const variable = std::getenv("PATH");
  const std::string folders = variable == nullptr ? "" : variable;
  for (size_t begin = 0; begin < folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string path = folders.substr(begin, end - begin) + "/" + name;
    if (end > begin && is_program(path)) return path;
    begin = end + 1;
  }
  if (const std::string beside = own_folder() + name; is_program(beside)) return beside;
  return Status::failure("L0102", "there is no program '" + name + "' in PATH or next to piper-launch");
}

Result<std::string> find_beside(const std::string& name) {
  std::string path = own_folder() + name;
  if (is_program(path)) return path;
  return Status::failure("L0102", "'" + path + "' is no program that can be started");
}

}  // namespace piper::launcher
