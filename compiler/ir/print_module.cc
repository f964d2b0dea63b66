// Prints a module: what says how a step is cut, the model's variants, then the sections of module_sections.h.
#include <sstream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/graph_text.h"
#include "compiler/ir/module_fields.h"
#include "compiler/ir/module_text.h"

namespace piper::ir {
namespace {

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

void print_variant(const Module& module, const ModelVariant& variant, std::ostream& out) {
  const ChunkedGraph& chunked = variant.chunked;
  out << "variant " << variant.local_batch << " {\n";
  for (const ChunkedGraph::TagExtent& extent : chunked.tags) write_line(module, out, "  tag", extent);
  write_table(module, out, "  chunk", chunked.chunks);
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
  const bool lowered = !module.shapes.empty();
  out << "module {\n";
  BlockWriter header(module, out, "  ");
  header_fields(header, module, lowered);
  out << "}\n";
  if (module.provenance.size() > 0) {
    out << "provenance {\n";
    print_provenance(module.provenance, out, "  ");
    out << "}\n";
  }
  for (const ModelVariant& variant : module.variants) print_variant(module, variant, out);
  print_distribution_section(module, out);
  print_schedule_section(module, out);
  print_dag_section(module, out);
  print_state_section(module, out);
  return out.str();
}

}  // namespace piper::ir
