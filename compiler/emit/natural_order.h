// The order of names with numbers in them: "m2" before "m10".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace piper::emit {

// The indices of `names`, in natural order: byte by byte, but runs of digits by their length first (nine and more are
// alike). Equal names keep their order.
std::vector<int32_t> natural_order(const std::vector<std::string_view>& names);

}  // namespace piper::emit
