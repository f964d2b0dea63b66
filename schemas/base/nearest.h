// What somebody may have meant by a word that is none.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace piper {
namespace detail {

inline std::string lower(const std::string& text) {
  std::string result = text;
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Edit distance with transposition of neighbours (optimal string alignment).
inline size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t swap = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + swap});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace detail

// The candidate nearest to `word` by edit distance, or "" where none is near.
inline std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  const std::string small = detail::lower(word);
  for (const std::string& candidate : candidates) {
    if (candidate == word) continue;
    const std::string other = detail::lower(candidate);
    const size_t limit = best_distance;
    const size_t gap = other.size() > small.size() ? other.size() - small.size() : small.size() - other.size();
    if (gap >= limit || small.size() > 200) continue;
    size_t distance = detail::edit_distance(small, other);
    // "loss" is no misspelling of "lr" just because both are short.
    if (distance >= std::max(small.size(), other.size())) continue;
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace piper
