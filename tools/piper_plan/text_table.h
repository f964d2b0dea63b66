// Tables of text, for the terminal and in Markdown: used by the commands of piper-plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace piper::tools {

// Columns are as wide as their widest cell; cells that begin with a digit are right-aligned.
std::string format_table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows);
// The same for Markdown: the first column is aligned left, the others right.
std::string markdown_table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows);

// Rows that are equal except for their first cell, a rank, become one row: "0,2,4-7".
std::vector<std::vector<std::string>> merge_ranks(const std::vector<std::vector<std::string>>& rows);
// "0,2,4-7" of an ascending list.
std::string rank_list(const std::vector<int32_t>& ranks);

}  // namespace piper::tools
