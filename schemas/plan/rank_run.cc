#include "schemas/plan/rank_run.h"

#include <charconv>
#include <optional>

namespace piper::plan {

namespace {

constexpr std::string_view kTo = "..", kBy = " by ";

// The number that the text begins with, which is taken off.
std::optional<int32_t> take_number(std::string_view& text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::string rank_run(const std::vector<int32_t>& ranks) {
  if (ranks.size() < kLeastRun || ranks.front() < 0) return "";
  const int64_t distance = int64_t{ranks[1]} - ranks[0];
  if (distance <= 0) return "";
  for (size_t i = 2; i < ranks.size(); ++i)
    if (int64_t{ranks[i]} - ranks[i - 1] != distance) return "";
  std::string text = std::to_string(ranks.front()).append(kTo) + std::to_string(ranks.back());
  if (distance > 1) text.append(kBy) += std::to_string(distance);
  return text;
}

std::vector<int32_t> ranks_of_run(std::string_view text, int32_t world_size) {
  std::string_view rest = text;
  const auto first = take_number(rest);
  if (!first || !take_word(rest, kTo)) return {};
  const auto last = take_number(rest);
  if (!last || *last < *first || *last >= world_size) return {};
  int32_t distance = 1;
  if (take_word(rest, kBy)) {
    const auto said = take_number(rest);
    if (!said || *said < 2) return {};
    distance = *said;
  }
  if (!rest.empty() || (*last - *first) % distance != 0) return {};
  const int64_t count = (*last - *first) / distance + 1;
  if (count < static_cast<int64_t>(kLeastRun)) return {};
  std::vector<int32_t> ranks(static_cast<size_t>(count));
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = *first + static_cast<int32_t>(i) * distance;
  return ranks;
}

}  // namespace piper::plan
