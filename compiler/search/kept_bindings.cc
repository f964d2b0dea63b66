#include "compiler/search/kept_bindings.h"

namespace piper::search {

Result<frontend::BoundGraph> KeptBindings::bind(const frontend::BindRequest& request, diag::Diagnostics& diags) const {
  const Samples samples{request.local_batch, request.step_batch, request.cut};
  std::shared_ptr<const frontend::BoundGraph> known;
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(samples);
    if (found != kept_.end()) known = found->second;
  }
  if (known == nullptr) {
    PIPER_ASSIGN(frontend::BoundGraph bound, file_->bind(request, diags));
    known = std::make_shared<const frontend::BoundGraph>(std::move(bound));
    const std::lock_guard lock(mutex_);
    kept_.emplace(samples, known);
  }
  return frontend::BoundGraph(*known);
}

}  // namespace piper::search
