// The points of a search: everything that divides the ranks, the batch and the model, in one fixed order. It holds no
// rule of what is good; what cannot be is left out where numbers say so (a schedule's own preconditions, divisors),
// else the compiler says so of the point.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/search/point.h"
#include "schemas/base/status.h"

namespace piper::search {

// A pipeline rank may have so many stages (`virtual`).
inline constexpr std::array<int32_t, 4> kStagesOfGroup = {1, 2, 4, 8};

// More stages than this no point on so many ranks has.
constexpr int32_t most_stages_on(int32_t ranks) { return kStagesOfGroup.back() * ranks; }

struct SpaceLimits {
  int32_t ranks = 1, ranks_of_node = 1;
  int64_t batch = 1;
  int32_t most_stages = 1;  // that the model can be cut into
  int64_t experts = 0;      // of a layer; 0: none
  int64_t samples = 0;      // of a microbatch on a replica, where the model takes one number alone; 0: any
  std::map<std::string, std::string> fixed;  // choices by name (point.h), and kCapacity
};

// Not a choice, since it decides which tokens are dropped: all strategies have the one that is fixed, or none.
inline constexpr const char* kCapacity = "capacity";

std::vector<Point> points_of(const SpaceLimits& limits);

// "pp=4" into `fixed`. Fails, with what would be valid, where there is no such choice, or the capacity is none.
Status fix(const std::string& text, std::map<std::string, std::string>& fixed);

// P0272 where a choice is fixed to a value that no point of the space has, with the values that there are. For a space
// without points.
Status check_fixed(const SpaceLimits& limits);

// For each choice of which `all` has another value than `point`, and each such value, the point of `all` with it for
// which `cost` is the least; it may differ in what follows from the choice as well (what divides the same ranks or the
// same batch), and in nothing else.
std::vector<std::pair<std::string, Point>> neighbours_of(const Point& point, const std::vector<Point>& all,
                                                         const std::function<double(const Point&)>& cost);

}  // namespace piper::search
