// The program of a `.pt2` archive (`models/NAME.json`, torch.export's schema 8): its calls with
// sub-graphs of grad modes, disabled autocasts and checkpoints inlined, its inputs and symbols.
// Calls that work in place are still there; aten/functionalise.h rewrites them. Used by pt2_model.cc.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontend/aten/program.h"
#include "compiler/frontend/model_values.h"

namespace piper::frontend::pt2 {

struct Placeholder {
  enum class Kind : uint8_t { kParameter, kBuffer, kConstant, kUserInput } kind = Kind::kUserInput;
  std::string name;         // in the calls: "p_h_0_ln1_weight"
  std::string target;       // in the state dict: "h.0.ln1.weight"; "" for user inputs
  bool persistent = false;  // of a buffer: part of the state dict
};

struct ExportedProgram {
  aten::Program program;
  std::vector<Placeholder> placeholders;      // in the order of the signature; inputs that are no tensors are left out
  std::map<std::string, SymbolRange> ranges;  // by symbol, under the user's names
  std::map<std::string, std::string> changed_buffers;  // buffer -> the value that it has after a step
};

// `names`: symbols of the file ("s72") -> the user's names. Errors: P0301 the text is not what
// torch.export.save writes, P0315 another version of the schema, P0305 a sub-graph that piper cannot
// inline.
Result<ExportedProgram> read_program(std::string_view json, const std::map<std::string, std::string>& names);

}  // namespace piper::frontend::pt2
