#include "runtime/hal/cpu/available_memory.h"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace piper::hal {

namespace {

using Bytes = std::optional<int64_t>;

// The number that is all of a file; nullopt for "max", or where there is no such file.
Bytes number_in(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

// The number after a word that begins a line.
Bytes number_after(const std::string& path, std::string_view word) {
  std::ifstream in(path);
  for (std::string first; in >> first; in.ignore(1 << 12, '\n')) {
    int64_t value = 0;
    if (first == word && in >> value) return value;
  }
  return std::nullopt;
}

struct Names {
  const char *controllers, *folder, *limit, *used, *inactive, *active;
};
constexpr Names kVersion2 = {"", "", "/memory.max", "/memory.current", "inactive_file", "active_file"};
constexpr Names kVersion1 = {
    "memory",           "/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file",
    "total_active_file"};

// What one cgroup leaves.
Bytes left_in(const std::string& folder, const Names& names) {
  const Bytes limit = number_in(folder + names.limit), used = number_in(folder + names.used);
  if (!limit || !used) return std::nullopt;
  const std::string stat = folder + "/memory.stat";
  const int64_t files = number_after(stat, names.inactive).value_or(0) + number_after(stat, names.active).value_or(0);
  return *limit - std::max<int64_t>(0, *used - files);
}

void take_less(Bytes& least, const Bytes& bytes) {
  if (bytes) least = std::max<int64_t>(0, least ? std::min(*least, *bytes) : *bytes);
}

// The limits from this process's group up to the root of what can be seen; in a container that is its own group.
void take_limits(const std::string& machine, const Names& names, Bytes& least) {
  std::ifstream groups(machine + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // NUMBER:CONTROLLERS:PATH
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.substr(first + 1, second - first - 1) != names.controllers) continue;
    const std::string root = machine + "/sys/fs/cgroup" + names.folder;
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      if (path == "/") path.clear();
      take_less(least, left_in(root + path, names));
      if (path.find('/') == std::string::npos) return;
    }
  }
}

}  // namespace

std::optional<int64_t> available_memory(const std::string& machine) {
  Bytes least;
  if (const Bytes kilobytes = number_after(machine + "/proc/meminfo", "MemAvailable:"))
    take_less(least, *kilobytes * 1024);
  for (const Names& names : {kVersion2, kVersion1}) take_limits(machine, names, least);
  return least;
}

}  // namespace piper::hal
