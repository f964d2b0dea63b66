#include "compiler/search/point.h"

#include <array>

namespace piper::search {
namespace {

constexpr std::array<const char*, 4> kQuarters = {"1/4", "1/2", "3/4", "all"};
constexpr std::array<const char*, 4> kRepeated = {"none", "attention", "all_but_products", "all"};

const char* repeated_words(Repeated repeated) {
  switch (repeated) {
    case Repeated::kNothing: return "";
    case Repeated::kAttention: return ", attention recomputed";
    case Repeated::kAllButProducts: return ", all but products recomputed";
    case Repeated::kAll: return ", all recomputed";
  }
  return "";
}

}  // namespace

Repeated lesser(Repeated repeated) { return static_cast<Repeated>(static_cast<int>(repeated) - 1); }

std::vector<Point> plain_points(const Point& point) {
  std::vector<Point> points{point};
  points[0].quarters = 4;
  if (!point.mixed()) return points;
  points.push_back(points[0]);
  points[1].repeated = lesser(point.repeated);
  return points;
}

std::string describe(const Point& point) {
  std::string text;
  const auto axis = [&](const char* name, int32_t size) {
    if (size > 1) text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(size);
  };
  axis("pp", point.pp);
  axis("dp", point.dp);
  axis("ep", point.ep);
  axis("tp", point.tp);
  if (point.sequence || point.vocabulary)
    text += point.sequence && point.vocabulary ? " with sequence and vocabulary"
            : point.sequence                   ? " with sequence"
                                               : " with vocabulary";
  if (text.empty()) text = "one rank";
  if (point.divided != Divided::kNothing) {
    text += ", ZeRO-" + std::to_string(static_cast<int>(point.divided));
    if (point.parts_over > 0) text += " over " + std::to_string(point.parts_over);
  }
  if (point.pp > 1) text += ", " + point.family;
  if (point.stages_of_group > 1) text += " with " + std::to_string(point.stages_of_group) + " stages per rank";
  if (point.pipeline_inside) text += " inside nodes";
  text += ", " + std::to_string(point.microbatches) + (point.microbatches == 1 ? " microbatch" : " microbatches");
  text += repeated_words(point.repeated);
  if (!point.mixed()) return text;
  const int32_t first = point.stages_repeated();
  text += (first == 1 ? " in the first" : " in the first " + std::to_string(first)) + " of " +
          std::to_string(point.stages()) + " stages";
  const std::string others = repeated_words(lesser(point.repeated));
  return others.empty() ? text : text + others + " in the others";
}

std::vector<std::pair<std::string, std::string>> choices(const Point& point) {
  const auto word = [](bool yes) { return std::string(yes ? "true" : "false"); };
  return {{"pp", std::to_string(point.pp)},
          {"dp", std::to_string(point.dp)},
          {"ep", std::to_string(point.ep)},
          {"tp", std::to_string(point.tp)},
          {"sequence", word(point.sequence)},
          {"vocabulary", word(point.vocabulary)},
          {"zero", std::to_string(static_cast<int>(point.divided))},
          {"parts_over", std::to_string(point.parts_over)},
          {"recompute", kRepeated[static_cast<size_t>(point.repeated)]},
          {"recompute_in", kQuarters[static_cast<size_t>(point.quarters - 1)]},
          {"family", point.family},
          {"virtual", std::to_string(point.stages_of_group)},
          {"microbatches", std::to_string(point.microbatches)},
          {"pipeline_inside", word(point.pipeline_inside)}};
}

}  // namespace piper::search
