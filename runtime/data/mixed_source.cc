#include "runtime/data/mixed_source.h"

#include <cstdio>

#include "runtime/data/mixture.h"
#include "runtime/data/permutation.h"
#include "runtime/data/philox.h"
#include "runtime/data/token_files.h"
#include "runtime/data/token_inputs.h"

namespace piper::data {

namespace {

constexpr int64_t kMostSamples = int64_t{1} << 62;  // of a run; numbers are counted modulo it

struct Source {
  std::string path;
  TokenFiles files;
  double weight = 1;
  uint64_t seed = 0;
  int64_t samples_before = 0;  // of all sources in front
};

std::vector<double> weights_of(const std::vector<plan::DataPath>& mix) {
  std::vector<double> weights;
  for (const plan::DataPath& data : mix) weights.push_back(data.weight);
  return weights;
}

class MixedSource : public DataSource {
 public:
  MixedSource(std::vector<Source> sources, const Mixture& mixture, TokenInputs inputs, int64_t batch, Sampling sampling)
      : sources_(std::move(sources)),
        mixture_(mixture),
        inputs_(std::move(inputs)),
        batch_(batch),
        sampling_(sampling) {}

  void fill(size_t input, int64_t step, int64_t first, int64_t count, std::byte* destination) const override {
    for (int64_t i = 0; i < count; ++i) {
      const Sample sample = sample_at(step, first + i);
      inputs_.write(input, sample.source->files.sample(sample.number), destination + i * inputs_.bytes(input));
    }
  }
  uint64_t sample_id(int64_t step, int64_t position) const override {
    const Sample sample = sample_at(step, position);
    return static_cast<uint64_t>(sample.source->samples_before + sample.number);
  }
  int64_t num_samples() const override { return sources_.back().samples_before + sources_.back().files.samples(); }
  Sampling sampling() const override { return sampling_; }
  int64_t tokens_per_sample() const override { return inputs_.sample_tokens(); }

  std::vector<std::string> description() const override {
    std::vector<std::string> lines;
    for (const Source& source : sources_) {
      lines.push_back(source.path + ": " + source.files.description());
      if (sources_.size() == 1) continue;
      char weight[40];
      std::snprintf(weight, sizeof weight, ", weight %g", source.weight);
      lines.back() += weight;
    }
    return lines;
  }

  // Every source has epochs of its own.
  std::string epoch_note(int64_t step, int64_t batch) const override {
    std::string note;
    const int64_t last = place_of(step, batch, batch - 1, kMostSamples).sample;
    const int64_t before = place_of(step, batch, 0, kMostSamples).sample;
    for (size_t s = 0; s < sources_.size(); ++s) {
      const int64_t samples = sources_[s].files.samples();
      const int64_t now = mixture_.count(s, last + 1), then = mixture_.count(s, before);
      if (now <= samples || (now - 1) / samples == (then > 0 ? (then - 1) / samples : 0)) continue;
      note += (note.empty() ? "'" : "; '") + sources_[s].path + "' begins again, epoch " +
              std::to_string((now - 1) / samples + 1);
    }
    return note;
  }

 private:
  struct Sample {
    const Source* source = nullptr;
    int64_t number = 0;
  };
  Sample sample_at(int64_t step, int64_t position) const {
    const Mixture::Draw draw = mixture_.draw(place_of(step, batch_, position, kMostSamples).sample);
    const Source& source = sources_[draw.source];
    const int64_t samples = source.files.samples(), place = draw.index % samples;
    switch (sampling_) {
      case Sampling::kSequential: return {&source, place};
      case Sampling::kShuffled: return {&source, permuted_sample(source.seed, draw.index / samples, samples, place)};
    }
    return {&source, place};
  }

  std::vector<Source> sources_;
  Mixture mixture_;
  TokenInputs inputs_;
  int64_t batch_;
  Sampling sampling_;
};

Result<Source> open_source(const plan::DataPath& data, const DataOptions& options, int64_t sample_tokens) {
  PIPER_RETURN_IF_ERROR(check_path(data.path));
  if (holds_tensors(data.path))
    return Status::failure("R0210", "'" + data.path + "' holds tensors; what is mixed are token streams");
  PIPER_ASSIGN(TokenFiles files, TokenFiles::open(data.path, options.token_dtype, sample_tokens));
  return Source{data.path, std::move(files), data.weight};
}

Status failure_of(const plan::DataPath& data, Status status) {
  return data.at.empty() ? std::move(status) : std::move(status).with_context("data of " + data.at);
}

}  // namespace

Result<std::unique_ptr<DataSource>> open_mixed_source(const DataOptions& options, const plan::Manifest& manifest) {
  std::vector<plan::DataPath> mix = options.mix;
  if (mix.empty()) mix = {{options.path, 1, ""}};
  PIPER_ASSIGN(TokenInputs inputs, TokenInputs::of(manifest, mix.front().path, options.document_end));
  std::vector<Source> sources;
  int64_t samples = 0;
  for (const plan::DataPath& data : mix) {
    auto opened = open_source(data, options, inputs.sample_tokens());
    if (!opened.ok()) return failure_of(data, opened.take_status());
    Source source = std::move(opened).value();
    if (!sources.empty() && source.files.element() != sources.front().files.element())
      return failure_of(data, Status::failure("R0210", "'" + data.path + "' holds " +
                                                           std::string(element_name(source.files.element())) +
                                                           " tokens, '" + mix.front().path + "' " +
                                                           std::string(element_name(sources.front().files.element())) +
                                                           ": set the type of all of them with --token-dtype"));
    source.seed = random_bits(options.seed, Purpose::kSource, sources.size(), 0);
    source.samples_before = samples;
    samples += source.files.samples();
    sources.push_back(std::move(source));
  }
  PIPER_RETURN_IF_ERROR(inputs.accept(sources.front().files.element()));
  return std::unique_ptr<DataSource>(
      std::make_unique<MixedSource>(std::move(sources), Mixture(weights_of(mix), options.seed), std::move(inputs),
                                    manifest.batch, options.sampling.value_or(Sampling::kShuffled)));
}

}  // namespace piper::data
