// The ModelFile of an .onnx file: opened once, refused where the export is damaged, bound by one of
// two routes (ATen calls where every node carries its text, else ONNX operators), then folded.
// open_model() makes it; nobody else names it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/frontend/aten/program.h"
#include "compiler/frontend/damage.h"
#include "compiler/frontend/export_metadata.h"
#include "compiler/frontend/model_file.h"
#include "compiler/frontend/model_values.h"
#include "compiler/frontend/onnx/onnx_file.h"

namespace piper::frontend {

class OnnxModel final : public ModelFile {
 public:
  // Errors: P0301 unreadable, P0304 a text of a node, P0310-P0312 a damaged export, P0314 state that a step changes.
  static Result<std::unique_ptr<ModelFile>> open(const std::string& path, const std::string& route,
                                                 diag::Diagnostics& diags);

  const std::string& base_name() const override { return values_.base_name; }
  std::string sha256() const override;
  const std::vector<ModelInput>& inputs() const override { return values_.inputs; }
  const std::vector<std::string>& outputs() const override { return outputs_; }
  int64_t fixed_batch() const override { return values_.fixed_batch; }
  int64_t declared_min_batch() const override { return metadata_.declared_min_batch; }
  bool does_the_same_with_one_sample() const override { return metadata_.same_with_one_sample; }
  std::map<std::string, ir::TagSet> node_tags() const override;
  std::vector<std::string> unsaid_numbers() const override;
  // Errors: P0302 an extent without a value, P0303 a batch that the file cannot have, and those of the route.
  Result<BoundGraph> bind(const BindRequest& request, diag::Diagnostics& diags) const override;

 private:
  OnnxModel() = default;
  Result<ir::Graph> import(const BindRequest& request, diag::Diagnostics& diags) const;
  Status read_inputs(diag::Diagnostics& diags);
  Status read_tensors(TextCalls& texts, diag::Diagnostics& diags);
  Status check_changed_state(diag::Diagnostics& diags) const;
  bool is_parameter(const onnx::OnnxTensor& tensor) const;
  bool is_running_statistic(const std::string& name) const;
  void find_buffers();

  std::string path_;
  onnx::OnnxFile file_;
  ExportMetadata metadata_;
  std::map<std::string, std::string> kinds_;           // initializer -> InputSpec.kind
  std::map<std::string, StoredTensor::Role> buffers_;  // persistent ones that no step changes
  ModelValues values_;
  std::map<std::string, ir::EmbeddingAttrs> embeddings_;  // damage.h; of the operator route
  std::optional<aten::Program> program_;                  // the ATen route, where it is taken
  std::vector<std::string> outputs_;
};

}  // namespace piper::frontend
