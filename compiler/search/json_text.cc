#include <charconv>
#include <cstdint>

#include "compiler/search/search_texts.h"
#include "schemas/plan/json_writer.h"

namespace piper::search {
namespace {

void write_cost(plan::JsonWriter& json, const Cost& cost) {
  json.member("step_us", cost.step_us);
  json.member("peak_bytes", cost.peak_bytes);
  json.member("tokens_per_s", cost.tokens_per_s);
  json.member("mfu", cost.mfu);
  json.member("waiting", cost.waiting);
  json.member("exposed", cost.exposed);
}

void write_point(plan::JsonWriter& json, const Point& point) {
  json.member("strategy", describe(point));
  for (const auto& [name, value] : choices(point)) {
    int64_t number = 0;
    const char* const end = value.data() + value.size();
    if (const auto read = std::from_chars(value.data(), end, number); read.ec == std::errc() && read.ptr == end)
      json.member(name, number);
    else if (value == "true" || value == "false") json.member(name, value == "true");
    else json.member(name, value);
  }
}

}  // namespace

std::string json_text(const Report& report) {
  const Explored& explored = report.found.explored;
  plan::JsonWriter json;
  json.begin_file();
  json.member("target", report.machine);
  json.member("memory_limit", report.found.memory_limit);
  json.member("points", report.found.points.size());
  json.member("priced", explored.priced);
  json.member("bounded", explored.bounded);
  json.member("refused", explored.refused);
  json.member("compiled", report.found.compiled);
  json.member("least_us", explored.least_us);
  json.member("complete", explored.complete);
  json.begin_lines("strategies", '[');
  for (const Written& file : report.written) {
    json.line();
    json.raw("{");
    json.member("file", file.name);
    write_point(json, file.found.point);
    write_cost(json, file.found.cost);
    if (report.dollars_per_hour > 0) json.member("dollars_a_step", dollars_of_step(report, file.found));
    if (!file.tuned_name.empty()) json.member("tuned", file.tuned_name);
    json.raw("}");
  }
  json.end_lines(']');
  json.begin_lines("neighbours", '[');
  for (const Neighbour& one : report.neighbours) {
    json.line();
    json.raw("{");
    json.member("choice", one.choice);
    json.member("why", one.why);
    if (one.cost) write_cost(json, *one.cost);
    json.raw("}");
  }
  json.end_lines(']');
  json.end_file();
  return json.str();
}

}  // namespace piper::search
