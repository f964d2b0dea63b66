// piper-plan show --svg: the schedule as a drawing for papers, pages and reviews. Small, and the same bytes for the
// same bundle. Colours tell passes: those of P. Tol's "bright" scheme, which readers with any colour vision tell apart
// (https://sronpersonalpages.nl/~pault).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/cut_collectives.h"
#include "tools/piper_plan/number_text.h"
#include "tools/piper_plan/schedule_rows.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

// Lengths in pixels.
constexpr double kLane = 20, kGap = 6, kTop = 46, kBottom = 46, kMargin = 10, kLetter = 6.7, kTitleLetter = 8,
                 kLine = 16;
constexpr double kUsualCell = 30;                   // of the shortest cell, where that fits
constexpr double kNarrowest = 640, kWidest = 2400;  // of the whole step, unless cells would be too short to see
constexpr double kShortestSeen = 3, kWidestAtAll = 20000;

constexpr const char* kMark = "<path stroke=\"#aa3377\" stroke-width=\"1.5\" d=\"";  // of a collective
constexpr const char* kStyle =
    "<style>\n"
    "text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#222}\n"
    ".t{font-size:13px;font-weight:bold}.c text,text.m{text-anchor:middle}text.e{text-anchor:end}\n"
    ".r{fill:#f3f4f6}.g{stroke:#c9ccd1;stroke-width:1}\n"
    ".F{fill:#a9c9f2}.B{fill:#9fd9a8}.I{fill:#a6e3ee}.W{fill:#f0dc8c}\n"
    ".c rect{stroke:#fff;stroke-width:1}.bg{fill:#fff}\n"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.c text{fill:#111}.bg{fill:#16181d}.r{fill:#22252c}\n"
    ".g{stroke:#454a54}.F{fill:#6fa0e0}.B{fill:#62b56f}.I{fill:#5fc0d2}.W{fill:#d6bb4e}.c rect{stroke:#16181d}}\n"
    "</style>\n";

std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string digits = text;
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return digits == "-0" ? "0" : digits;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') safe += "&amp;";
    else if (c == '<') safe += "&lt;";
    else if (c == '>') safe += "&gt;";
    else safe += c;
  }
  return safe;
}

// Stages of one rank in shades of a pass's colour: how much of it, of the first stage all.
double shade(size_t stage, size_t stages) {
  if (stages < 2) return 1;
  const double span = std::min(0.4 + 0.1 * static_cast<double>(stages - 2), 0.7);
  return 1 - span * static_cast<double>(stage) / static_cast<double>(stages - 1);
}

// Cells that overlap, of different streams, go below one another.
std::vector<size_t> lanes_of(const std::vector<Cell>& cells) {
  std::vector<size_t> order(cells.size()), lanes(cells.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cells[a].begin < cells[b].begin; });
  std::vector<double> ends;
  for (const size_t i : order) {
    constexpr double kRounding = 1e-9;
    size_t lane = 0;
    while (lane < ends.size() && ends[lane] > cells[i].begin + kRounding) ++lane;
    if (lane == ends.size()) ends.push_back(0);
    ends[lane] = cells[i].end;
    lanes[i] = lane;
  }
  return lanes;
}

class Drawing {
 public:
  // `cuts`: which ranks share samples, "" where none do.
  Drawing(std::string title, std::string cuts, std::vector<ScheduleRow> rows, double step, const Costs& costs)
      : title_(std::move(title)), cuts_(std::move(cuts)), rows_(std::move(rows)), step_(step), costs_(costs) {
    size_t letters = 4;
    for (const ScheduleRow& row : rows_) letters = std::max(letters, rank_list(row.ranks).size());
    left_ = kMargin + kLetter * static_cast<double>(letters + 1);
    const double shortest = shortest_cell(rows_);
    double width = shortest > 0 ? std::clamp(step_ * kUsualCell / shortest, kNarrowest, kWidest) : kNarrowest;
    if (shortest > 0) width = std::clamp(step_ * kShortestSeen / shortest, width, kWidestAtAll);
    scale_ = step_ > 0 ? width / step_ : 1;
    right_ = left_ + width;
  }

  std::string draw() {
    double top = kTop;
    std::string body;
    for (const ScheduleRow& row : rows_) body += draw_row(row, top);
    const double height = top + kBottom + (cuts_.empty() ? 0 : kLine);
    const double letters = std::max(kTitleLetter * static_cast<double>(title_.size()),
                                    cuts_.empty() ? 0 : left_ + kLetter * static_cast<double>(cuts_.size()));
    const double width = std::max(right_, letters) + 2 * kMargin;
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + coordinate(width) + "\" height=\"" +
           coordinate(height) + "\" viewBox=\"0 0 " + coordinate(width) + " " + coordinate(height) + "\">\n" + kStyle +
           "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n" + heading() + axis(top) + body + cuts(top) +
           "</svg>\n";
  }

 private:
  double x(double time) const { return left_ + time * scale_; }

  std::string heading() const {
    std::string text = "<text class=\"t\" x=\"10\" y=\"18\">" + escaped(title_) + "</text>\n";
    double at = kMargin;
    for (const auto& [pass, meaning] : {std::pair{'F', "forward"},
                                        {'B', "backward"},
                                        {'I', "backward: input part"},
                                        {'W', "backward: weight part"}}) {
      if (!present(pass)) continue;
      text += "<rect class=\"" + std::string(1, pass) + "\" x=\"" + coordinate(at) +
              "\" y=\"26\" width=\"12\" height=\"12\"/><text x=\"" + coordinate(at + 17) + "\" y=\"36\">" + pass + " " +
              meaning + "</text>\n";
      at += 17 + kLetter * static_cast<double>(std::string(meaning).size() + 4);
    }
    return text;
  }
  std::string cuts(double bottom) const {
    if (cuts_.empty()) return "";
    const std::string y = coordinate(bottom + 32 + kLine);
    return std::string(kMark) + "M" + coordinate(left_ + 3) + " " + coordinate(bottom + 23 + kLine) +
           "v11\"/><text x=\"" + coordinate(left_ + 12) + "\" y=\"" + y + "\">" + escaped(cuts_) + "</text>\n";
  }
  // Marks that are closer than two pixels are one.
  std::string draw_marks(const std::vector<double>& marks, double top, double height) const {
    std::string path;
    double last = -1;
    for (const double mark : marks) {
      if (x(mark) < last + 2) continue;
      last = x(mark);
      path += "M" + coordinate(last) + " " + coordinate(top) + "v" + coordinate(height);
    }
    return path.empty() ? "" : kMark + path + "\"/>\n";
  }
  bool present(char pass) const {
    for (const ScheduleRow& row : rows_)
      for (const Cell& cell : row.cells)
        if (cell.pass == pass) return true;
    return false;
  }
  // About ten marks, at multiples of 1, 2 or 5 times a power of ten.
  std::string axis(double bottom) const {
    if (step_ <= 0) return "";
    double mark = std::pow(10, std::floor(std::log10(step_ / 10)));
    for (const double factor : {2.0, 2.5, 2.0})
      if (step_ / mark > 12) mark *= factor;
    std::string text;
    for (int i = 0; i * mark <= step_ * (1 + 1e-9); ++i) {
      const std::string at = coordinate(x(i * mark));
      text += "<path class=\"g\" d=\"M" + at + " " + coordinate(kTop - 4) + "V" + coordinate(bottom) +
              "\"/><text class=\"m\" x=\"" + at + "\" y=\"" + coordinate(bottom + 14) + "\">" + coordinate(i * mark) +
              "</text>\n";
    }
    return text + "<text x=\"" + coordinate(left_) + "\" y=\"" + coordinate(bottom + 32) +
           "\">time in units: a forward " + coordinate(costs_.forward) + ", a backward " + coordinate(costs_.backward) +
           "</text>\n";
  }
  std::string draw_row(const ScheduleRow& row, double& top) const {
    const auto lanes = lanes_of(row.cells);
    size_t count = 1;
    for (const size_t lane : lanes) count = std::max(count, lane + 1);
    const double height = kLane * static_cast<double>(count);
    std::string text = "<text class=\"e\" x=\"" + coordinate(left_ - 6) + "\" y=\"" + coordinate(top + height / 2 + 4) +
                       "\">" + rank_list(row.ranks) + "</text><rect class=\"r\" x=\"" + coordinate(left_) + "\" y=\"" +
                       coordinate(top) + "\" width=\"" + coordinate(right_ - left_) + "\" height=\"" +
                       coordinate(height) + "\"/>\n<g class=\"c\">\n";
    std::map<std::string, size_t> stages;
    for (const Cell& cell : row.cells) stages.emplace(cell.stage, stages.size());
    for (size_t i = 0; i < row.cells.size(); ++i)
      text += draw_cell(row.cells[i], top + kLane * static_cast<double>(lanes[i]),
                        shade(stages.at(row.cells[i].stage), stages.size()));
    text += "</g>\n" + draw_marks(row.marks, top, height);
    top += height + kGap;
    return text;
  }
  std::string draw_cell(const Cell& cell, double top, double opacity) const {
    const double width = (cell.end - cell.begin) * scale_;
    std::string text = "<rect class=\"" + std::string(1, cell.pass) +
                       (opacity < 1 ? "\" fill-opacity=\"" + coordinate(opacity) : "") + "\" x=\"" +
                       coordinate(x(cell.begin)) + "\" y=\"" + coordinate(top) + "\" width=\"" + coordinate(width) +
                       "\" height=\"" + coordinate(kLane) + "\"><title>" + escaped(cell.stage) + " " + cell.pass +
                       " of microbatch " + std::to_string(cell.microbatch) + ", " + coordinate(cell.begin) + " to " +
                       coordinate(cell.end) + " units</title></rect>";
    if (kLetter * static_cast<double>(cell.label.size()) + 2 <= width)
      text += "<text x=\"" + coordinate(x(cell.begin) + width / 2) + "\" y=\"" + coordinate(top + kLane / 2 + 4) +
              "\">" + escaped(cell.label) + "</text>";
    return text + "\n";
  }

  std::string title_, cuts_;
  std::vector<ScheduleRow> rows_;
  double step_, scale_ = 1, left_ = 0, right_ = 0;
  Costs costs_;
};

}  // namespace

Result<std::string> draw_svg(const std::string& directory, const Costs& costs) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(const auto timeline, timeline::simulate(bundle, costs));
  const auto& manifest = bundle.manifest;
  return Drawing(manifest.model.name + " with " + manifest.strategy.name + ": " + std::to_string(manifest.world_size) +
                     (manifest.world_size == 1 ? " rank" : " ranks") + ", step " + coordinate(timeline.step) +
                     " units, bubble " + per_cent(timeline::bubble(timeline)),
                 manifest.cuts.empty() ? "" : "collectives of cuts; " + cuts_line(manifest),
                 merge_like_rows(schedule_rows(bundle, timeline)), timeline.step, costs)
      .draw();
}

}  // namespace piper::tools
