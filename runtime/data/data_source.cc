#include "runtime/data/data_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "runtime/data/mixed_source.h"
#include "runtime/data/philox.h"
#include "runtime/data/tensor_source.h"
#include "runtime/data/token_files.h"
#include "runtime/data/token_source.h"

namespace piper::data {

Place place_of(int64_t step, int64_t batch, int64_t position, int64_t samples) {
  __extension__ using Wide = unsigned __int128;  // steps and batch are anything that a manifest or a flag may say
  const Wide at = static_cast<Wide>(step - 1) * static_cast<uint64_t>(batch) + static_cast<uint64_t>(position);
  const auto divisor = static_cast<uint64_t>(samples);
  constexpr uint64_t kEpochs = uint64_t{1} << 62;
  return {static_cast<int64_t>(at / divisor % kEpochs), static_cast<int64_t>(at % divisor)};
}

// A chain over Philox: each id and what is after it are a counter, the position in the chain is the key.
uint64_t DataSource::fingerprint(int64_t step, int64_t batch) const {
  uint64_t digest = 0;
  for (int64_t position = 0; position < batch; ++position) {
    const uint64_t id = sample_id(step, position);
    const PhiloxCounter out = philox4x32_10({static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32),
                                             static_cast<uint32_t>(digest), static_cast<uint32_t>(digest >> 32)},
                                            static_cast<uint64_t>(position));
    digest = out[0] | uint64_t{out[1]} << 32;
  }
  return digest;
}

int64_t DataSource::steps_per_epoch(int64_t batch) const {
  return std::max<int64_t>(1, num_samples() / std::max<int64_t>(batch, 1));
}

int64_t DataSource::epoch_beginning_in(int64_t step, int64_t batch) const {
  const int64_t samples = num_samples();
  if (samples <= 0 || batch <= 0 || !numbers_samples()) return 0;
  const int64_t last_epoch = place_of(step, batch, batch - 1, samples).epoch;
  const int64_t before = step == 1 ? 0 : place_of(step - 1, batch, batch - 1, samples).epoch;
  return last_epoch > before ? last_epoch + 1 : 0;
}

std::string DataSource::epoch_note(int64_t step, int64_t batch) const {
  const int64_t epoch = epoch_beginning_in(step, batch);
  return epoch > 0 ? "the data begin again, epoch " + std::to_string(epoch) : "";
}

Status check_path(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0) return {};
  return Status::failure("R0201", "there is no data at '" + path + "'");
}

namespace {

Result<std::unique_ptr<DataSource>> open_path(const DataOptions& options, const plan::Manifest& manifest) {
  PIPER_RETURN_IF_ERROR(check_path(options.path));
  std::error_code error;
  const bool directory = std::filesystem::is_directory(options.path, error);
  if (holds_tensors(options.path)) return open_tensor_source(options, directory, manifest);
  return directory ? open_mixed_source(options, manifest) : open_token_source(options, manifest);
}

}  // namespace

Result<std::unique_ptr<DataSource>> DataSource::open(const DataOptions& options, const plan::Manifest& manifest) {
  if (!options.mix.empty()) return open_mixed_source(options, manifest);
  if (options.path.empty())
    return Status::failure(
        "R0201",
        "no data: give --data PATH (a .safetensors file, a directory of .npy files, a .bin token file "
        "or a text file), or `data` under `run` in the strategy");
  auto source = open_path(options, manifest);
  if (source.ok() || options.at.empty()) return source;
  return source.take_status().with_context("data of " + options.at);
}

}  // namespace piper::data
