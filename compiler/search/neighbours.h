// Why the best of a search is what it is: the points that differ from it in one choice, priced, and what makes them
// slower.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/search/pricer.h"
#include "compiler/search/search.h"

namespace piper::search {

struct Neighbour {
  std::string choice;  // "tp: 8"
  Point point;
  std::optional<Cost> cost;  // none: it does not compile
  std::string why;           // "+38 %: exposed communication 2 % -> 30 % of a step"
};
// Those of the space, and twice as many devices along tp as a node has. What was priced before is not priced again.
std::vector<Neighbour> price_neighbours(const Found& best, const Searched& found, Pricer& pricer, Bounds& bounds,
                                        const std::function<std::string(const Point&)>& text_of,
                                        const std::function<bool()>& stop);

}  // namespace piper::search
