#include "runtime/bootstrap/agreement.h"

namespace piper::bootstrap {

namespace {

std::string rank_list(const std::vector<size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
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
    return Status::failure("R0102", rank_list(other_options) + " started with other options than rank 0: " +
                                        by_rank[other_options[0]].options + " against " + by_rank[0].options);
  return {};
}

Status check_agreement(hal::ControlChannel& control, const Agreement& mine, const hal::WaitControl& wait) {
  // A digest is hexadecimal, so the first newline ends it.
  PIPER_ASSIGN(std::vector<std::string> all, control.allgather(mine.bundle_digest + "\n" + mine.options, wait));
  std::vector<Agreement> by_rank;
  for (const std::string& text : all) {
    size_t end = text.find('\n');
    by_rank.push_back({text.substr(0, end), text.substr(end + 1)});
  }
  return compare_agreements(by_rank);
}

}  // namespace piper::bootstrap
