// A number as texts for people show it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace piper::tools {

// `format`: of printf, for a double; at most 31 characters.
inline std::string number_text(double value, const char* format = "%.6g") {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// A share from 0 to 1: "33.3 %".
inline std::string per_cent(double share) { return number_text(100 * share, "%.1f %%"); }

// Bytes of an arena in those that are alive in it at one time; "-" where nothing is.
inline std::string live_ratio(int64_t arena, int64_t live) {
  return live == 0 ? "-" : number_text(static_cast<double>(arena) / static_cast<double>(live), "%.3f");
}

}  // namespace piper::tools
