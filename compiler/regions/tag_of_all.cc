#include "compiler/regions/tag_of_all.h"

#include <algorithm>
#include <cstdint>

namespace piper::regions {
namespace {

int64_t tagged_ops(const TagColumn& column) {
  return std::count_if(column.region.begin(), column.region.end(), [](int32_t region) { return region >= 0; });
}

}  // namespace

void choose_tag_of_all(const std::optional<std::string>& needed, std::vector<TagColumn>& columns) {
  const auto is_partition = [](const TagColumn& column) { return column.is_partition; };
  if (!needed || std::any_of(columns.begin(), columns.end(), is_partition)) return;
  const auto chosen =
      needed->empty()
          ? std::max_element(columns.begin(), columns.end(),
                             [](const TagColumn& a, const TagColumn& b) { return tagged_ops(a) < tagged_ops(b); })
          : std::find_if(columns.begin(), columns.end(),
                         [&](const TagColumn& column) { return column.tag == *needed; });
  if (chosen != columns.end()) chosen->is_partition = true;
}

}  // namespace piper::regions
