// Reads a module: its sections, each at most once except variants.
#include <set>

#include "compiler/ir/graph_text.h"
#include "compiler/ir/module_fields.h"
#include "compiler/ir/module_text.h"

namespace piper::ir {
namespace {

class ModuleParser {
 public:
  ModuleParser(std::string_view text, std::string_view file_name) : in_(text, file_name) {}

  Result<ModuleText> run() {
    PIPER_RETURN_IF_ERROR(in_.start());
    PIPER_RETURN_IF_ERROR(in_.want_word("module"));
    PIPER_RETURN_IF_ERROR(in_.block([&] { return header(); }));
    while (!in_.at_end()) PIPER_RETURN_IF_ERROR(section());
    return std::move(read_);
  }

 private:
  Status header() {
    BlockReader line(read_.module, in_);
    header_fields(line, read_.module, read_.lowered);
    return line.take_status();
  }

  Status section() {
    const Token name = in_.token();
    if (name.kind != TokenKind::kWord)
      return in_.fail("expected provenance, variant, distribution, schedule, dag or state");
    if (name.text != "variant" && !seen_.insert(name.text).second)
      return in_.fail("section " + name.text + " appears twice");
    PIPER_RETURN_IF_ERROR(in_.advance());
    Module& module = read_.module;
    if (name.text == "provenance")
      return in_.block([&]() -> Status {
        PIPER_RETURN_IF_ERROR(in_.want_word("prov"));
        return in_.provenance_entry(module.provenance);
      });
    if (name.text == "variant") return variant();
    if (name.text == "distribution") return parse_distribution_section(in_, module);
    if (name.text == "schedule") return parse_schedule_section(in_, module);
    if (name.text == "dag") return parse_dag_section(in_, module);
    if (name.text == "state") return parse_state_section(in_, module);
    return in_.fail(name, "no section '" + name.text + "'");
  }

  Status variant() {
    ModelVariant variant;
    PIPER_ASSIGN(variant.local_batch, in_.integer());
    bool has_graph = false;
    PIPER_RETURN_IF_ERROR(in_.block([&]() -> Status {
      PIPER_ASSIGN(const bool tag, in_.takes("tag"));
      if (tag) return read_line(read_.module, in_, variant.chunked.tags.emplace_back());
      PIPER_ASSIGN(const bool chunk, in_.takes("chunk"));
      if (chunk) return read_next(read_.module, in_, variant.chunked.chunks, "chunks");
      if (in_.is_word("gradients")) return gradients(variant);
      if (in_.is_word("repeating")) return repeating(variant);
      if (!in_.is_word("graph")) return in_.fail("expected tag, chunk, graph, gradients, repeating or '}'");
      if (has_graph) return in_.fail("a variant has one graph");
      has_graph = true;
      PIPER_ASSIGN(variant.chunked.graph, parse_graph(in_));
      return {};
    }));
    read_.module.variants.push_back(std::move(variant));
    return {};
  }

  Status gradients(ModelVariant& variant) {
    PIPER_RETURN_IF_ERROR(in_.advance());
    const Graph& graph = variant.chunked.graph;
    const std::map<std::string, ValueId> values = values_by_name(graph);
    variant.gradients.resize(graph.num_values());
    return in_.block([&]() -> Status {
      PIPER_ASSIGN(const ValueId of, in_.value_of(values));
      PIPER_RETURN_IF_ERROR(in_.want("="));
      PIPER_ASSIGN(variant.gradients[of.index], in_.value_of(values));
      return {};
    });
  }

  Status repeating(ModelVariant& variant) {
    PIPER_RETURN_IF_ERROR(in_.advance());
    if (variant.repeating) return in_.fail("a variant has one graph that repeats forwards");
    const Token start = in_.token();
    PIPER_ASSIGN(variant.repeating, parse_graph(in_));
    if (!variant.repeating->number_values_like(variant.chunked.graph))
      return in_.fail(start, "the graph that repeats forwards lacks a value of the variant's graph, which comes first");
    return {};
  }

  ModuleReader in_;
  ModuleText read_;
  std::set<std::string> seen_;
};

}  // namespace

Result<ModuleText> parse_module_text(std::string_view text, std::string_view file_name) {
  return ModuleParser(text, file_name).run();
}

Result<Module> parse_module(std::string_view text, std::string_view file_name) {
  PIPER_ASSIGN(ModuleText read, parse_module_text(text, file_name));
  return std::move(read.module);
}

}  // namespace piper::ir
