// Prints a module: what says how a step is cut, the model's variants, then the sections of module_sections.h.
#include <sstream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/graph_text.h"
#include "compiler/ir/module_sections.h"
#include "compiler/ir/module_text.h"

namespace piper::ir {
namespace {

void print_precision(const Precision& precision, std::ostream& out) {
  if (!precision.says_something()) return;
  out << "\n  precision";
  const auto type = [&](const char* what, const std::optional<DType>& dtype) {
    if (dtype) out << " " << what << " " << dtype_name(*dtype);
  };
  type("compute", precision.compute);
  type("master", precision.master);
  type("reduce", precision.reduce);
  if (precision.scales())
    out << " loss_scale " << kScalingWords[static_cast<size_t>(precision.scaling)] << " "
        << number_text(precision.loss_scale);
  if (!precision.keep.empty()) out << " keep " << list_text(precision.keep, string_literal);
  out << prov_text(precision.prov);
}

void print_header(const Module& module, std::ostream& out) {
  const Step& step = module.step;
  out << "module {\n  step batch " << step.batch << " microbatches " << step.num_microbatches
      << (step.split ? " split" : "") << (step.cut ? " cut" : "")
      << (step.cut_by == diag::Span() ? "" : " by " + span_text(step.cut_by)) << "\n";
  if (!step.per_microbatch.empty())
    out << "  per_microbatch " << list_text(step.per_microbatch, string_literal) << "\n";
  out << "  training clip " << number_text(module.training.clip_grad_norm) << prov_text(module.training.clip_prov);
  if (module.training.update_prov.valid()) out << " update " << module.training.update_prov.index;
  print_precision(module.precision, out);
  out << "\n" << (module.shapes.empty() ? "" : "  lowered\n") << "}\n";
}

void print_chunk(const Chunk& chunk, size_t index, std::ostream& out) {
  out << "  chunk " << index << " " << string_literal(chunk.name);
  const auto tag_text = [](const TagValue& value) {
    return string_literal(value.tag) + " " + std::to_string(value.index);
  };
  if (!chunk.tags.empty()) out << " tags " << list_text(chunk.tags, tag_text);
  if (chunk.region != -1) out << " region " << chunk.region;
  if (chunk.exchange) out << " exchange";
  if (chunk.shard != -1) out << " shard " << chunk.shard;
  out << "\n";
}

// Values whose ops were removed have no text, nor do their gradients.
void print_gradients(const ModelVariant& variant, std::ostream& out) {
  if (variant.gradients.empty()) return;
  const Graph& graph = variant.chunked.graph;
  const auto stands = [&](ValueId v) {
    return v.index < graph.num_values() &&
           (graph.value(v).kind != ValueKind::kOpResult || graph.value(v).producer.valid());
  };
  out << "  gradients {\n";
  for (size_t v = 0; v < variant.gradients.size(); ++v)
    if (stands(ValueId(v)) && stands(variant.gradients[v]))
      out << "    " << value_text(graph.value(ValueId(v)).name) << " = "
          << value_text(graph.value(variant.gradients[v]).name) << "\n";
  out << "  }\n";
}

void print_variant(const ModelVariant& variant, std::ostream& out) {
  const ChunkedGraph& chunked = variant.chunked;
  out << "variant " << variant.local_batch << " {\n";
  for (const ChunkedGraph::TagExtent& extent : chunked.tags)
    out << "  tag " << string_literal(extent.tag) << " " << extent.count << "\n";
  for (size_t c = 0; c < chunked.chunks.size(); ++c) print_chunk(chunked.chunks[c], c, out);
  print(chunked.graph, out, "  ");
  print_gradients(variant, out);
  if (variant.repeating) {
    out << "  repeating\n";
    print(*variant.repeating, out, "  ");
  }
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
