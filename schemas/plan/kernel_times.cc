#include "schemas/plan/kernel_times.h"

#include <algorithm>
#include <string_view>

#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_reader.h"

namespace piper::plan {

Result<KernelTimes> read_kernel_times(const std::string& path) {
  PIPER_ASSIGN(const auto file, map_file(path));
  struct Sum {
    double us = 0, count = 0;
  };
  std::map<std::string, Sum> sums;
  const std::string_view text = file.text();
  for (size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    JsonReader reader(text.substr(begin, end - begin), path);
    begin = end + 1;
    reader.open_object();
    reader.key("call");
    const std::string call(reader.string());
    reader.key("us");
    const double us = reader.real();
    reader.key("count");
    const auto count = static_cast<double>(reader.integer());
    reader.close_object();
    if (!reader.ok() || us < 0 || count < 1)
      return Status::failure("", path + ":" + std::to_string(line) + ": this is no line of kernel times");
    sums[call].us += us * count;
    sums[call].count += count;
  }
  KernelTimes times;
  for (const auto& [call, sum] : sums) times[call] = sum.us / sum.count;
  return times;
}

}  // namespace piper::plan
