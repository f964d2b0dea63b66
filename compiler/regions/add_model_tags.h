// Tags that the model file carries itself (torch.fx.traceback.annotate), as columns beside those of
// the strategy's annotations. A part of cut_chunks, between assign_regions and the joins; not a pass
// of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/chunks.h"
#include "compiler/regions/assign_regions.h"

namespace piper::regions {

// By the node name of an op's ModelOrigin.
using ModelTags = std::map<std::string, ir::TagSet>;

// Appends a column for every tag that the strategy does not annotate itself (a remark says that it
// does) and keeps columns sorted by tag. Ops that depend on no parameter stay untagged: they are
// copied to their readers. Error P0316: a negative index, or one below the largest that no op has.
Status add_model_tags(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles,
                      const std::vector<strategy::Annotation>& annotations, const ModelTags& model_tags,
                      std::vector<TagColumn>& columns, diag::Diagnostics& diags);

}  // namespace piper::regions
