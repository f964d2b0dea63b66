// A graph's text as a part of a larger one: what the text form of a module (module_text.h) uses of printer.cc and
// parser.cc.
#pragma once

#include <iosfwd>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/ir/text_reader.h"

namespace piper::ir {

// "graph { ... }", each line after the margin.
void print(const Graph& graph, std::ostream& out, std::string_view margin);
// Reads "graph { ... }" and stops after it.
Result<Graph> parse_graph(TextReader& in);
// One line "prov 0 ..." an entry.
void print_provenance(const Provenance& provenance, std::ostream& out, std::string_view indent);

}  // namespace piper::ir
