#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/search/search_texts.h"
#include "schemas/base/byte_text.h"

namespace piper::search {
namespace {

constexpr double kWidth = 960, kHeight = 560, kMargin = 70;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

// Both axes begin at 0.
class Axes {
 public:
  Axes(double most_bytes, double most_us) : most_bytes_(1.05 * most_bytes), most_us_(1.05 * most_us) {}
  double x(double bytes) const { return kMargin + (kWidth - 2 * kMargin) * bytes / most_bytes_; }
  double y(double us) const { return kHeight - kMargin - (kHeight - 2 * kMargin) * us / most_us_; }
  std::string drawn() const {
    std::string text = fmt::format(
        "<path d=\"M{0} {1}V{2}H{3}\" class=\"axis\"/>\n<text x=\"{4}\" y=\"{5}\">peak memory of a rank</text>\n"
        "<text x=\"{0}\" y=\"{6}\">step</text>\n",
        kMargin, kMargin, kHeight - kMargin, kWidth - kMargin, kWidth / 2 - 60, kHeight - 15, kMargin - 15);
    for (int i = 0; i <= 5; ++i) {
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"tick\">{}</text>\n", x(most_bytes_ * i / 5) - 20,
                          kHeight - kMargin + 20, human_bytes(static_cast<int64_t>(most_bytes_ * i / 5)));
      text += fmt::format("<text x=\"5\" y=\"{:.1f}\" class=\"tick\">{}</text>\n", y(most_us_ * i / 5) + 4,
                          time_text(most_us_ * i / 5));
    }
    return text;
  }

 private:
  double most_bytes_, most_us_;
};

}  // namespace

std::string page_text(const Report& report) {
  const Explored& explored = report.found.explored;
  const Cost& best = explored.fit.front().cost;
  // What is far slower than the best would squeeze the rest together.
  const double slowest = 3 * best.step_us, most = 2 * static_cast<double>(report.found.memory_limit);
  std::vector<std::pair<const Found*, const char*>> drawn;
  for (const Found& one : explored.too_large) drawn.emplace_back(&one, "large");
  for (size_t i = explored.fit.size(); i-- > 0;)
    drawn.emplace_back(&explored.fit[i], i < report.written.size() ? "kept" : "fits");
  double top_us = best.step_us, top_bytes = static_cast<double>(report.found.memory_limit);
  size_t outside = 0;
  std::erase_if(drawn, [&](const auto& entry) {
    const Cost& cost = entry.first->cost;
    const bool out = cost.step_us > slowest || static_cast<double>(cost.peak_bytes) > most;
    outside += out ? 1 : 0;
    if (!out) {
      top_us = std::max(top_us, cost.step_us);
      top_bytes = std::max(top_bytes, static_cast<double>(cost.peak_bytes));
    }
    return out;
  });
  const Axes axes(top_bytes, top_us);
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Memory against time</title>\n"
      "<style>body{{font:14px sans-serif;margin:2em}}.axis{{fill:none;stroke:#444}}.tick{{font-size:11px;fill:#555}}"
      ".kept{{fill:#0a6}}.fits{{fill:#58c}}.large{{fill:#c55}}.limit{{stroke:#c55;stroke-dasharray:4}}"
      "circle:hover{{stroke:#000;stroke-width:2}}</style>\n<h1>Memory against time</h1>\n<p>{} Each point is a "
      "strategy "
      "whose plans were priced for {} ranks of {}: green is written, blue fits, red needs more than {} a rank. Rest "
      "the "
      "pointer on a point for its line.</p>\n<svg width=\"{}\" height=\"{}\">\n",
      escaped(bound_text(explored)), explored.fit.front().point.ranks(), escaped(report.machine),
      human_bytes(report.found.memory_limit), kWidth, kHeight);
  text += axes.drawn();
  const double limit = axes.x(static_cast<double>(report.found.memory_limit));
  text += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" class=\"limit\"/>\n", limit, kMargin,
                      kHeight - kMargin);
  for (const auto& [one, kind] : drawn)
    text += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" class=\"{}\"><title>{}: {} a step, {}</title></circle>\n",
        axes.x(static_cast<double>(one->cost.peak_bytes)), axes.y(one->cost.step_us),
        std::string_view(kind) == "kept" ? 7 : 5, kind, escaped(describe(one->point)), time_text(one->cost.step_us),
        human_bytes(one->cost.peak_bytes));
  text += "</svg>\n";
  if (outside > 0)
    text += fmt::format(
        "<p>{} that are more than three times as slow, or need more than twice the memory, are not drawn.</p>\n",
        outside);
  return text + "</html>\n";
}

}  // namespace piper::search
