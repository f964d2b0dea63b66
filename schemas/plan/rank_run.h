// How a plan writes many ranks at equal distances, so that its text does not grow with them: "0..8191" are the ranks 0
// to 8191, "1..505 by 8" the ranks 1, 9, 17, .. 505. Both ends are among them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace piper::plan {

// "" for ranks that are written one by one: fewer than kLeastRun, or at distances that differ or are not positive.
inline constexpr size_t kLeastRun = 16;
std::string rank_run(const std::vector<int32_t>& ranks);

// The ranks of such a text; none where it is not what rank_run() writes of them, or where one is not below
// `world_size`: a short text must not take more memory than the plans of that many ranks.
std::vector<int32_t> ranks_of_run(std::string_view text, int32_t world_size);

}  // namespace piper::plan
