#include "tools/piper_plan/commands.h"

namespace piper::tools {

std::vector<std::string> fits_command(const std::string& model, const FitsOptions& options) {
  std::vector<std::string> words = {compiler(), model, "--fits"};
  const auto add = [&](const char* flag, const std::string& value) {
    words.emplace_back(flag);
    words.push_back(value);
  };
  add("--target", options.target);
  if (!options.strategy.empty()) add("--strategy", options.strategy);
  if (options.nodes > 0) add("--nodes", std::to_string(options.nodes));
  if (options.ranks > 0) add("--ranks", std::to_string(options.ranks));
  if (options.limit > 0) add("--memory-limit", std::to_string(options.limit));
  if (options.budget_s > 0) add("--budget", std::to_string(options.budget_s));
  for (const std::string& set : options.sets) add("--set", set);
  for (const std::string& choice : options.fixed) add("--fix", choice);
  return words;
}

}  // namespace piper::tools
