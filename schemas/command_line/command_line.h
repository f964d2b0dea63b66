// What all programs do alike with their command lines: --version, and what they say to one that is wrong.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace piper::command_line {

// Adds --version, which prints "NAME VERSION". Before parse().
void add_version(CLI::App& app);

// What is wrong with the first word that nobody asked for, with the option or command that may have been meant; ""
// where there is none. After parse().
std::string unexpected(const CLI::App& app);

// Prints what `error` says, help and version among it. 0 where that was asked for, else `wrong`.
int end(const CLI::App& app, const CLI::ParseError& error, int wrong);

}  // namespace piper::command_line
