// A model file that binds once to the same numbers: the points of a search differ in how a step is spread, and most ask
// for a graph that another one has asked for.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "compiler/frontend/model_file.h"

namespace piper::search {

// For strategies that differ in samples alone of what they ask of a model: dims, frozen parameters and modules that
// compute with a piece's extents must be the same in all of them. What cannot be bound is not kept, so that its errors
// are reported each time; warnings are reported the first time.
class KeptBindings : public frontend::ModelFile {
 public:
  explicit KeptBindings(std::shared_ptr<const frontend::ModelFile> file) : file_(std::move(file)) {}

  const std::string& base_name() const override { return file_->base_name(); }
  std::string sha256() const override { return file_->sha256(); }
  const std::vector<frontend::ModelInput>& inputs() const override { return file_->inputs(); }
  const std::vector<std::string>& outputs() const override { return file_->outputs(); }
  int64_t fixed_batch() const override { return file_->fixed_batch(); }
  int64_t declared_min_batch() const override { return file_->declared_min_batch(); }
  bool does_the_same_with_one_sample() const override { return file_->does_the_same_with_one_sample(); }
  std::map<std::string, ir::TagSet> node_tags() const override { return file_->node_tags(); }
  std::vector<std::string> unsaid_numbers() const override { return file_->unsaid_numbers(); }
  Result<frontend::BoundGraph> bind(const frontend::BindRequest& request, diag::Diagnostics& diags) const override;

  size_t bound() const { return kept_.size(); }

 private:
  using Samples = std::tuple<int64_t, int64_t, bool>;  // of a piece, of the step; whether it is cut
  std::shared_ptr<const frontend::ModelFile> file_;
  mutable std::mutex mutex_;
  mutable std::map<Samples, std::shared_ptr<const frontend::BoundGraph>> kept_;
};

}  // namespace piper::search
