#include "runtime/data/token_source.h"

#include "runtime/data/npy.h"
#include "runtime/data/philox.h"

namespace piper::data {

namespace {

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

struct Input {
  DType dtype = DType::kI64;
  int64_t shift = 0;  // 1 for next tokens
};

class TokenSource : public DataSource {
 public:
  plan::MappedFile file;
  Element element = Element::kU8;
  int64_t length = 0, sample_tokens = 1, batch = 1;
  Sampling mode = Sampling::kShuffled;
  uint64_t seed = 0;
  std::vector<Input> inputs;

  void fill(size_t input_index, int64_t step, int64_t first, int64_t count, std::byte* destination) const override {
    const Input& input = inputs[input_index];
    for (int64_t i = 0; i < count; ++i)
      convert(element, file.data + (start(step, first + i) + input.shift) * element_bytes(element), input.dtype,
              destination + i * sample_tokens * dtype_bytes(input.dtype), sample_tokens);
  }
  uint64_t sample_id(int64_t step, int64_t position) const override {
    return static_cast<uint64_t>(start(step, position));
  }
  int64_t num_samples() const override { return (length - 1) / sample_tokens; }
  Sampling sampling() const override { return mode; }
  int64_t tokens_per_sample() const override { return sample_tokens; }

 private:
  int64_t start(int64_t step, int64_t position) const {
    switch (mode) {
      case Sampling::kSequential: return place_of(step, batch, position, num_samples()).sample * sample_tokens;
      case Sampling::kShuffled: {
        const uint64_t bits =
            random_bits(seed, Purpose::kData, static_cast<uint64_t>(step), static_cast<uint32_t>(position));
        return static_cast<int64_t>(bits % static_cast<uint64_t>(length - sample_tokens));
      }
    }
    return 0;
  }
};

Result<Element> token_element(const DataOptions& options) {
  if (options.token_dtype == "u8") return Element::kU8;
  if (options.token_dtype == "u16") return Element::kU16;
  if (options.token_dtype == "u32") return Element::kU32;
  if (!options.token_dtype.empty())
    return Status::failure("R0206", "--token-dtype " + options.token_dtype + ": it is u8, u16 or u32");
  if (ends_with(options.path, ".u32.bin")) return Element::kU32;
  return ends_with(options.path, ".bin") ? Element::kU16 : Element::kU8;
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_token_source(const DataOptions& options, const plan::Manifest& manifest) {
  auto source = std::make_unique<TokenSource>();
  PIPER_ASSIGN(source->element, token_element(options));
  std::string first_name;
  for (const plan::InputDecl& declared : manifest.inputs) {
    if (declared.feed != "tokens" && declared.feed != "next_tokens")
      return Status::failure(
          "R0206", "'" + options.path + "' is a token stream, and nothing says what it feeds to input '" +
                       declared.name + "': name it under `inputs` of the strategy's `model` (" + declared.name +
                       ": tokens, or next_tokens), or give a .safetensors file with one tensor per input");
    if (!declared.batched || declared.sample_shape.size() != 1 || !can_convert(source->element, declared.dtype))
      return Status::failure("R0206", "a token stream cannot feed input '" + declared.name +
                                          "': it is no sequence of i32 or i64 tokens per sample");
    if (!first_name.empty() && declared.sample_shape[0] != source->sample_tokens)
      return Status::failure("R0206", "inputs '" + first_name + "' and '" + declared.name + "' have sequences of " +
                                          std::to_string(source->sample_tokens) + " and " +
                                          std::to_string(declared.sample_shape[0]) +
                                          " tokens; a token stream feeds equal ones");
    source->sample_tokens = declared.sample_shape[0];
    first_name = declared.name;
    source->inputs.push_back({declared.dtype, declared.feed == "next_tokens" ? 1 : 0});
  }
  PIPER_ASSIGN(source->file, map_data(options.path));
  if (source->file.bytes % element_bytes(source->element) != 0)
    return Status::failure("R0206", "'" + options.path + "' has " + std::to_string(source->file.bytes) +
                                        " bytes, no multiple of a " + std::string(element_name(source->element)) +
                                        " token; --token-dtype says what it holds");
  source->length = source->file.bytes / element_bytes(source->element);
  if (source->length <= source->sample_tokens)
    return Status::failure("R0207", "'" + options.path + "' holds " + std::to_string(source->length) +
                                        " tokens, one sample needs " + std::to_string(source->sample_tokens + 1));
  source->batch = manifest.batch;
  source->seed = options.seed;
  source->mode = options.sampling.value_or(Sampling::kShuffled);
  return std::unique_ptr<DataSource>(std::move(source));
}

}  // namespace piper::data
