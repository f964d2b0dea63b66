// What both import routes start from: a graph that already holds the file's inputs, parameters,
// buffers and constants at one binding of its symbols, and where each ONNX value name is.
// Made by onnx_model.cc; read by aten/import_calls and onnx/import_nodes, which append the ops and
// set the graph's outputs. It owns no file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "compiler/frontend/aten/dims.h"
#include "compiler/frontend/onnx/onnx_file.h"
#include "compiler/ir/graph.h"

namespace piper::frontend {

struct BoundModel {
  const onnx::OnnxFile* file = nullptr;
  ir::Graph graph;
  aten::Dims dims;  // every bound symbol
  // Of an expression of symbols, where the batch is the step's.
  std::function<Result<int64_t>(const std::string&)> step_extent;
  std::function<bool(const std::string&)> per_piece;  // as in BindRequest
  // Graph inputs and initializers by their ONNX names. Parameters and running statistics are
  // kParameter and kBuffer values; every other initializer is a kConstant, its bytes in memory
  // where it is small enough to be folded.
  std::map<std::string, ir::ValueId> values;
  // By the name of its ONNX node: what a text says of an embedding and the operator (Gather) cannot carry.
  std::map<std::string, ir::EmbeddingAttrs> embeddings;
};

}  // namespace piper::frontend
