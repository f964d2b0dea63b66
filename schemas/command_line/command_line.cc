#include "schemas/command_line/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>

#include "schemas/base/nearest.h"

namespace piper::command_line {
namespace {

// That of the command that was given, of which there is one at most at each level.
const CLI::App& innermost(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? app : innermost(*given.front());
}

// The program and the commands that lead to an app.
std::string path_of(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent == nullptr ? app.get_name() : path_of(*parent) + " " + app.get_name();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string meant(const std::string& word, const std::vector<std::string>& candidates) {
  const auto longer = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const std::string& each) { return word.size() > 2 && each.starts_with(word); });
  const std::string near = longer != candidates.end() ? *longer : nearest(word, candidates);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

}  // namespace

void add_version(CLI::App& app) {
  app.set_version_flag("--version", app.get_name() + " " + PIPER_VERSION, "print the version and exit");
}

std::string unexpected(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty()) return "";
  const CLI::App& command = innermost(app);
  const std::string word = words.front().substr(0, words.front().find('='));
  if (word.size() > 1 && word[0] == '-') return "unknown option '" + word + "'" + meant(word, option_names(command));
  std::vector<std::string> commands;
  for (const CLI::App* each : command.get_subcommands({})) commands.push_back(each->get_name());
  if (!commands.empty()) return "there is no command '" + word + "'" + meant(word, commands);
  return "'" + word + "' is one word too many";
}

int end(const CLI::App& app, const CLI::ParseError& error, int wrong) {
  const std::string extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
                                    error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError)
                                ? unexpected(app)
                                : "";
  if (extra.empty()) return app.exit(error) == 0 ? 0 : wrong;
  const std::string name = path_of(innermost(app));
  std::cerr << app.get_name() << ": " << extra << "\nRun " << name << " --help for what there is.\n";
  return wrong;
}

}  // namespace piper::command_line
