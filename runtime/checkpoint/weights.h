// Where a rank's parameters, buffers and constants come from: the bundle's own weights, or the files of --load for
// everything but constants. One per process, shared by its ranks; read-only
// and mapped, so a rank touches only the tensors it copies.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/chunk_digests.h"
#include "schemas/plan/element_order.h"
#include "schemas/plan/plan.h"
#include "schemas/plan/weight_files.h"

namespace piper::checkpoint {

// Whether a placement is filled from the weights at load.
bool is_weight(const plan::Placement& placement);

struct LoadOptions {
  std::string adapters;  // a file that takes precedence over the loaded one, or over the bundle's weights; "": none
  std::vector<std::string>
      missing;  // globs over tensors that the bundle's weights give where the loaded files have none
};

// As load_state_dict of PyTorch reports it, which names used, unexpected and missing keys.
struct LoadReport {
  std::vector<std::string> used, unused;  // names of the file
  std::vector<std::string> missing;       // first names of the model's tensors
};

// The first names of a list, for a message.
std::string some_of(const std::vector<std::string>& names);

class WeightSource {
 public:
  // `load_file` empty: the bundle's weights, as the manifest lists them. A bundle may have no weights at all; then only
  // a rank that needs some fails. Errors of WeightFiles::open, P0604; R0504; R0505 (missing_weights.h); R0506 two names
  // of one tensor that have different values in the loaded file.
  static Result<WeightSource> open(const std::string& bundle_directory, const std::string& load_file,
                                   const plan::Manifest& manifest, const LoadOptions& options = {});
  // The first names of tensors that may be missing, and are.
  const std::set<std::string>& missing() const { return missing_; }
  // Parameters by their first names, in the types and shapes of the manifest, in place of those of a file. Buffers have
  // the values that the bundle has.
  void replace(std::map<std::string, std::vector<std::byte>> tensors);
  // What does not come from the bundle, by name, type, shape and plan::kQuickBlocks; "": all of it does. Ranks with the
  // same digest begin with the same weights, unless copies of a file differ between these blocks.
  std::string quick_digest() const;
  // How the file of --load and the model's tensors fit; nothing of each where the bundle's own weights are used.
  LoadReport load_report() const;
  // The tensor of a placement, by its own name or another name of a tied weight. R0501 not there,
  // R0502 another shape or type.
  Result<plan::TensorView> find(const plan::Placement& placement) const;
  // A tensor of the bundle or the loaded file by name; nullptr where there is none.
  const plan::TensorView* find_tensor(const plan::TensorInfo& tensor) const;
  // Elements of a buffer of whose value the plan is made, as another file has them, from byte `offset` on in this
  // order. R0504: they are not those of the bundle.
  Status check_fixed(const std::string& name, int64_t offset, const std::byte* data, int64_t bytes,
                     const plan::ElementOrder& order = {}) const;
  // Elements [first, first + count) of what find() has found, as `order` counts them, in order: `take` gets them from
  // the first one's number on. They are checked. Thread-safe.
  Status read(const plan::TensorView& found, const plan::ElementOrder& order, int64_t first, int64_t count,
              const plan::UsePiece& take) const;
  // Before these bytes of a found tensor are used: of the bundle's own weights, whether they are the manifest's. Every
  // rank asks for what it reads; the process reads and checks each piece once. P0604. Thread-safe.
  Status check(const std::byte* data, int64_t bytes) const;

 private:
  Status check_loaded(const plan::WeightFiles& files) const;

  std::optional<plan::WeightFiles> model_, constants_;
  std::optional<plan::WeightFiles> adapters_;                      // over model_
  std::optional<plan::WeightFiles> own_;                           // the bundle's, where `model_` is another file
  std::vector<std::shared_ptr<const plan::ChunkedFile>> chunked_;  // those that are the bundle's
  std::shared_ptr<const std::map<std::string, std::vector<std::byte>>> replaced_;  // shared: views stay where they are
  std::map<std::string, plan::TensorView> in_memory_;                              // of replaced_
  std::set<std::string> missing_;                                                  // in the loaded file
  bool loaded_ = false;                                                            // model_ is that of --load
  std::string model_name_;                                                         // for messages
  std::map<std::string, const plan::TensorInfo*> info_;
};

}  // namespace piper::checkpoint
