// The tag that every operator gets, whatever its module. A part of cut_chunks, between the columns of tags and the
// joins; not a pass of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/regions/assign_regions.h"

namespace piper::regions {

// Marks the column of that tag as a partition, if `starts` or `stages` make none. `needed`: Strategy::needs_tag; with
// "", it is the tag on the most operators.
void choose_tag_of_all(const std::optional<std::string>& needed, std::vector<TagColumn>& columns);

}  // namespace piper::regions
