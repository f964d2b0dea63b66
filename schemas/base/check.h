// PIPER_CHECK: our own bugs. A failed check throws InternalError, which each program's main
// catches once, prints as "bug in <program>" and turns into exit status 70. Never used for a
// user's mistake; those are Status and diagnostics.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace piper {

class InternalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace internal {
template <class... Parts>
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const Parts&... parts) {
  std::ostringstream text;
  text << file << ':' << line << ": check failed: " << condition;
  if constexpr (sizeof...(parts) > 0) {
    text << ": ";
    (text << ... << parts);
  }
  throw InternalError(text.str());
}
}  // namespace internal
}  // namespace piper

// PIPER_CHECK(condition, parts...): parts are streamed into the message.
#define PIPER_CHECK(condition, ...)                                                               \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::piper::internal::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
