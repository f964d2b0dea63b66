#include "schemas/plan/bundle_files.h"

#include <algorithm>
#include <map>

namespace piper::plan {
namespace {

std::string safe_name(std::string_view name) {
  constexpr size_t kLongest = 120;
  std::string safe(name.substr(0, kLongest));
  for (char& c : safe) {
    const bool good =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!good) c = '_';
  }
  if (!safe.empty() && safe.front() != '.') return safe;
  return std::string(1, '_').append(safe);
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

std::string rank_file(int32_t rank) {
  constexpr size_t kDigits = 5;
  const std::string digits = std::to_string(rank);
  std::string file(kRankFolder);
  file.append("rank-").append(kDigits - std::min(kDigits, digits.size()), '0').append(digits).append(".json");
  return file;
}

std::vector<std::string> program_files(const std::vector<Program>& programs) {
  // Case counts as equal: a bundle must survive a file system that ignores it.
  std::map<std::string, std::vector<std::pair<std::string, size_t>>> groups;
  for (size_t i = 0; i < programs.size(); ++i)
    groups[lower(safe_name(programs[i].name))].push_back({programs[i].name, i});
  std::vector<std::string> files(programs.size());
  for (auto& [safe, members] : groups) {
    std::sort(members.begin(), members.end());
    for (size_t k = 0; k < members.size(); ++k) {
      const auto& [name, index] = members[k];
      const std::string number = k == 0 ? "" : "~" + std::to_string(k + 1);
      files[index] = std::string(kProgramFolder) + safe_name(name) + number + ".json";
    }
  }
  return files;
}

}  // namespace piper::plan
