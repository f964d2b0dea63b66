// What an export has lost: parameters that the exporter's optimizer merged, folded or renamed away,
// and properties of the training step that plain ONNX operators do not carry. A damaged file
// computes the same loss and trains another model, so it is refused by name when it is opened.
// Used by onnx_model.cc; it repairs nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/frontend/aten/fx_text.h"
#include "compiler/frontend/export_metadata.h"
#include "compiler/frontend/onnx/onnx_file.h"

namespace piper::frontend {

// The calls that the nodes of a file carry as text, every distinct text once. Parsed when first asked for.
class TextCalls {
 public:
  explicit TextCalls(const onnx::OnnxFile& file) : file_(file) {}
  struct TextCall {
    const onnx::OnnxNode* node;
    aten::FxCall call;
    std::vector<std::string> refs;
  };
  const onnx::OnnxFile& file() const { return file_; }
  const std::vector<TextCall>& all();

 private:
  const onnx::OnnxFile& file_;
  std::optional<std::vector<TextCall>> calls_;
};

// Names of tied parameters that the file proves: the aliases of each initializer (without its own
// name). An alias is proved by piper.tied, or by a call in the alias's own module that uses the
// initializer (`wte` reads `lm_head.weight`).
std::map<std::string, std::vector<std::string>> tied_aliases(TextCalls& texts, const ExportMetadata& metadata);

// Error P0310: parameters of the signature that are lost; P0311: running statistics that a step
// should change and that no operator reads.
Status check_damage(TextCalls& texts, const ExportMetadata& metadata, diag::Diagnostics& diags);

// What the texts say of each embedding (padding row, scaling by frequency), by ONNX node name: the operator route
// takes it from here, since a Gather cannot carry it.
std::map<std::string, ir::EmbeddingAttrs> embedding_texts(TextCalls& texts);

// Error P0312: the file's texts say what its operators cannot (label smoothing, attention dropout,
// batch norm in training mode): the operator route would train another model.
Status check_operator_route(TextCalls& texts, diag::Diagnostics& diags);

}  // namespace piper::frontend
