#include "launcher/passed_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace piper::launcher {

namespace {

constexpr std::string_view kNames[] = {"HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "TMPDIR",
                                       "TZ",   "USER"};
constexpr std::string_view kPrefixes[] = {"CUBLAS_", "CUDA_",   "GOMP_", "KMP_",   "LC_",    "MALLOC_", "MKL_",
                                          "NCCL_",   "NVIDIA_", "OMP_",  "PIPER_", "TORCH_", "UCX_"};
// Variables of the process that submits, not of what it submits.
constexpr std::string_view kOwn[] = {"PIPER_JOB", "PIPER_LAUNCH", "PIPER_STATUS_PAGES", "PIPER_STORE_SOCKET"};

template <size_t N>
bool among(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

bool is_passed(const std::string& name) {
  if (among(kOwn, name)) return false;
  return among(kNames, name) || std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
           return std::string_view(name).substr(0, prefix.size()) == prefix;
         });
}

Result<std::vector<std::string>> passed_environment(const std::vector<std::string>& more) {
  for (const std::string& name : more)
    if (std::getenv(name.c_str()) == nullptr)
      return Status::failure("L0101", "--env " + name + ": there is no such variable");
  std::vector<std::string> variables;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string variable = *at, name = variable.substr(0, variable.find('='));
    if (is_passed(name) || std::find(more.begin(), more.end(), name) != more.end()) variables.push_back(variable);
  }
  return variables;
}

}  // namespace piper::launcher
