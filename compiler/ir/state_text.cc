// The text form of the lay-out of state: section not present. Nothing is printed of it, and no text may hold it.
#include <ostream>

#include "compiler/ir/module_sections.h"

namespace piper::ir {

void print_state_section(const Module& module, std::ostream& out) {
  if (module.state.accumulators.empty() && module.state.buckets.empty()) return;
  out << "// state: section not present\n";
}

Status parse_state_section(ModuleReader& in, Module&) { return in.fail("section not present: state"); }

}  // namespace piper::ir
