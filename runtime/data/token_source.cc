#include "runtime/data/token_source.h"

#include "runtime/data/philox.h"
#include "runtime/data/token_files.h"
#include "runtime/data/token_inputs.h"

namespace piper::data {

namespace {

class TokenSource : public DataSource {
 public:
  TokenSource(TokenFile tokens, TokenInputs fed, int64_t samples_of_step, const DataOptions& options)
      : file(std::move(tokens)),
        inputs(std::move(fed)),
        sample_tokens(inputs.sample_tokens()),
        batch(samples_of_step),
        mode(options.sampling.value_or(Sampling::kShuffled)),
        seed(options.seed),
        path(options.path) {}

  void fill(size_t input, int64_t step, int64_t first, int64_t count, std::byte* destination) const override {
    for (int64_t i = 0; i < count; ++i)
      inputs.write(input, file.file.data + start(step, first + i) * element_bytes(file.element),
                   destination + i * inputs.bytes(input));
  }
  uint64_t sample_id(int64_t step, int64_t position) const override {
    return static_cast<uint64_t>(start(step, position));
  }
  int64_t num_samples() const override { return (file.tokens - 1) / sample_tokens; }
  Sampling sampling() const override { return mode; }
  bool numbers_samples() const override { return mode == Sampling::kSequential; }
  int64_t tokens_per_sample() const override { return sample_tokens; }
  std::vector<std::string> description() const override {
    return {path + ": " + tokens_description(file.form, file.element, file.tokens)};
  }

 private:
  int64_t start(int64_t step, int64_t position) const {
    switch (mode) {
      case Sampling::kSequential: return place_of(step, batch, position, num_samples()).sample * sample_tokens;
      case Sampling::kShuffled: {
        const uint64_t bits =
            random_bits(seed, Purpose::kData, static_cast<uint64_t>(step), static_cast<uint32_t>(position));
        return static_cast<int64_t>(bits % static_cast<uint64_t>(file.tokens - sample_tokens));
      }
    }
    return 0;
  }

  TokenFile file;
  TokenInputs inputs;
  int64_t sample_tokens, batch;
  Sampling mode;
  uint64_t seed;
  std::string path;
};

}  // namespace

Result<std::unique_ptr<DataSource>> open_token_source(const DataOptions& options, const plan::Manifest& manifest) {
  PIPER_ASSIGN(TokenInputs inputs, TokenInputs::of(manifest, options.path, options.document_end));
  PIPER_ASSIGN(TokenFile file, open_token_file(options.path, options.token_dtype));
  PIPER_RETURN_IF_ERROR(inputs.accept(file.element));
  if (file.tokens <= inputs.sample_tokens())
    return Status::failure("R0207", "'" + options.path + "' holds " + std::to_string(file.tokens) +
                                        " tokens, one sample needs " + std::to_string(inputs.sample_tokens() + 1));
  return std::unique_ptr<DataSource>(
      std::make_unique<TokenSource>(std::move(file), std::move(inputs), manifest.batch, options));
}

}  // namespace piper::data
