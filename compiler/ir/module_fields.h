// The lines of a module's text that are outside of its sections (section_fields.h). Used by print_module.cc and
// parse_module.cc.
#pragma once

#include "compiler/ir/section_fields.h"

namespace piper::ir {

// Every row of the distribution has an entry for each.
inline constexpr int64_t kMostMicrobatches = int64_t{1} << 20;

void fields(auto& v, Of<Step> auto& step) {
  v("batch", step.batch);
  v.integer_in("microbatches", step.num_microbatches, 1, kMostMicrobatches, "a number of microbatches");
  v.flag("split", step.split);
  v.flag("cut", step.cut);
  v.optional("by", step.cut_by, {});
}
void fields(auto& v, Of<Training> auto& training) {
  v("clip", training.clip_grad_norm);
  v.optional("by", training.clip_prov, {});
  v.optional("update", training.update_prov, {});
}
void fields(auto& v, Of<Precision> auto& precision) {
  v("compute", precision.compute);
  v("master", precision.master);
  v("reduce", precision.reduce);
  v.together("loss_scale", precision.scales(), [&] {
    v("", precision.scaling);
    v("", precision.loss_scale);
  });
  v.unless_empty("keep", precision.keep);
  v.optional("by", precision.prov, {});
}
void fields(auto& v, Of<Head> auto& head) {
  v.flag("off", head.off);
  v.optional("blocks", head.blocks, 0, "a number of blocks");
}
// `lowered`: shapes were there.
void header_fields(auto& v, auto& module, auto& lowered) {
  v("step", module.step);
  v.unless_empty("per_microbatch", module.step.per_microbatch);
  v("training", module.training);
  v.where(module.precision.says_something(), "precision", module.precision);
  v.where(module.head.says_something(), "head", module.head);
  v.flag("lowered", lowered);
}

void fields(auto& v, Of<TagValue> auto& value) {
  v("", value.tag);
  v("", value.index, "the index of a tag");
}
void fields(auto& v, Of<ChunkedGraph::TagExtent> auto& extent) {
  v("", extent.tag);
  v("", extent.count, "a number of indices");
}
void fields(auto& v, Of<Chunk> auto& chunk) {
  v("", chunk.name);
  v.unless_empty("tags", chunk.tags);
  v.optional("region", chunk.region, -1, "a region");
  v.flag("exchange", chunk.exchange);
  v.flag("again", chunk.again);
  v.optional("shard", chunk.shard, -1, "a shard");
}

}  // namespace piper::ir
