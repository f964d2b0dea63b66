// A point as the text of a strategy that a person would have written: the base's own lines, then mesh, stages,
// directives and schedule. The one place that knows what a point means in the language.
#pragma once

#include <string>
#include <vector>

#include "compiler/search/base_strategy.h"
#include "compiler/search/point.h"

namespace piper::search {

// `experts`: globs of the modules that hold some; needed where point.ep > 1 or the base has a capacity. `head`: lines
// of a comment in front, each beginning with "# ", or "".
std::string strategy_of(const Point& point, const BaseStrategy& base, const std::vector<std::string>& experts,
                        const std::string& head = "");

// The device group of the pipeline that has a stage, by the point's family; of `dualpipe`, which has two, the first.
int32_t group_of_stage(const Point& point, int32_t stage);

}  // namespace piper::search
