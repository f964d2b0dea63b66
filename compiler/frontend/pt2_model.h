// The ModelFile of a `.pt2` archive (torch.export.save): its ATen calls, with those that work in place
// rewritten, through the same table as the texts of ONNX files. open_model() makes it; nobody else
// names it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/frontend/aten/program.h"
#include "compiler/frontend/model_file.h"
#include "compiler/frontend/model_values.h"
#include "compiler/frontend/pt2/read_program.h"
#include "compiler/frontend/pt2/zip_archive.h"

namespace piper::frontend {

class Pt2Model final : public ModelFile {
 public:
  // Errors: P0301 unreadable, cut off or no `.pt2`, P0305 a region that cannot be inlined, P0307 an
  // input that cannot be fed, P0310 lost weights, P0313-P0314 changes in place, P0315 another version.
  static Result<std::unique_ptr<ModelFile>> open(const std::string& path, const std::string& route,
                                                 diag::Diagnostics& diags);

  const std::string& base_name() const override { return values_.base_name; }
  std::string sha256() const override;
  const std::vector<ModelInput>& inputs() const override { return values_.inputs; }
  const std::vector<std::string>& outputs() const override { return program_.outputs; }
  int64_t fixed_batch() const override { return values_.fixed_batch; }
  int64_t declared_min_batch() const override { return declared_min_batch_; }
  bool does_the_same_with_one_sample() const override { return same_with_one_sample_; }
  std::map<std::string, ir::TagSet> node_tags() const override;
  Result<BoundGraph> bind(const BindRequest& request, diag::Diagnostics& diags) const override;

 private:
  Pt2Model() = default;
  Result<ir::Graph> import(const BindRequest& request, diag::Diagnostics& diags) const;
  Status read(const pt2::ZipArchive& archive);
  Status read_inputs(const std::vector<pt2::Placeholder>& placeholders);
  Status read_tensors(const pt2::ZipArchive& archive, const std::string& top, const std::string& name,
                      const std::vector<pt2::Placeholder>& placeholders);
  Status check_changed_buffers(const std::map<std::string, std::string>& changed) const;

  std::string path_;
  ModelValues values_;
  aten::Program program_;
  int64_t declared_min_batch_ = 1;
  bool same_with_one_sample_ = false;
};

}  // namespace piper::frontend
