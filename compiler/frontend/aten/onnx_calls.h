// The ATen calls of an ONNX file that torch's exporter made: nodes that carry the same FX text are
// one call. Used by onnx_model.cc and, for the question whether a file has texts, by damage.cc.
#pragma once

#include "compiler/frontend/aten/program.h"
#include "compiler/frontend/export_metadata.h"
#include "compiler/frontend/onnx/onnx_file.h"

namespace piper::frontend::aten {

// True where every node carries an FX text: the ATen route can read the file.
bool every_node_has_text(const onnx::OnnxFile& file);

// Calls are by the position of their last node. Error P0304: a text is not understood (the node is
// named), or two texts claim one name.
Result<Program> read_onnx_calls(const onnx::OnnxFile& file, const ExportMetadata& metadata);

}  // namespace piper::frontend::aten
