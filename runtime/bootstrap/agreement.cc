#include "runtime/bootstrap/agreement.h"

#include <algorithm>

namespace piper::bootstrap {

namespace {

std::string rank_list(const std::vector<size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

std::string value_of(const Agreement& agreement, const std::string& name) {
  for (const AgreedOption& option : agreement.options)
    if (option.name == name) return option.value;
  return "not given";
}

// Each option that differs, with the first rank that has another value than rank 0: "seed (rank 0: 1, rank 3: 2)".
std::string differences(const std::vector<Agreement>& by_rank) {
  std::vector<std::string> seen;
  std::string text;
  for (const Agreement& agreement : by_rank)
    for (const AgreedOption& option : agreement.options) {
      if (std::find(seen.begin(), seen.end(), option.name) != seen.end()) continue;
      seen.push_back(option.name);
      const std::string first = value_of(by_rank[0], option.name);
      const auto other = std::find_if(by_rank.begin(), by_rank.end(),
                                      [&](const Agreement& its) { return value_of(its, option.name) != first; });
      if (other == by_rank.end()) continue;
      text += (text.empty() ? "" : ", ") + option.name + " (rank 0: " + first + ", rank " +
              std::to_string(other - by_rank.begin()) + ": " + value_of(*other, option.name) + ")";
    }
  return text;
}

// A digest is hexadecimal, so the first newline ends it; each option is a line.
std::string encode(const Agreement& agreement) {
  std::string text = agreement.bundle_digest + "\n";
  for (const AgreedOption& option : agreement.options) text += option.name + "\t" + option.value + "\n";
  return text;
}

Agreement decode(const std::string& text) {
  Agreement agreement;
  size_t end = text.find('\n');
  agreement.bundle_digest = text.substr(0, end);
  while (end != std::string::npos && end + 1 < text.size()) {
    const size_t begin = end + 1, tab = text.find('\t', begin);
    end = text.find('\n', begin);
    agreement.options.push_back({text.substr(begin, tab - begin), text.substr(tab + 1, end - tab - 1)});
  }
  return agreement;
}

}  // namespace

Status compare_agreements(const std::vector<Agreement>& by_rank) {
  std::vector<size_t> other_digest, other_options;
  for (size_t r = 1; r < by_rank.size(); ++r) {
    if (by_rank[r].bundle_digest != by_rank[0].bundle_digest) other_digest.push_back(r);
    if (by_rank[r].options != by_rank[0].options) other_options.push_back(r);
  }
  if (!other_digest.empty())
    return Status::failure("R0102", rank_list(other_digest) + " read another plan than rank 0: digest " +
                                        by_rank[other_digest[0]].bundle_digest.substr(0, 12) + " against " +
                                        by_rank[0].bundle_digest.substr(0, 12) +
                                        ". Give every rank the same bundle, e.g. on a shared file system");
  if (!other_options.empty())
    return Status::failure(
        "R0102", rank_list(other_options) + " started with other options than rank 0: " + differences(by_rank));
  return {};
}

Status check_agreement(hal::ControlChannel& control, const Agreement& mine, const hal::WaitControl& wait) {
  PIPER_ASSIGN(std::vector<std::string> all, control.allgather(encode(mine), wait));
  std::vector<Agreement> by_rank;
  for (const std::string& text : all) by_rank.push_back(decode(text));
  return compare_agreements(by_rank);
}

}  // namespace piper::bootstrap
