// Prints a module: what says how a step is cut, the model's variants, then the sections of module_sections.h.
#include <sstream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/graph_text.h"
#include "compiler/ir/module_sections.h"
#include "compiler/ir/module_text.h"

namespace piper::ir {
namespace {

void print_header(const Module& module, std::ostream& out) {
  out << "module {\n  step batch " << module.step.batch << " microbatches " << module.step.num_microbatches
      << (module.step.split ? " split" : "") << "\n  training clip " << number_text(module.training.clip_grad_norm)
      << prov_text(module.training.clip_prov);
  if (module.training.update_prov.valid()) out << " update " << module.training.update_prov.index;
  out << "\n" << (module.shapes.empty() ? "" : "  lowered\n") << "}\n";
}

void print_chunk(const Chunk& chunk, size_t index, std::ostream& out) {
  out << "  chunk " << index << " " << quoted(chunk.name);
  if (!chunk.tags.empty()) out << " tags [";
  for (size_t i = 0; i < chunk.tags.size(); ++i)
    out << (i > 0 ? ", " : "") << quoted(chunk.tags[i].tag) << " " << chunk.tags[i].index;
  if (!chunk.tags.empty()) out << "]";
  if (chunk.region != -1) out << " region " << chunk.region;
  if (chunk.exchange) out << " exchange";
  if (chunk.shard != -1) out << " shard " << chunk.shard;
  out << "\n";
}

void print_variant(const ModelVariant& variant, std::ostream& out) {
  const ChunkedGraph& chunked = variant.chunked;
  out << "variant " << variant.local_batch << " {\n";
  for (const ChunkedGraph::TagExtent& extent : chunked.tags)
    out << "  tag " << quoted(extent.tag) << " " << extent.count << "\n";
  for (size_t c = 0; c < chunked.chunks.size(); ++c) print_chunk(chunked.chunks[c], c, out);
  for (size_t s = 0; s < chunked.shards.size(); ++s) {
    const ExpertShard& shard = chunked.shards[s];
    out << "  experts " << s << " " << rank_lists_text(shard.groups) << " stream " << quoted(shard.stream) << " "
        << span_text(shard.span) << "\n";
  }
  print(chunked.graph, out, "  ");
  out << "}\n";
}

}  // namespace

std::string print(const Module& module) {
  std::ostringstream out;
  print_header(module, out);
  if (module.provenance.size() > 0) {
    out << "provenance {\n";
    print_provenance(module.provenance, out, "  ");
    out << "}\n";
  }
  for (const ModelVariant& variant : module.variants) print_variant(variant, out);
  print_distribution_section(module, out);
  print_schedule_section(module, out);
  print_dag_section(module, out);
  print_state_section(module, out);
  return out.str();
}

}  // namespace piper::ir
