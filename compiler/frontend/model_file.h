// A model file, opened once, symbolic; bound to numbers as often as a distinct local batch asks.
// Containers (.onnx, .pt2) are adapters that implement this interface. Reading knows no strategy.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/chunks.h"
#include "compiler/ir/graph.h"

namespace piper::frontend {

struct ModelInput {
  std::string name;
  DType dtype = DType::kF32;
  // Each axis: a fixed extent >= 0, or -1 with the name of its symbol or expression.
  std::vector<int64_t> shape;
  std::vector<std::string> symbols;
};

struct BindRequest {
  int64_t local_batch = 1;  // samples of one piece: the leading axis of every batched input
  int64_t step_batch = 0;   // samples of the step; 0: as many as local_batch
  bool cut = false;         // other pieces of the step have fewer samples, though this one may have all
  // Module path -> whether it computes with the extent of a piece, not of the step. None does where this is empty.
  std::function<bool(const std::string&)> per_piece;
  std::map<std::string, int64_t> dims;                // other symbols by name
  std::vector<diag::Span> freeze_spans, train_spans;  // where they are; or empty
  std::vector<std::string> freeze;                    // globs of parameter names
  std::vector<std::string> train;                     // globs of constants of which the file does not say what they are
};

// A model bound to one number of samples.
struct BoundGraph {
  ir::Graph graph;
  // Another binding that has the same operators and values, and in which no extent is the batch's by chance: p[:2]
  // takes nothing from two samples, and with one every axis of extent 1 can pass for the batch. Unset where the graph
  // is such a binding itself.
  struct Like {
    int64_t samples = 1;
    ir::Graph graph;
  };
  std::optional<Like> like;
};

class ModelFile {
 public:
  virtual ~ModelFile() = default;
  virtual const std::string& base_name() const = 0;
  virtual std::string sha256() const = 0;  // of the file and its external data's file sizes
  virtual const std::vector<ModelInput>& inputs() const = 0;
  virtual const std::vector<std::string>& outputs() const = 0;
  virtual int64_t fixed_batch() const = 0;         // -1 where the batch is symbolic
  virtual int64_t declared_min_batch() const = 0;  // 1 where nothing is declared
  // Whether tools/piper_export.py has seen that forward does with one sample what it does with several. A range of the
  // file does not say so: torch.export decides `len(x) > 1` without a guard.
  virtual bool does_the_same_with_one_sample() const = 0;
  // Tags that the model itself carries (torch.fx.traceback.annotate, kept by tools/piper_export.py), by
  // the node name of an op's ModelOrigin. A strategy's `annotate` goes before them.
  virtual std::map<std::string, ir::TagSet> node_tags() const { return {}; }
  // Numbers of which the file does not say whether they are trained: initializers of an ONNX file without the signature
  // of torch's exporter.
  virtual std::vector<std::string> unsaid_numbers() const { return {}; }
  // The graph for one local batch, the slice of the step's (slice_of_step.h): imported, folded, causal masks
  // recognised, dead ops removed, inputs that nothing reads kept in inputs(). Errors are diagnostics (P03xx) that name
  // node and Python line.
  virtual Result<BoundGraph> bind(const BindRequest& request, diag::Diagnostics& diags) const = 0;
};

// Opens by content, not by suffix. Damaged exports are refused here (P0310..) by the names of the lost
// parameters, or repaired where the file proves how.
// `route`: "auto" (FX text where every node has it, else ONNX operators), "fx", "onnx".
Result<std::unique_ptr<ModelFile>> open_model(const std::string& path, const std::string& route,
                                              diag::Diagnostics& diags);

}  // namespace piper::frontend
