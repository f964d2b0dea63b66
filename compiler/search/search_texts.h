// What a search says to people and programs: the table, why neighbours lose, the page of the trade-off, JSON, and the
// comment over a strategy. They print what was found and price nothing.
#pragma once

#include <string>
#include <vector>

#include "compiler/search/neighbours.h"
#include "compiler/search/search.h"

namespace piper::search {

struct Written {
  std::string name;  // "01.yaml"
  Found found;
  std::string tuned, tuned_name;  // what tuning said, "01.tuned.yaml"; "": it was not tuned
};
struct Report {
  const Searched& found;
  const std::vector<Written>& written;
  const std::vector<Neighbour>& neighbours;  // of the first
  std::string machine;
  double dollars_per_hour = 0;  // of a rank
};

double dollars_of_step(const Report& report, const Found& one);
// "812 ms", "3.25 s".
std::string time_text(double us);
// How far the best can be from the optimum, in words.
std::string bound_text(const Explored& explored);
// Where nothing fits: what comes nearest, and by how much it is too large.
std::string nearest_text(const Searched& found);

std::string head_text(const Searched& found, const Found& one, size_t place, const std::string& machine,
                      const std::vector<Neighbour>& neighbours);
std::string table_text(const Report& report);
std::string rejected_text(const Report& report);
// One file without scripts: memory against time, a point a strategy, its line where the pointer is.
std::string page_text(const Report& report);
std::string json_text(const Report& report);

}  // namespace piper::search
