// A number as texts for people show it.
#pragma once

#include <cstdio>
#include <string>

namespace piper::tools {

// `format`: of printf, for a double; at most 31 characters.
inline std::string number_text(double value, const char* format = "%.6g") {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace piper::tools
