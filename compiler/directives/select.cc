#include "compiler/directives/select.h"

#include <algorithm>
#include <map>

#include "compiler/strategy/filter.h"

namespace piper::directives {
namespace {

constexpr const char* kMicrobatchTag = "MB";

}  // namespace

std::vector<ir::Phase> matched_phases(const std::optional<strategy::Pass>& pass) {
  using enum ir::Phase;
  if (!pass) return {kForward, kBackward, kBackwardWeight};
  switch (*pass) {
    case strategy::Pass::kF: return {kForward};
    case strategy::Pass::kB: return {kBackward, kBackwardWeight};
    case strategy::Pass::kBI: return {kBackward};
    case strategy::Pass::kBW: return {kBackwardWeight};
  }
  return {};
}

bool names_half(const strategy::Filter& filter) {
  return filter.pass && (*filter.pass == strategy::Pass::kBI || *filter.pass == strategy::Pass::kBW);
}

Selector::Selector(const std::vector<ir::Chunk>& regions, const ir::Step& step)
    : num_microbatches_(step.num_microbatches), split_(step.split) {
  const size_t num_chunks = regions.size();
  for (size_t c = 0; c < num_chunks; ++c) {
    all_.push_back(ir::ChunkId(c));
    for (const ir::TagValue& tag : regions[c].tags) {
      auto column =
          std::find_if(columns_.begin(), columns_.end(), [&](const Column& known) { return known.tag == tag.tag; });
      if (column == columns_.end())
        column = columns_.insert(column, {tag.tag, std::vector<int32_t>(num_chunks, -1), {}});
      column->index[c] = tag.index;
      if (column->last() < tag.index) column->chunks.resize(static_cast<size_t>(tag.index) + 1);
      column->chunks[static_cast<size_t>(tag.index)].push_back(ir::ChunkId(c));
    }
  }
  std::sort(columns_.begin(), columns_.end(), [](const Column& a, const Column& b) { return a.tag < b.tag; });
}

const Selector::Column* Selector::find(const std::string& tag) const {
  for (const Column& column : columns_)
    if (column.tag == tag) return &column;
  return nullptr;
}

std::string Selector::list_tags() const {
  std::map<std::string, int32_t> extents;
  for (const Column& column : columns_) extents[column.tag] = column.last();
  if (split_) extents[kMicrobatchTag] = num_microbatches_ - 1;
  std::string text;
  for (const auto& [tag, last] : extents)
    text += (text.empty() ? "" : ", ") + tag + " (0.." + std::to_string(last) + ")";
  return text.empty() ? "the model has no tags; `annotate` makes them" : "tags of the model: " + text;
}

Result<Selection> Selector::select(const strategy::Filter& filter, diag::Diagnostics& diags) const {
  Selection selection;
  const strategy::FilterTerm* microbatch = nullptr;
  std::vector<std::pair<const strategy::FilterTerm*, const Column*>> wanted;
  for (const strategy::FilterTerm& term : filter.terms) {
    if (term.tag == kMicrobatchTag && split_) {
      microbatch = &term;
    } else if (const Column* column = find(term.tag); column != nullptr) {
      wanted.emplace_back(&term, column);
    } else {
      std::vector<std::string> names;
      for (const Column& known : columns_) names.push_back(known.tag);
      if (split_) names.push_back(kMicrobatchTag);
      auto error = diags.error("P0203", term.tag_span);
      error << "no node has tag '" << term.tag << "'";
      error.note(list_tags());
      const std::string near = diag::nearest(term.tag, names);
      if (!near.empty()) error.help("did you mean '" + near + "'?");
      return error;
    }
  }
  // Most filters name one index of some tag.
  static const std::vector<ir::ChunkId> none;
  const std::vector<ir::ChunkId>* among = &all_;
  for (const auto& [term, column] : wanted) {
    if (term->any || term->absent || term->ranges.size() != 1 || term->ranges[0].first != term->ranges[0].second)
      continue;
    const int64_t index = term->ranges[0].first;
    const std::vector<ir::ChunkId>& fit =
        index >= 0 && index <= column->last() ? column->chunks[static_cast<size_t>(index)] : none;
    if (fit.size() < among->size()) among = &fit;
  }
  for (const ir::ChunkId chunk : *among) {
    const bool matches = std::all_of(wanted.begin(), wanted.end(), [&](const auto& pair) {
      const int32_t index = pair.second->index[chunk.index];
      if (pair.first->absent) return index < 0;
      return index >= 0 && (pair.first->any || pair.first->matches(index));
    });
    if (matches) selection.chunks.push_back(chunk);
  }
  std::vector<std::pair<int64_t, int64_t>> ranges = {{0, num_microbatches_ - 1}};
  if (microbatch != nullptr && !microbatch->any) ranges = microbatch->ranges;
  for (const auto& [first, last] : ranges)
    for (int64_t m = std::max<int64_t>(first, 0); m <= std::min<int64_t>(last, num_microbatches_ - 1); ++m)
      selection.microbatches.push_back(static_cast<int32_t>(m));
  std::sort(selection.microbatches.begin(), selection.microbatches.end());
  selection.microbatches.erase(std::unique(selection.microbatches.begin(), selection.microbatches.end()),
                               selection.microbatches.end());
  if (selection.chunks.empty() || selection.microbatches.empty()) {
    auto error = diags.error("P0204", filter.span);
    error << "the filter " << strategy::to_string(filter) << " matches nothing";
    error.note(list_tags());
    return error;
  }
  for (const auto& [term, column] : wanted) tell_beyond(*term, column->last(), diags);
  if (microbatch != nullptr) tell_beyond(*microbatch, num_microbatches_ - 1, diags);
  return selection;
}

void Selector::tell_beyond(const strategy::FilterTerm& term, int64_t last, diag::Diagnostics& diags) const {
  if (term.any || term.absent) return;
  for (const auto& range : term.ranges) {
    if (range.second <= last) continue;
    auto warning = diags.warning("P0204", term.tag_span);
    warning << "no node has '" << term.tag << "' " << range.second << ", which the filter also names";
    warning.note(list_tags());
    return;
  }
}

}  // namespace piper::directives
