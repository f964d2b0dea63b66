// The training DAG as text, in issue order: one node per line with group, stream and origin. For people and for golden
// tests.
#pragma once

#include <iosfwd>

#include "compiler/ir/module.h"

namespace piper::driver {

void print_dag(const ir::Module& module, std::ostream& out);

}  // namespace piper::driver
