#include "compiler/directives/select.h"

#include <algorithm>
#include <map>

#include "compiler/strategy/filter.h"

namespace piper::directives {
namespace {

constexpr const char* kMicrobatchTag = "MB";

// Tag -> largest index, over all chunks.
std::map<std::string, int32_t> tag_extents(const ir::Dag& dag) {
  std::map<std::string, int32_t> extents;
  for (const ir::Chunk& chunk : dag.chunks)
    for (const ir::TagValue& tag : chunk.tags) {
      auto [it, fresh] = extents.emplace(tag.tag, tag.index);
      if (!fresh) it->second = std::max(it->second, tag.index);
    }
  if (dag.split) extents[kMicrobatchTag] = dag.num_microbatches - 1;
  return extents;
}

bool has_tag(const ir::Dag& dag, const std::string& name) {
  if (name == kMicrobatchTag && dag.split) return true;
  return std::any_of(dag.chunks.begin(), dag.chunks.end(), [&](const ir::Chunk& chunk) {
    return std::any_of(chunk.tags.begin(), chunk.tags.end(), [&](const ir::TagValue& tag) { return tag.tag == name; });
  });
}

std::string list_tags(const std::map<std::string, int32_t>& extents) {
  std::string text;
  for (const auto& [tag, last] : extents) text += (text.empty() ? "" : ", ") + tag + " (0.." + std::to_string(last) + ")";
  return text.empty() ? "the model has no tags; `annotate` makes them" : "tags of the model: " + text;
}

}  // namespace

bool pass_matches(const std::optional<strategy::Pass>& wanted, ir::Pass pass) {
  switch (pass) {
    case ir::Pass::kCount: return false;
    case ir::Pass::kForward: return !wanted || *wanted == strategy::Pass::kF;
    case ir::Pass::kBackward: return !wanted || *wanted == strategy::Pass::kB || *wanted == strategy::Pass::kBI;
    case ir::Pass::kBackwardWeight: return !wanted || *wanted == strategy::Pass::kB || *wanted == strategy::Pass::kBW;
  }
  return false;
}

Result<Selection> select(const ir::Dag& dag, const strategy::Filter& filter, diag::Diagnostics& diags) {
  Selection selection;
  const strategy::FilterTerm* microbatch = nullptr;
  for (const strategy::FilterTerm& term : filter.terms) {
    if (!has_tag(dag, term.tag)) {
      const auto extents = tag_extents(dag);
      std::vector<std::string> names;
      for (const auto& [tag, last] : extents) names.push_back(tag);
      auto error = diags.error("P0203", term.tag_span);
      error << "no node has tag '" << term.tag << "'";
      error.note(list_tags(extents));
      const std::string near = diag::nearest(term.tag, names);
      if (!near.empty()) error.help("did you mean '" + near + "'?");
      return error;
    }
    if (term.tag == kMicrobatchTag) microbatch = &term;
  }
  for (size_t c = 0; c < dag.chunks.size(); ++c) {
    const bool matches = std::all_of(filter.terms.begin(), filter.terms.end(), [&](const strategy::FilterTerm& term) {
      if (term.tag == kMicrobatchTag) return true;
      for (const ir::TagValue& tag : dag.chunks[c].tags)
        if (tag.tag == term.tag) return term.any || term.matches(tag.index);
      return false;
    });
    if (matches) selection.chunks.push_back(ir::ChunkId(c));
  }
  selection.names_microbatch = microbatch != nullptr;
  std::vector<std::pair<int64_t, int64_t>> ranges = {{0, dag.num_microbatches - 1}};
  if (microbatch != nullptr && !microbatch->any) ranges = microbatch->ranges;
  for (const auto& [first, last] : ranges)
    for (int64_t m = std::max<int64_t>(first, 0); m <= std::min<int64_t>(last, dag.num_microbatches - 1); ++m)
      selection.microbatches.push_back(static_cast<int32_t>(m));
  std::sort(selection.microbatches.begin(), selection.microbatches.end());
  selection.microbatches.erase(std::unique(selection.microbatches.begin(), selection.microbatches.end()), selection.microbatches.end());
  if (selection.chunks.empty() || selection.microbatches.empty()) {
    auto error = diags.error("P0204", filter.span);
    error << "the filter " << strategy::to_string(filter) << " matches nothing";
    error.note(list_tags(tag_extents(dag)));
    return error;
  }
  return selection;
}

}  // namespace piper::directives
