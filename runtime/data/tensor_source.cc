#include "runtime/data/tensor_source.h"

#include <algorithm>
#include <filesystem>

#include "runtime/data/npy.h"
#include "runtime/data/permutation.h"
#include "schemas/plan/safetensors.h"

namespace piper::data {

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

struct Input {
  SourceTensor tensor;
  DType dtype = DType::kI64;
  bool batched = true;
  int64_t elements = 1;  // of one sample, or of the whole
};

class TensorSource : public DataSource {
 public:
  TensorSource(std::vector<Input> inputs, int64_t num_samples, int64_t batch, Sampling sampling, uint64_t seed,
               int64_t tokens, std::string description)
      : inputs_(std::move(inputs)),
        num_samples_(num_samples),
        batch_(batch),
        sampling_(sampling),
        seed_(seed),
        tokens_(tokens),
        description_(std::move(description)) {}

  void fill(size_t input_index, int64_t step, int64_t first, int64_t count, std::byte* destination) const override {
    const Input& input = inputs_[input_index];
    const int64_t from_bytes = input.elements * element_bytes(input.tensor.element);
    if (!input.batched)
      return convert(input.tensor.element, input.tensor.data, input.dtype, destination, input.elements);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t sample = sample_at(step, first + i);
      convert(input.tensor.element, input.tensor.data + sample * from_bytes, input.dtype,
              destination + i * input.elements * dtype_bytes(input.dtype), input.elements);
    }
  }
  uint64_t sample_id(int64_t step, int64_t position) const override {
    return static_cast<uint64_t>(sample_at(step, position));
  }
  int64_t num_samples() const override { return num_samples_; }
  Sampling sampling() const override { return sampling_; }
  int64_t tokens_per_sample() const override { return tokens_; }
  std::vector<std::string> description() const override { return {description_}; }

 private:
  int64_t sample_at(int64_t step, int64_t position) const {
    const Place place = place_of(step, batch_, position, num_samples_);
    switch (sampling_) {
      case Sampling::kSequential: return place.sample;
      case Sampling::kShuffled: return permuted_sample(seed_, place.epoch, num_samples_, place.sample);
    }
    return 0;
  }

  std::vector<Input> inputs_;
  int64_t num_samples_, batch_;
  Sampling sampling_;
  uint64_t seed_;
  int64_t tokens_;
  std::string description_;
};

Result<SourceTensor> find_tensor(const DataOptions& options, bool directory,
                                 const std::shared_ptr<plan::SafetensorsFile>& file, const std::string& name) {
  if (directory) {
    const std::string path = options.path + "/" + name + ".npy";
    if (!std::filesystem::exists(path))
      return Status::failure(
          "R0202", "input '" + name + "' has no data: there is no '" + name + ".npy' in '" + options.path + "'");
    return open_npy(path);
  }
  const plan::TensorView* view = file->find(name);
  if (view == nullptr) {
    std::string there;
    for (const auto& [other, tensor] : file->tensors()) there += (there.empty() ? "" : ", ") + other;
    return Status::failure("R0202", "input '" + name + "' has no data: '" + options.path + "' holds " +
                                        (there.empty() ? "no tensors" : there));
  }
  return SourceTensor{element_of(view->dtype), view->shape, view->data, file};
}

Status check_input(const plan::InputDecl& declared, const SourceTensor& tensor) {
  std::vector<int64_t> found = tensor.shape;
  std::string expected = shape_text(declared.sample_shape);
  if (declared.batched) {
    if (!found.empty()) found.erase(found.begin());
    expected = "[samples" +
               (declared.sample_shape.empty() ? std::string() : ", " + expected.substr(1, expected.size() - 2)) + "]";
  }
  if (found != declared.sample_shape || (declared.batched && tensor.shape.empty()))
    return Status::failure("R0203", "input '" + declared.name + "' has shape " + shape_text(tensor.shape) +
                                        " in the data, the plan needs " + expected);
  if (!can_convert(tensor.element, declared.dtype))
    return Status::failure("R0204", "input '" + declared.name + "' has elements of type " +
                                        std::string(element_name(tensor.element)) + " in the data, the plan needs " +
                                        std::string(dtype_name(declared.dtype)) +
                                        (is_floating(declared.dtype) ? "" : " (only narrower integers are converted)"));
  return {};
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_tensor_source(const DataOptions& options, bool directory,
                                                       const plan::Manifest& manifest) {
  std::shared_ptr<plan::SafetensorsFile> file;  // shared: the tensors' views keep the mapping
  if (!directory) {
    PIPER_ASSIGN(plan::SafetensorsFile opened, plan::SafetensorsFile::open(options.path));
    file = std::make_shared<plan::SafetensorsFile>(std::move(opened));
  }
  std::vector<Input> inputs;
  int64_t num_samples = -1, tokens = 0;
  std::string first_name, description;
  for (const plan::InputDecl& declared : manifest.inputs) {
    PIPER_ASSIGN(SourceTensor tensor, find_tensor(options, directory, file, declared.name));
    PIPER_RETURN_IF_ERROR(check_input(declared, tensor));
    Input input;
    input.dtype = declared.dtype;
    input.batched = declared.batched;
    for (int64_t extent : declared.sample_shape) input.elements *= extent;
    if (declared.batched) {
      if (num_samples >= 0 && tensor.shape[0] != num_samples)
        return Status::failure("R0205", "input '" + declared.name + "' has " + std::to_string(tensor.shape[0]) +
                                            " samples, '" + first_name + "' has " + std::to_string(num_samples));
      num_samples = tensor.shape[0];
      first_name = declared.name;
      // Tokens are what integer sequences hold; the first such input says how many.
      if (tokens == 0 && !is_floating(declared.dtype) && declared.dtype != DType::kBool &&
          declared.sample_shape.size() == 1)
        tokens = declared.sample_shape[0];
    }
    description += (description.empty() ? options.path + ": tensors " : ", ") + declared.name + " " +
                   std::string(element_name(tensor.element)) + " " + shape_text(tensor.shape);
    input.tensor = std::move(tensor);
    inputs.push_back(std::move(input));
  }
  if (num_samples == 0) return Status::failure("R0205", "'" + options.path + "' holds no samples");
  if (num_samples < 0) num_samples = std::max<int64_t>(manifest.batch, 1);  // a model without batched inputs
  return std::unique_ptr<DataSource>(std::make_unique<TensorSource>(std::move(inputs), num_samples, manifest.batch,
                                                                    options.sampling.value_or(Sampling::kSequential),
                                                                    options.seed, tokens, std::move(description)));
}

}  // namespace piper::data
