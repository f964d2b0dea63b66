// PIPER_CHECK: our own bugs. A failed check throws InternalError, which each program's main
// catches once, prints as "bug in <program>" and turns into exit status 70. Never used for a
// user's mistake; those are Status and diagnostics.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace piper {

class InternalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace internal {
// By hand: nearly every source reads this header, and <sstream> takes longer to compile than all else in it.
template <class Part>
void append_part(std::string& text, const Part& part) {
  if constexpr (std::is_arithmetic_v<Part>) text += std::to_string(part);
  else text += std::string_view(part);
}

template <class... Parts>
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const Parts&... parts) {
  std::string text = std::string(file) + ":" + std::to_string(line) + ": check failed: " + condition;
  if constexpr (sizeof...(parts) > 0) {
    text += ": ";
    (append_part(text, parts), ...);
  }
  throw InternalError(text);
}
}  // namespace internal
}  // namespace piper

// PIPER_CHECK(condition, parts...): parts are texts and numbers, which are joined into the message.
#define PIPER_CHECK(condition, ...)                                                               \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::piper::internal::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
