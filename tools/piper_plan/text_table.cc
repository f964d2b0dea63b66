#include "tools/piper_plan/text_table.h"

#include <algorithm>
#include <map>

namespace piper::tools {
namespace {

bool is_number(const std::string& cell) { return !cell.empty() && cell[0] >= '0' && cell[0] <= '9'; }

void add_row(std::string& text, const std::vector<std::string>& row, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t c = 0; c < row.size(); ++c) {
    const std::string pad(widths[c] - std::min(widths[c], row[c].size()), ' ');
    line += "  ";
    line += c > 0 && is_number(row[c]) ? pad + row[c] : row[c] + pad;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  text += line + "\n";
}

}  // namespace

std::string format_table(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& heading : headings) widths.push_back(heading.size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size() && c < widths.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  add_row(text, headings, widths);
  for (const auto& row : rows) add_row(text, row, widths);
  return text;
}

std::string rank_list(const std::vector<int32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? "," : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string markdown_table(const std::vector<std::string>& headings,
                           const std::vector<std::vector<std::string>>& rows) {
  const auto row_text = [](const std::vector<std::string>& row) {
    std::string text = "|";
    for (const std::string& cell : row) {
      text += " ";
      for (const char c : cell) text += c == '|' ? "\\|" : std::string(1, c);
      text += " |";
    }
    return text + "\n";
  };
  std::string text = row_text(headings) + "|";
  for (size_t c = 0; c < headings.size(); ++c) text += c == 0 ? "---|" : "---:|";
  text += "\n";
  for (const auto& row : rows) text += row_text(row);
  return text;
}

std::vector<std::vector<std::string>> merge_ranks(const std::vector<std::vector<std::string>>& rows) {
  std::map<std::vector<std::string>, size_t> place;
  std::vector<std::vector<std::string>> merged;
  std::vector<std::vector<int32_t>> ranks;
  for (const auto& row : rows) {
    const std::vector<std::string> rest(row.begin() + 1, row.end());
    const auto [found, added] = place.emplace(rest, merged.size());
    if (added) {
      merged.push_back(row);
      ranks.emplace_back();
    }
    ranks[found->second].push_back(std::stoi(row[0]));
  }
  for (size_t i = 0; i < merged.size(); ++i) merged[i][0] = rank_list(ranks[i]);
  return merged;
}

}  // namespace piper::tools
