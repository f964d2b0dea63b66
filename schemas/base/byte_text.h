// Numbers of bytes as texts for people show them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace piper {

// In the largest binary unit of which there is one, with a digit after the point: "1.5 KiB", "76.0 GiB".
inline std::string human_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace piper
