#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "schemas/plan/bundle_files.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "tools/piper_plan/commands.h"

namespace piper::tools {

std::string compiler() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string self = length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
  return self.substr(0, self.find_last_of('/') + 1) + "piperc";
}

namespace {

// "a/s.yaml" -> "s.tuned.yaml", in this folder.
std::string tuned_name(const std::string& strategy) {
  const std::string base = strategy.substr(strategy.find_last_of('/') + 1);
  return base.substr(0, base.find_last_of('.')) + ".tuned.yaml";
}

}  // namespace

Result<std::vector<std::string>> tune_command(const std::string& directory, const TuneOptions& options) {
  PIPER_ASSIGN(const auto opened, plan::open_bundle(directory));
  const plan::Manifest& manifest = opened.manifest;
  const std::string model = options.model.empty() ? manifest.model.name : options.model;
  const std::string strategy = options.strategy.empty() ? manifest.strategy.name : options.strategy;
  PIPER_ASSIGN(const auto file, plan::map_file(strategy));
  std::string digested(file.text());
  for (const std::string& set : options.sets) digested += '\0' + set;
  if (plan::sha256(digested) != manifest.strategy.sha256)
    return Status::failure("", directory + " was compiled from " + manifest.strategy.name + ", but " + strategy +
                                   " with the --set given here differs from what was compiled: compile it again, or "
                                   "give the strategy that was compiled with --strategy and --set");
  std::vector<std::string> words = {compiler(), model, "--strategy", strategy, "--tune"};
  words.push_back(options.output.empty() ? tuned_name(strategy) : options.output);
  const auto add = [&](const char* flag, const std::string& value) {
    words.emplace_back(flag);
    words.push_back(value);
  };
  add("--target", options.target);
  add("--device", manifest.target.device == plan::DeviceKind::kCpu ? "cpu" : "cuda");
  add("--reduction", manifest.target.summing == plan::Summing::kPosition ? "position" : "library");
  if (options.limit > 0) add("--memory-limit", std::to_string(options.limit));
  if (!options.kernel_times.empty()) add("--kernel-times", options.kernel_times);
  if (!options.profile.empty()) add("--profile", options.profile);
  if (options.candidates > 0) add("--candidates", std::to_string(options.candidates));
  for (const std::string& set : options.sets) add("--set", set);
  if (options.checkpoints) words.emplace_back("--checkpoints");
  return words;
}

Status run_instead(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return Status::failure("", words[0] + " cannot be started: " + std::strerror(errno));
}

}  // namespace piper::tools
