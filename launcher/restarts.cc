#include "launcher/restarts.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

namespace piper::launcher {

namespace {

constexpr const char* kResume = "--resume";

bool is_flag(const std::string& argument, const std::string& name) {
  return argument == name || argument.compare(0, name.size() + 1, name + "=") == 0;
}

// What may follow --resume as an argument of its own.
bool is_start(const std::string& argument) {
  return argument == "latest-valid" || argument.compare(0, 6, "exact:") == 0;
}

}  // namespace

bool worth_restarting(int exit_status) {
  return exit_status == 74 || exit_status == 76 || exit_status == 81 || exit_status > 128;
}

bool has_flag(const std::vector<std::string>& arguments, const std::string& name) {
  return std::any_of(arguments.begin() + 1, arguments.end(), [&](const std::string& a) { return is_flag(a, name); });
}

std::vector<std::string> resuming(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i == 0 || !is_flag(arguments[i], kResume)) result.push_back(arguments[i]);
    else if (arguments[i] == kResume && i + 1 < arguments.size() && is_start(arguments[i + 1])) ++i;
  }
  result.push_back("--resume=latest-valid");
  return result;
}

std::vector<std::string> checkpoints_of(const std::vector<std::string>& arguments, const std::string& working) {
  constexpr std::string_view kFlag = "--checkpoint", kStep = "step-";
  std::filesystem::path folder;
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == kFlag && i + 1 < arguments.size()) folder = arguments[i + 1];
    else if (is_flag(arguments[i], std::string(kFlag)) && arguments[i] != kFlag)
      folder = arguments[i].substr(kFlag.size() + 1);
  }
  std::vector<std::string> names;
  if (folder.empty()) return names;
  std::error_code error;
  std::filesystem::directory_iterator entry(working.empty() ? folder : working / folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (std::string name = entry->path().filename().string(); name.starts_with(kStep)) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

bool has_begun(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  return before.empty() || now != before;
}

std::vector<int64_t> counted_restarts(const std::vector<int64_t>& earlier, int64_t now,
                                      std::chrono::milliseconds window) {
  std::vector<int64_t> counted;
  std::copy_if(earlier.begin(), earlier.end(), std::back_inserter(counted),
               [&](int64_t time) { return time > now - window.count(); });
  return counted;
}

std::chrono::milliseconds pause_before(int32_t attempt, double chance) {
  constexpr int64_t kFirstMs = 1000, kLongestMs = 300'000;
  const int64_t pause = std::min(kLongestMs, kFirstMs << std::min(attempt - 1, 20));
  return std::chrono::milliseconds(pause + static_cast<int64_t>(static_cast<double>(pause) * chance / 4));
}

}  // namespace piper::launcher
