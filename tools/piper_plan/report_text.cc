#include <cmath>
#include <cstdio>

#include "schemas/base/byte_text.h"
#include "schemas/plan/json_writer.h"
#include "tools/piper_plan/report.h"
#include "tools/piper_plan/number_text.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

using namespace timeline;
using Rows = std::vector<std::vector<std::string>>;

std::string measured_time(double us) { return number_text(std::round(us) / 1000, "%.6g ms"); }
std::string predicted_time(const Report& report, double time) {
  return report.units ? number_text(time, "%.6g units") : measured_time(time);
}

std::string heading(const Report& report) {
  return "step: predicted " + predicted_time(report, report.predicted.step) + " by " + report.priced_by +
         "; measured " + measured_time(report.measured.step) + " by " + report.measured_by + "\n";
}

const std::vector<std::string> kRankHeadings = {"rank", "step", "busy", "exposed communication", "waiting", "peak"};
Rows rank_rows(const Report& report) {
  Rows rows;
  for (size_t p = 0; p < report.ranks.size(); ++p)
    for (const bool predicted : {true, false}) {
      const StepAccount& account = predicted ? report.predicted : report.measured;
      const RankTime& time = account.ranks[p];
      const auto share = [&](double part) {
        return number_text(account.step > 0 ? 100 * part / account.step : 0, "%.1f %%");
      };
      std::string peak = predicted ? human_bytes(report.predicted_peak[p]) : "";
      if (!predicted && p < report.measured_peak.size()) peak = human_bytes(report.measured_peak[p]);
      rows.push_back({std::to_string(report.ranks[p]), predicted ? "predicted" : "measured", share(time.busy),
                      share(time.communication), share(time.waiting), peak});
    }
  return rows;
}

const std::vector<std::string> kLineHeadings = {
    "line of the strategy", "step",  "lost", "critical path", "exposed", "kernels", "messages",
    "collectives",          "waits", "bytes"};
std::vector<std::string> line_row(const Report& report, const std::string& line, const LineCost& cost, bool predicted) {
  std::vector<std::string> row = {line, predicted ? "predicted" : "measured"};
  for (const double time :
       {cost.lost, cost.on_path, cost.exposed, cost.kernel, cost.message, cost.collective, cost.wait})
    row.push_back(time == 0 ? "" : predicted ? predicted_time(report, time) : measured_time(time));
  row.push_back(cost.bytes > 0 ? human_bytes(cost.bytes) : "");
  return row;
}
Rows line_rows(const Report& report) {
  Rows rows;
  for (const LinePair& pair : report.lines) {
    const std::string name = pair.line.empty() ? "the step" : pair.line + " " + pair.directive;
    rows.push_back(line_row(report, name, pair.measured, false));
    rows.push_back(line_row(report, "", pair.predicted, true));
    rows.back().back().clear();  // the same bytes
  }
  LineCost left;
  left.lost = report.measured.costs.unexplained;
  if (left.lost > 1e-9 * report.measured.step) rows.push_back(line_row(report, "between instructions", left, false));
  return rows;
}

std::string parting(const Report& report) {
  if (report.predicted_part.empty() && report.measured_part.empty())
    return "the predicted and the measured critical path are the same\n";
  const auto told = [](const std::string& part) { return part.empty() ? "it has ended" : part; };
  return "the critical paths differ from where the predicted one has\n    " + told(report.predicted_part) +
         "\nand the measured one\n    " + told(report.measured_part) + "\n";
}

template <class Measure>
void pair(plan::JsonWriter& json, const char* key, const LinePair& line, Measure measure) {
  json.key(key);
  json.raw("[");
  json.real(line.predicted.*measure);
  json.raw(",");
  json.real(line.measured.*measure);
  json.raw("]");
}

void write_ranks(plan::JsonWriter& json, const Report& report) {
  json.begin_lines("ranks", '[');
  for (size_t p = 0; p < report.ranks.size(); ++p) {
    json.line();
    json.raw("{");
    json.member("rank", report.ranks[p]);
    const RankTime &a = report.predicted.ranks[p], &b = report.measured.ranks[p];
    for (const auto& [key, measure] : {std::pair{"busy", &RankTime::busy},
                                       {"exposed_communication", &RankTime::communication},
                                       {"waiting", &RankTime::waiting}}) {
      json.key(key);
      json.raw("[");
      json.real(a.*measure);
      json.raw(",");
      json.real(b.*measure);
      json.raw("]");
    }
    json.key("peak_bytes");
    json.raw("[");
    json.number(report.predicted_peak[p]);
    json.raw(",");
    if (p < report.measured_peak.size()) json.number(report.measured_peak[p]);
    else json.raw("null");
    json.raw("]}");
  }
  json.end_lines(']');
}

void write_lines(plan::JsonWriter& json, const Report& report) {
  json.begin_lines("lines", '[');
  for (const LinePair& line : report.lines) {
    json.line();
    json.raw("{");
    json.member("line", line.line);
    json.member("directive", line.directive);
    pair(json, "lost", line, &LineCost::lost);
    pair(json, "on_path", line, &LineCost::on_path);
    pair(json, "exposed", line, &LineCost::exposed);
    pair(json, "kernel", line, &LineCost::kernel);
    pair(json, "message", line, &LineCost::message);
    pair(json, "collective", line, &LineCost::collective);
    pair(json, "wait", line, &LineCost::wait);
    json.member("bytes", line.measured.bytes);
    json.raw("}");
  }
  json.end_lines(']');
}

}  // namespace

std::string report_as_text(const Report& report) {
  return heading(report) + parting(report) + "\n" + format_table(kRankHeadings, rank_rows(report)) + "\n" +
         format_table(kLineHeadings, line_rows(report));
}

std::string report_as_markdown(const Report& report) {
  return heading(report) + "\n" + markdown_table(kRankHeadings, rank_rows(report)) + "\n" +
         markdown_table(kLineHeadings, line_rows(report)) + "\n```\n" + parting(report) + "```\n";
}

std::string report_as_json(const Report& report) {
  plan::JsonWriter json;
  json.begin_file();
  json.member("priced_by", report.priced_by);
  json.member("measured_by", report.measured_by);
  json.member("unit", report.units ? "units" : "us");
  const auto both = [&](const char* key, double predicted, double measured) {
    json.key(key);
    json.raw("[");
    json.real(predicted);
    json.raw(",");
    json.real(measured);
    json.raw("]");
  };
  both("step", report.predicted.step, report.measured.step);
  both("unexplained", report.predicted.costs.unexplained, report.measured.costs.unexplained);
  json.key("paths_part");
  json.raw("[");
  json.string(report.predicted_part);
  json.raw(",");
  json.string(report.measured_part);
  json.raw("]");
  write_ranks(json, report);
  write_lines(json, report);
  json.end_file();
  return json.str();
}

}  // namespace piper::tools
