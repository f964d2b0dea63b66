// What every container of a model holds beside its operators: inputs, weights and constants, and how
// they are bound to numbers: extents, frozen parameters, constants read into memory. Each ModelFile
// fills a ModelValues when it is opened and calls bind_values() for every binding. It knows no
// operators and no file format.
#pragma once

#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/frontend/bound_model.h"
#include "compiler/frontend/fold.h"
#include "compiler/frontend/model_file.h"

namespace piper::frontend {

struct StoredTensor {
  enum class Role : uint8_t {
    kParameter,
    kBuffer,       // state that a step changes: running statistics
    kReadBuffer,   // a persistent buffer that no step changes
    kFixedBuffer,  // one of whose value the plan is made (aten/fixed_buffers.h): a constant, that is saved with the
                   // others
    kConstant,
  };
  std::vector<std::string> names;  // the first is its key in BoundModel::values; more than one where it is tied
  Role role = Role::kConstant;
  ir::TensorType type;
  ir::WeightSource source;
  bool trainable = true;   // of a parameter, as the file says; integers never are
  bool is_unsaid = false;  // numbers whose role the file does not say: a constant may be a parameter anyway
};

// Extents that the export allows, both ends included.
struct SymbolRange {
  int64_t least = 0, most = INT64_MAX;
};

struct ModelValues {
  std::string base_name;
  std::vector<ModelInput> inputs;
  int64_t fixed_batch = -1;
  std::vector<StoredTensor> tensors;
  std::map<std::string, SymbolRange> ranges;  // by symbol, where the file declares one
};

// The batch that the inputs fix; -1 where one of them has a symbol on its first axis.
int64_t fixed_batch_of(const std::vector<ModelInput>& inputs);

// The bytes of a stored tensor in memory; bools as 0 and 1. Error P0301: the file cannot be read.
Result<ConstantTensor> read_tensor(const ir::TensorType& type, const ir::WeightSource& source);

// Binds the symbols and adds inputs, parameters, buffers and constants to the model's graph.
// Errors: P0302 an extent without a value or outside of its range, P0303 a batch that the file
// cannot have, P0309 a pattern without a parameter, P0301 a constant that cannot be read.
Status bind_values(const ModelValues& values, const BindRequest& request, BoundModel& model, diag::Diagnostics& diags);

}  // namespace piper::frontend
