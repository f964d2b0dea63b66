// Where a node of an ONNX file comes from in the user's program: module path and Python line, from
// the exporter's metadata or, for other exporters, from the node's name. Used for scopes, dropout
// keys and diagnostics; plans never hold the Python line.
#pragma once

#include <string>

#include "compiler/frontend/onnx/onnx_file.h"

namespace piper::frontend::onnx {

// "h.0.attn": the last but one entry of `pkg.torch.onnx.name_scopes`; without that metadata the
// folders of a node name such as "/h.0/attn/MatMul"; "" for the root.
std::string node_scope(const OnnxNode& node);
// The FX node that torch's exporter made it from: the last entry of that metadata; "" without it.
std::string node_fx_name(const OnnxNode& node);
// "gpt2.py:680": base name and line of the innermost Python frame outside the torch package (else
// of the innermost frame); "" where the file does not say.
std::string node_line(const OnnxNode& node);
// "node 'node_Conv_3' (Conv, module 'stem', model.py:12)".
std::string describe_node(const OnnxNode& node);

}  // namespace piper::frontend::onnx
