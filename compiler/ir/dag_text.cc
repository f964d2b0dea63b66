// The text form of the DAG: section not present. Nothing is printed of it, and no text may hold it.
#include <ostream>

#include "compiler/ir/module_sections.h"

namespace piper::ir {

void print_dag_section(const Module& module, std::ostream& out) {
  if (module.dag.nodes.empty()) return;
  out << "// dag: section not present\n";
}

Status parse_dag_section(ModuleReader& in, Module&) { return in.fail("section not present: dag"); }

}  // namespace piper::ir
