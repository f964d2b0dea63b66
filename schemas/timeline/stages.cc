#include "schemas/timeline/stages.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace piper::timeline {
namespace {

using namespace plan;

// "PP0"; "L2:3" of a tag that ends in a digit itself.
std::string text(const Tag& tag) {
  const bool digit = !tag.tag.empty() && std::isdigit(static_cast<unsigned char>(tag.tag.back())) != 0;
  return tag.tag + (digit ? ":" : "") + std::to_string(tag.index);
}

}  // namespace

Stages::Stages(const Bundle& bundle) {
  std::set<std::pair<int32_t, Pass>> passes;  // local batches of one count once
  for (const Program& program : bundle.programs)
    if (program.of) passes.emplace(program.of->chunk, program.of->pass);
  const std::vector<Chunk>& chunks = bundle.manifest.chunks;
  std::map<std::string, size_t> having;  // by tag: how many chunks that have programs have it
  std::set<int32_t> of_programs;
  for (const auto& [chunk, pass] : passes)
    if (of_programs.insert(chunk).second)
      for (const Tag& tag : chunks.at(static_cast<size_t>(chunk)).tags) ++having[tag.tag];
  const auto common = [&](const Tag& tag) { return having[tag.tag] == of_programs.size(); };
  const bool any =
      std::any_of(having.begin(), having.end(), [&](const auto& tag) { return tag.second == of_programs.size(); });
  std::map<std::string, std::string> of_region;  // what pieces of it that have tags are called
  for (const Chunk& chunk : chunks) {
    std::string& stage = stages_.emplace_back();
    for (const Tag& tag : chunk.tags)
      if (!any || common(tag)) stage += (stage.empty() ? "" : ".") + text(tag);
    if (!stage.empty()) of_region.emplace(chunk.region, stage);
  }
  for (size_t c = 0; c < chunks.size(); ++c)
    if (stages_[c].empty()) stages_[c] = of_region.emplace(chunks[c].region, chunks[c].region).first->second;
  for (const auto& [chunk, pass] : passes) ++pieces_[{stage_of(chunk), pass}];
}

int64_t Stages::pieces_of(int32_t chunk, Pass pass) const {
  const auto found = pieces_.find({stage_of(chunk), pass});
  return found == pieces_.end() ? 1 : found->second;
}

}  // namespace piper::timeline
