#include "schemas/timeline/stages.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "schemas/plan/chunk_names.h"

namespace piper::timeline {

Stages::Stages(const plan::Bundle& bundle) {
  std::set<std::pair<std::string, std::string>> passes;  // chunk, pass: local batches of one count once
  for (const auto& program : bundle.programs)
    if (auto named = plan::chunk_program(program.name)) passes.emplace(std::move(named->chunk), std::move(named->pass));
  bool first = true;
  for (const auto& [chunk, pass] : passes) {
    std::set<std::string> own, both;
    for (const auto& tag : plan::tags_of_chunk(chunk)) own.insert(tag.tag);
    std::set_intersection(own.begin(), own.end(), common_.begin(), common_.end(), std::inserter(both, both.end()));
    common_ = first ? own : both;
    first = false;
  }
  for (const auto& [chunk, pass] : passes) ++pieces_[{stage_of(chunk), pass}];
}

std::string Stages::stage_of(const std::string& chunk) const {
  std::string stage;
  for (const auto& tag : plan::tags_of_chunk(chunk))
    if (common_.empty() || common_.count(tag.tag) > 0) stage += (stage.empty() ? "" : ".") + tag.tag + tag.index;
  return stage.empty() ? chunk.substr(0, chunk.find('/')) : stage;
}

int64_t Stages::pieces_of(const std::string& chunk, const std::string& pass) const {
  const auto found = pieces_.find({stage_of(chunk), pass});
  return found == pieces_.end() ? 1 : found->second;
}

}  // namespace piper::timeline
