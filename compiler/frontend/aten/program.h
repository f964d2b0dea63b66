// A model as a list of ATen calls, whatever file it was read from: what the importer turns into a
// graph. onnx_calls.h makes it from the texts of an ONNX file, pt2/read_program.h from a `.pt2`
// archive. Made once when a file is opened, imported as often as it is bound: extents are still
// symbols here. It holds no weights; names of weights are references like all others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/frontend/aten/fx_text.h"
#include "compiler/ir/chunks.h"
#include "schemas/plan/dtype.h"

namespace piper::frontend::aten {

// What the file itself says of a value. Every result is checked against it.
struct DeclaredDim {
  int64_t extent = -1;     // -1: `expression`, or unknown where that is empty
  std::string expression;  // of symbols, as Dims reads it
};
struct DeclaredType {
  bool has_dtype = false;
  std::optional<DType> dtype;  // nullopt with has_dtype: one that piper does not have
  std::string dtype_name;      // as the file calls it, where piper does not have it
  bool has_shape = false;
  std::vector<DeclaredDim> dims;
};

struct ProgramCall {
  FxCall call;
  std::string module;  // path of the module that makes the call; "" = root
  std::string line;    // "model.py:12" of the user's program; "" where the file does not say
  // Names of the results of a call that gives a list: (name, index).
  std::vector<std::pair<std::string, size_t>> results;
  bool results_are_counted = false;  // from the first that is read
  bool no_grad = false;              // results carry no gradient
  ir::TagSet tags;                   // annotations of the user's program, sorted by tag
                                     // All names that the arguments refer to, nested ones included.
  std::vector<std::string> refs;
};

struct Program {
  std::vector<ProgramCall> calls;
  std::unordered_map<std::string, size_t> producer;  // name of a result -> its call
  std::map<std::string, std::string>
      placeholders;                          // name in the calls -> name of the input or weight in the BoundModel
  std::map<std::string, std::string> sizes;  // names of sizes that no call makes -> expression
  struct Lost {
    std::string name;  // of the model
    bool is_buffer = false;
  };
  std::map<std::string, Lost> lost;  // name in the calls -> what the file does not hold of it
  std::unordered_map<std::string, DeclaredType> declared;
  std::vector<std::string> outputs;
  bool may_drop_parts = false;  // a `cat` may name empty tensors that the file does not hold
};

// Fills refs and producer from the calls and their results. Error P0304: two calls claim one name.
Status index_calls(Program& program);

// Calls that the outputs depend on, dependencies first, else in the program's order.
std::vector<size_t> live_order(const Program& program);

// "'add_3' (aten.add.Tensor, module h.0.attn, model.py:12)".
std::string describe_call(const ProgramCall& call);

}  // namespace piper::frontend::aten
