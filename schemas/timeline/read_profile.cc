#include <algorithm>
#include <string_view>

#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_reader.h"
#include "schemas/timeline/timeline.h"

namespace piper::timeline {

using namespace plan;

Result<Measured> read_profile(const Bundle& bundle, const std::string& path) {
  PIPER_ASSIGN(const auto file, map_file(path));
  Measured measured;
  for (auto* const times : {&measured.cost_us, &measured.begin_us, &measured.end_us})
    for (const auto& plan : bundle.ranks) times->emplace_back(plan.instructions.size(), -1.0);
  const std::string_view text = file.text();
  for (size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    JsonReader reader(text.substr(begin, end - begin), path);
    begin = end + 1;
    const auto failure = [&](const std::string& what) {
      return Status::failure("", path + ":" + std::to_string(line) + ": " + what);
    };
    reader.open_object();
    reader.key("rank");
    const int32_t rank = reader.small_integer();
    reader.key("instruction");
    const int64_t instruction = reader.integer();
    for (const char* name : {"stream", "what"}) {
      reader.key(name);
      (void)reader.string();
    }
    std::vector<double> times;
    for (const char* name : {"begin_us", "end_us", "cpu_us"}) {
      reader.key(name);
      times.push_back(reader.real());
    }
    reader.close_object();
    if (!reader.ok()) return failure("this is no line of a profile");
    const auto found =
        std::find_if(bundle.ranks.begin(), bundle.ranks.end(), [&](const RankPlan& plan) { return plan.rank == rank; });
    if (found == bundle.ranks.end()) return failure("the bundle has no rank " + std::to_string(rank));
    const auto p = static_cast<size_t>(found - bundle.ranks.begin()), i = static_cast<size_t>(instruction);
    if (instruction < 0 || i >= found->instructions.size())
      return failure("rank " + std::to_string(rank) + " has no instruction " + std::to_string(instruction));
    measured.begin_us[p][i] = std::max(times[0], 0.0);
    measured.end_us[p][i] = std::max(times[1], 0.0);
    measured.cost_us[p][i] = times[2];
  }
  for (size_t p = 0; p < measured.cost_us.size(); ++p)
    if (std::find(measured.cost_us[p].begin(), measured.cost_us[p].end(), -1.0) != measured.cost_us[p].end())
      return Status::failure(
          "", path + " lacks instructions of rank " + std::to_string(bundle.ranks[p].rank) + ": it is of another plan");
  return measured;
}

}  // namespace piper::timeline
