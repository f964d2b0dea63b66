// MANIFEST.json of a checkpoint: the only record that one was committed. It lists the shard files with their digests,
// and every global tensor of the training's state with the parts that its elements lie in. docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/element_order.h"
#include "schemas/plan/plan.h"

namespace piper::checkpoint {

inline constexpr int kFormatVersion = 1;
inline constexpr std::string_view kManifestFile = "MANIFEST.json";

// What a checkpoint holds of a tensor.
enum class StateKind : uint8_t {
  kParameter,     // the values that updates read: masters where precision is mixed
  kFirstMoment,   // of the optimizer; sgd: momentum
  kSecondMoment,  // of the optimizer
  kBuffer,        // running statistics
  kTraining,      // what training counts: the optimizer's step, the loss scale, the number of good steps
};
inline constexpr int kNumStateKinds = 5;
std::string_view state_kind_name(StateKind kind);  // "param", "m", "v", "buffer", "training"

// Elements [begin, end) of a tensor, in the order of StoredTensor::order(), as the tensor `key` of a shard.
struct StoredPart {
  int32_t file = 0;  // index into Manifest::files
  std::string key;
  int64_t begin = 0, end = 0;
};
struct StoredTensor {
  std::string name;
  StateKind kind = StateKind::kParameter;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::string> aliases;  // other names of a tied weight
  std::vector<StoredPart> parts;     // tile [0, elements) in this order
  // Of one that the run's plan counted part by part: the parts are as the ranks had them, and count likewise.
  std::optional<plan::PartsAlong> cut = {};

  plan::ElementOrder order() const { return {shape, cut.value_or(plan::PartsAlong())}; }
};
inline std::optional<plan::PartsAlong> stored_cut(const plan::PartsAlong& along) {
  return along.parts > 1 ? std::optional(along) : std::nullopt;
}
// R0705: the shape has more elements than can be counted.
Result<int64_t> element_count(const std::vector<int64_t>& shape);

// What a run was trained on.
struct DataIdentity {
  std::string sha256;  // of the data set, as runtime/data/data_digest.h has it
  int64_t samples = 0;
  std::string sampling;  // "sequential", "shuffled"
  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};

struct Manifest {
  std::string run;          // id of the run that wrote it
  int64_t step = 0;         // steps done
  int64_t samples = 0;      // global samples that these steps took: where the data go on
  uint64_t seed = 0;        // of sampling and dropout
  std::string parent;       // digest of the checkpoint before; empty: none
  std::string plan_sha256;  // of the bundle
  std::string model_sha256, strategy_sha256;
  int32_t world_size = 1;
  std::string optimizer;  // its title: schemas/plan/optimizers.h
  DataIdentity data;
  std::vector<plan::FileEntry> files;  // path: a name inside the checkpoint
  std::vector<StoredTensor> tensors;   // sorted by kind, then by name
  std::string digest;                  // SHA-256 of the text before it; set by parse and print
};

// Canonical text; sets `digest`.
std::string print_manifest(Manifest& manifest);
// `file`: for messages. R0705: damaged, or of a format that this program does not know.
Result<Manifest> parse_manifest(std::string_view text, const std::string& file);

// nullptr: the checkpoint holds none.
const StoredTensor* find_tensor(const Manifest& manifest, StateKind kind, const std::string& name);

// "step-000001200".
std::string step_folder(int64_t step);
// The step of such a name, -1 for any other.
int64_t step_of_folder(std::string_view name);
// "shard-00000-of-00004.safetensors".
std::string shard_file(int32_t rank, int32_t world_size);

}  // namespace piper::checkpoint
