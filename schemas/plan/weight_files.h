// The weights of a model in files: one safetensors file, or several with an index that says which file holds which
// tensor, as Hugging Face's tools write and read them. Used by --load and by piper-plan checkpoint export.
//   model-00001-of-00002.safetensors, model-00002-of-00002.safetensors
//   model.safetensors.index.json     {"metadata": {"total_size": BYTES}, "weight_map": {"NAME": "FILE", ...}}
// Form: https://huggingface.co/docs/transformers/big_models, "Shard checkpoints". It has no digests: damage inside a
// tensor's bytes is not seen, a file that is cut, missing or another one is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/safetensors.h"

namespace piper::plan {

inline constexpr std::string_view kWholeWeights = "model.safetensors";
inline constexpr std::string_view kWeightIndex = "model.safetensors.index.json";

class WeightFiles {  // keeps the mappings alive
 public:
  explicit WeightFiles(SafetensorsFile file) { files_.push_back(std::move(file)); }
  // `path`: a safetensors file; an index (its name ends in .json); or a folder with kWeightIndex or else kWholeWeights.
  // P0603 cannot be read, P0620 not a safetensors file or damaged, P0622 the index is none or its files do not hold
  // what it says.
  static Result<WeightFiles> open(const std::string& path);
  // nullptr where there is none. Of a tensor that is in several files the index chooses the file.
  const TensorView* find(const std::string& name) const;
  // For all tensors that find() has, in the order of their letters.
  std::vector<std::string> names() const;

 private:
  WeightFiles() = default;
  static Result<WeightFiles> open_index(const std::string& path);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;  // by tensor; empty without an index
};

// Writes the tensors in the given order into files of at most `max_file_bytes` bytes of tensors each (a tensor that is
// larger has one of its own) and then the index; one file has no index. The folder may exist and hold other things, but
// no weights. Returns the number of files. P0621.
Result<int64_t> write_weight_files(const std::string& directory, const std::vector<TensorToWrite>& tensors,
                                   int64_t max_file_bytes);

}  // namespace piper::plan
