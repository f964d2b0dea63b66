#include "schemas/live/process_state.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace piper::live {

// proc(5): "PID (NAME) STATE ...", the name may hold anything; the start is field 22.
ProcessState look_at_process(int64_t process) {
  if (process <= 0) return {};
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  if (!file) return {std::ifstream("/proc/self/stat") ? 'X' : '\0', 0};
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  ProcessState state;
  fields >> state.letter;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> state.start;
  if (state.letter == 'Z') state.letter = 'X';  // ended, and nobody has asked how
  return state;
}

uint64_t boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text, digits;
  file >> text;
  for (const char c : text)
    if (c != '-') digits += c;
  return std::strtoull(digits.substr(0, 16).c_str(), nullptr, 16);
}

}  // namespace piper::live
