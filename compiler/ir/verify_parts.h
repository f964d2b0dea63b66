// The checks of the parts of a module, each in the file named beside it, which verify(Module) (module_text.h) runs in
// this order. Each is linear in the size of its part, may rely on the ones before, and passes where the part is empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "schemas/base/status.h"

namespace piper::ir {

Status verify_variants(const Module& module);      // verify_module.cc
Status verify_distribution(const Module& module);  // verify_distribution.cc
Status verify_schedule(const Module& module);      // verify_schedule.cc
Status verify_state(const Module& module);         // verify_state.cc
Status verify_dag(const Module& module);           // verify_dag.cc

inline Status broken(const char* rule, const std::string& text) { return Status::failure(rule, text); }
// M7 for one id; `whose` names what has it.
Status verify_prov(const Module& module, ProvId prov, const std::string& whose);
// "chunk PP0"; of an id without a chunk its number.
std::string chunk_text(const Module& module, ChunkId chunk);
// The ranks of all lists, as they come.
std::vector<int32_t> joined(const std::vector<std::vector<int32_t>>& lists);

}  // namespace piper::ir
