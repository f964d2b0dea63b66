#include "compiler/regions/add_model_tags.h"

#include <algorithm>
#include <set>

namespace piper::regions {
namespace {

const strategy::Annotation* annotation_of(const std::vector<strategy::Annotation>& annotations,
                                          const std::string& tag) {
  for (const strategy::Annotation& a : annotations)
    if (a.tag == tag) return &a;
  return nullptr;
}

Status check_indices(const TagColumn& column, diag::Diagnostics& diags) {
  const std::set<int32_t> used(column.region.begin(), column.region.end());
  for (int32_t k = 0; k < column.count; ++k)
    if (used.count(k) == 0)
      return diags.error("P0316").help(
                 "number the regions of the model 0, 1, 2, ..., or give the tag in the strategy: annotate: [{tag: " +
                 column.tag + ", starts: [...]}]")
             << "the model annotates '" << column.tag << "' up to " << column.count - 1
             << ", but no operator that depends on a weight has index " << k;
  return Status();
}

}  // namespace

Status add_model_tags(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles,
                      const std::vector<strategy::Annotation>& annotations, const ModelTags& model_tags,
                      std::vector<TagColumn>& columns, diag::Diagnostics& diags) {
  std::map<std::string, TagColumn> added;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::ProvId prov = graph.op(ir::OpId(i)).prov;
    if (roles[i] == analysis::OpRole::kCopied || !prov.valid()) continue;
    const auto* origin = std::get_if<ir::ModelOrigin>(&graph.provenance().entry(prov));
    if (origin == nullptr) continue;
    const auto found = model_tags.find(origin->node);
    if (found == model_tags.end()) continue;
    for (const ir::TagValue& value : found->second) {
      if (value.index < 0)
        return diags.error("P0316") << "the model annotates '" << origin->node << "' with " << value.tag << " = "
                                    << value.index << "; indices start at 0";
      if (strategy::has_control_character(value.tag))
        return diags.error("P0316") << "the model annotates '" << origin->node
                                    << "' with a tag that has a line break or another control character";
      TagColumn& column = added[value.tag];
      column.tag = value.tag;
      column.region.resize(graph.num_ops(), -1);
      column.region[i] = value.index;
      column.count = std::max(column.count, value.index + 1);
    }
  }
  for (auto& [tag, column] : added) {
    if (const strategy::Annotation* own = annotation_of(annotations, tag)) {
      diags.remark("the strategy annotates '" + tag + "', so the model's own annotations of it are not used",
                   own->span);
      continue;
    }
    PIPER_RETURN_IF_ERROR(check_indices(column, diags));
    columns.push_back(std::move(column));
  }
  std::sort(columns.begin(), columns.end(), [](const TagColumn& a, const TagColumn& b) { return a.tag < b.tag; });
  return Status();
}

}  // namespace piper::regions
